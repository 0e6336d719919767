//! Any number of CARs become one database, each block once, whatever the order and the form.

use std::path::PathBuf;

use crate::common::car::*;
use crate::common::model::{Key, Model, records};
use crate::common::run::{Done, Place, Run, import, import_all};
use crate::import::imports;

fn some(range: std::ops::Range<u64>) -> Vec<Block> {
    range.map(|i| block(&noise(i, 100 + (i * 37 % 900) as usize))).collect()
}

/// Shares of one set of blocks that overlap, one of them with duplicates, one without blocks.
fn shares() -> Vec<Vec<Block>> {
    let twice = [some(300..340), some(320..340), some(0..5)].concat();
    vec![some(0..400), some(200..700), Vec::new(), twice, some(650..1000)]
}

fn names(place: &Place, endings: &[&str], cars: &[Vec<u8>]) -> Vec<PathBuf> {
    let file = |(number, (ending, bytes)): (usize, (&&str, &Vec<u8>))| place.file(&format!("{number}{ending}"), bytes);
    endings.iter().zip(cars).enumerate().map(file).collect()
}

/// The shares, and a plain CAR of each.
fn plain_files() -> (Place, Vec<Vec<Block>>, Vec<PathBuf>) {
    let (place, shares) = (Place::new(), shares());
    let cars: Vec<_> = shares.iter().map(|blocks| rooted(blocks)).collect();
    let files = names(&place, &[".car"; 5], &cars);
    (place, shares, files)
}

/// The rows of the report are right, and sum up to the whole.
#[track_caller]
fn rows_are_right(done: &Done, sources: &[PathBuf], shares: &[Vec<Block>]) {
    let rows = done.json["sources"].as_array().expect("rows");
    assert_eq!(rows.len(), sources.len());
    let mut met = std::collections::HashSet::new();
    for ((row, source), blocks) in rows.iter().zip(sources).zip(shares) {
        // Those that occur earlier, in this share or in one before it.
        let duplicate = blocks.iter().filter(|(cid, _)| !met.insert(cid)).count() as u64;
        let bytes = source.metadata().map_or(row["bytes"].as_u64().unwrap_or_default(), |metadata| metadata.len());
        assert_eq!(row["path"], source.display().to_string());
        assert_eq!(row["bytes"], bytes);
        let read = blocks.len() as u64;
        let expected = serde_json::json!({ "read": read, "written": read - duplicate, "duplicate": duplicate });
        assert_eq!(row["blocks"], expected, "{row}");
    }
    let sum = |path: &str| {
        rows.iter().map(|row| row.pointer(path).and_then(|it| it.as_u64()).expect("a number")).sum::<u64>()
    };
    for path in ["/blocks/read", "/blocks/written", "/blocks/duplicate"] {
        assert_eq!(sum(path), done.number(path), "{path}");
    }
    assert_eq!(sum("/bytes"), done.number("/source/bytes"));
}

/// Every way that blocks can go, in small pieces.
const WAYS: [&[&str]; 6] = [
    &[],
    &["--plan", "memory", "--memory", "16M"],
    &["--plan", "spill", "--memory", "16M"],
    &["--plan", "source", "--memory", "16M"],
    &["--preset", "memtable", "--memory", "64M"],
    &["--key", "multihash", "--threads", "1"],
];

#[test]
fn order_of_sources_does_not_change_records() {
    let (place, shares, files) = plain_files();
    let bytes: u64 = files.iter().map(|file| file.metadata().expect("there").len()).sum();
    let planned = import_all(&place, &files).args(&["--dry-run"]).run();
    assert_eq!((planned.code, planned.number("/expected_bytes")), (Some(0), bytes));
    for (number, args) in WAYS.into_iter().enumerate() {
        let mut order: Vec<usize> = (0..shares.len()).collect();
        order.rotate_left(number % 5);
        if number % 2 == 1 {
            order.reverse();
        }
        let sources: Vec<_> = order.iter().map(|&at| files[at].clone()).collect();
        let ordered: Vec<_> = order.iter().map(|&at| shares[at].clone()).collect();
        let done = import_all(&place, &sources).args(args).run();
        let model = Model::new(&ordered.concat(), if args.contains(&"multihash") { Key::Multihash } else { Key::Cid });
        done.succeeded();
        assert_eq!(done.text("/digest"), model.digest(), "{args:?}");
        assert!(records(&done.db) == model.records, "{args:?}");
        rows_are_right(&done, &sources, &ordered);
        std::fs::remove_dir_all(&done.db).expect("a database");
    }
    // One CAR of the same blocks.
    let merged = place.file("merged.car", &rooted(&shares.concat()));
    let one = import(&place, merged.clone()).holds(&shares.concat());
    rows_are_right(&one, &[merged], &[shares.concat()]);
}

#[test]
fn sources_of_every_format_are_merged() {
    let place = Place::new();
    let shares = shares();
    let cars: Vec<_> = shares.iter().map(|blocks| rooted(blocks)).collect();
    let forest: Vec<u8> = cars[1].chunks(20_000).flat_map(zstd).chain(skippable(b"an index")).collect();
    let forms = [v2(&cars[0], 40, b"an index"), forest, gzip(&cars[2]), xz(&cars[3]), lz4(&cars[4])];
    let files = names(&place, &[".car", ".forest.car.zst", ".car.gz", ".car.xz", ".car.lz4"], &forms);
    for args in [&[][..], &["--plan", "spill", "--memory", "16M"], &["--preset", "memtable", "--memory", "64M"]] {
        let done = imports(import_all(&place, &files).args(args), &shares.concat());
        rows_are_right(&done, &files, &shares);
        assert_eq!(done.text("/source/compression"), "mixed");
    }
    // Standard input among them, and by a directory.
    let mut sources = files.clone();
    sources[3] = "-".into();
    let done = imports(import_all(&place, &sources).stdin(&cars[3]), &shares.concat());
    rows_are_right(&done, &sources, &shares);
    place.file("notes.txt", b"not a CAR");
    place.file(".5.car", b"an unfinished download");
    std::fs::create_dir(place.path("6.car")).expect("a folder");
    let done = import(&place, place.path("")).holds(&shares.concat());
    let paths: Vec<_> = done.json["sources"].as_array().expect("rows").iter().map(|row| row["path"].clone()).collect();
    assert_eq!(paths.len(), 5, "{paths:?}");
    assert!(paths.is_sorted_by_key(|path| path.to_string()));
}

#[test]
fn roots_are_found_across_sources() {
    let place = Place::new();
    let (a, b) = (some(0..10), some(10..20));
    let missing = block(b"not there");
    // Each names a root that only the other one has; the second also one that none has.
    let first = place.file("a.car", &car(&[b[0].0.clone(), a[0].0.clone()], &a));
    let second = place.file("b.car", &car(&[a[0].0.clone()], &b));
    let done = import_all(&place, &[&first, &second]).args(&["--links", "roots"]).succeeds();
    assert_eq!(done.roots(), [b[0].0.clone(), a[0].0.clone()], "each once");
    let roots = |number: usize| done.json["sources"][number]["roots"].as_array().map(Vec::len);
    assert_eq!((roots(0), roots(1)), (Some(2), Some(1)));
    std::fs::remove_dir_all(&done.db).expect("a database");
    std::fs::write(&second, car(&[missing.0], &b)).expect("written");
    let done = import_all(&place, &[&first, &second]).args(&["--links", "roots"]).run();
    done.refused_by(3, "a.car and 1 more: the blocks lack 1 of 3 roots");
}

#[test]
fn damaged_source_is_named_with_its_offset() {
    let (place, shares, mut files) = plain_files();
    let good = std::fs::read(&files[1]).expect("a CAR");
    let mut bad = good.clone();
    let last = bad.len() - 1;
    bad[last] ^= 1;
    let start = good.len() - section(shares[1].last().expect("a block")).len();
    let cases: [(&[u8], u64, &str); 4] = [
        (&bad, start as u64, "does not match its hash"),
        (&good[..good.len() - 7], good.len() as u64 - 7, "ends inside a block"),
        (b"<html>no snapshot", 0, "not a CAR"),
        (&zstd(&good)[..3000], 3000, "ends"),
    ];
    for args in WAYS {
        for (bytes, offset, reason) in cases {
            files[1] = place.file("bad.car", bytes);
            let is_compressed = bytes.starts_with(&[0x28, 0xb5]);
            if is_compressed && args.contains(&"source") {
                continue;
            }
            let done = import_all(&place, &files).args(args).at_fault(&files[1]).run();
            done.refused(3, offset, reason);
        }
    }
    // Two blocks under one key.
    let other = vec![(shares[0][7].0.clone(), b"another block".to_vec())];
    for args in [&["--verify", "none"][..], &["--verify", "none", "--plan", "spill", "--memory", "16M"]] {
        files[1] = place.file("other.car", &rooted(&other));
        let done = import_all(&place, &files).args(args).at_fault(&files[1]).run();
        done.refused(3, None, "two different blocks have the key ");
    }
}

#[test]
fn invalid_sources_are_refused_before_reading() {
    let (place, a) = Place::with_file("a.car", &rooted(&some(0..10)));
    std::fs::hard_link(&a, place.path("b.car")).expect("linked");
    let empty = place.dir("empty");
    let log = place.file("block_log", &crate::common::log::raw(&crate::common::log::steem(1, 20, 3)));
    let pipe = place.path("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).expect("a pipe");
    let nothing = place.file("nothing.car", b"");
    let packed = place.file("z.car.zst", &zstd(&rooted(&some(0..10))));
    let circle = place.path("loop.car");
    std::os::unix::fs::symlink("loop.car", &circle).expect("a link");
    let (linked, absent, stdin) = (place.path("b.car"), place.path("none.car"), PathBuf::from("-"));
    let none = "no CAR (*.car, *.car.zst, *.car.gz, *.car.xz, *.car.lz4) and no block log is in this directory";
    for (sources, code, reason) in [
        (&[&a, &a][..], 2, "one file is named twice"),
        (&[&a, &linked], 2, "one file is named twice"),
        (&[&stdin, &a, &stdin], 2, "standard input, is named twice"),
        (&[&pipe, &a, &pipe], 2, "one file is named twice"),
        (&[&a, &absent], 3, "none.car: there is no such file"),
        (&[&a, &nothing], 3, "nothing.car at byte 0: the file is empty"),
        (&[&a, &log], 2, "is a block log and must be imported alone"),
        (&[&log, &a], 2, "is a block log and must be imported alone"),
        (&[&a, &empty], 3, "no CAR"),
        (&[&empty], 3, none),
        (&[&circle], 3, "loop.car: its links lead in a circle"),
        (&[&a, &circle], 3, "loop.car: its links lead in a circle"),
        (&[&a, &packed], 0, ""),
    ] {
        import_all(&place, sources).run().refused_by(code, reason);
    }
    assert!(import(&place, circle).run().hint().contains("namei -l"));
    import_all(&place, &[a, packed]).args(&["--plan", "source"]).run().refused_by(2, "the plan `source` needs");
}

#[test]
fn directory_import_skips_only_hidden_files() {
    let place = Place::new();
    let dir = place.path("cars");
    std::fs::create_dir_all(dir.join("folder.car")).expect("a folder");
    std::fs::write(dir.join("a.car"), rooted(&some(0..10))).expect("written");
    std::fs::write(dir.join("B.CAR"), rooted(&some(10..20))).expect("written");
    std::fs::write(dir.join(".c.car"), "an unfinished download").expect("written");
    let done = import_all(&place, std::slice::from_ref(&dir)).succeeds();
    assert_eq!(done.number("/blocks/read"), 20);
    let link = dir.join("d.car");
    std::os::unix::fs::symlink("/not-mounted/d.car", &link).expect("a link");
    let fresh = || import_all(&place, std::slice::from_ref(&dir)).db(place.path("db2")).run();
    fresh().refused_by(3, "d.car: there is no such file");
    std::fs::remove_file(&link).expect("it is there");
    rustix::fs::mknodat(rustix::fs::CWD, &link, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    fresh().refused_by(3, "d.car: it is named like a CAR, but is not a file");
}

#[test]
fn list_file_names_sources() {
    let (place, shares, files) = plain_files();
    let text: String = files[1..].iter().map(|path| format!("{}\r\n\n# a comment\n", path.display())).collect();
    let list = place.file("list", text.as_bytes());
    let at = format!("@{}", list.display());
    let first = files[0].display().to_string();
    for run in [import_all(&place, &[&first, &at]), import_all(&place, &[&*first, "@-"]).stdin(text.as_bytes())] {
        rows_are_right(&imports(run, &shares.concat()), &files, &shares);
    }
    import_all(&place, &["-", "@-"]).stdin(text.as_bytes()).run().refused_by(2, "standard input");
    place.file("list", b"# nothing\n");
    import_all(&place, &[&at]).run().refused_by(2, "names nothing");
    import_all(&place, &["@/none/of/it"]).run().refused_by(3, "open /none/of/it");
}

#[test]
fn errors_in_a_list_name_the_line() {
    let (place, a) = Place::with_file("a.car", &rooted(&some(0..10)));
    let a = a.display();
    let long = vec![b'x'; 15_000_000];
    let cases: [(Vec<u8>, i32, &str); 8] = [
        (format!("{a}\n\n{a}.gone\n").into(), 3, "list:3: cannot read "),
        (format!("{a}\n# {a}\n{a}\n").into(), 2, "list:1, "),
        (format!("{a}\n# {a}\n{a}\n").into(), 2, "list:3: one file is named twice"),
        (format!("{a}\0{a}\0").into(), 2, "list:1: a name cannot contain NUL"),
        (
            [format!("{a}\n").as_bytes(), &long].concat(),
            2,
            "list:2: the line is longer than any name, which has up to 4095",
        ),
        ([&b"https://host/"[..], &long].concat(), 2, "list:1: the line is longer than any name, which has up to 8192"),
        ([b" ", "x".repeat(299).as_bytes()].concat(), 2, "the path of a source contains a name of 300 bytes"),
        (rooted(&some(0..10)), 2, "list:1: a name cannot contain NUL"),
    ];
    for (text, code, words) in cases {
        let list = place.file("list", &text);
        let done = import_all(&place, &[format!("@{}", list.display())]).run();
        done.refused_by(code, words);
        assert!(done.stderr.len() < 2000, "{} bytes", done.stderr.len());
    }
    let done = import(&place, "x".repeat(100_000)).run();
    done.refused_by(2, "the path of a source has 100000 bytes");
    assert!(done.stderr.len() < 5000, "{} bytes", done.stderr.len());
    // A name may begin with a blank.
    std::fs::copy(place.path("a.car"), place.path(" b.car")).expect("copied");
    let list = place.file("list", b" b.car");
    let run = import_all(&place, &[format!("@{}", list.display())]);
    run.within_folder(&place.path("")).succeeds();
}

#[test]
fn hundreds_of_sources_need_few_descriptors() {
    let place = Place::new();
    let dir = place.dir("diffs");
    let mut all = Vec::new();
    for i in 0..300u64 {
        let blocks = some(i * 3..i * 3 + 5);
        let bytes = rooted(&blocks);
        let (ending, bytes) = if i % 3 == 0 { ("car.zst", zstd(&bytes)) } else { ("car", bytes) };
        std::fs::write(dir.join(format!("{i:03}.{ending}")), bytes).expect("room");
        all.extend(blocks);
    }
    let ways: [&[&str]; 3] =
        [&[], &["--plan", "spill", "--memory", "16M"], &["--preset", "memtable", "--memory", "64M"]];
    for args in ways {
        let done = imports(import(&place, &dir).args(args).with_files(90), &all);
        assert_eq!(done.json["sources"].as_array().map(Vec::len), Some(300));
        let rows = done.json["sources"].as_array().expect("rows").iter();
        let sum: Option<u64> = rows.map(|row| row["blocks"]["duplicate"].as_u64()).sum();
        assert_eq!(sum, Some(done.number("/blocks/duplicate")));
    }
    // Blocks that stay in their files.
    for i in (0..300).step_by(3) {
        let packed = dir.join(format!("{i:03}.car.zst"));
        std::fs::write(packed.with_extension(""), unpacked(&std::fs::read(&packed).expect("there"))).expect("room");
        std::fs::remove_file(packed).expect("ours");
    }
    import(&place, &dir).args(&["--plan", "source", "--memory", "16M"]).with_files(90).holds(&all);
}

/// Imports that differ in how the bytes come; the source is not named on them.
fn ways_of_one(place: &Place, name: &str, bytes: &[u8]) -> Vec<Run> {
    let file = place.file(name, bytes);
    let mut all: Vec<_> =
        [&[][..], &["--plan", "spill", "--memory", "16M"], &["--plan", "source"], &["--preset", "memtable"]]
            .into_iter()
            .map(|args| import(place, &file).args(args))
            .collect();
    all.push(import(place, place.file("packed.car.zst", &bytes.chunks(5000).flat_map(zstd).collect::<Vec<_>>())));
    all.push(import(place, "-").stdin(bytes));
    all
}

#[test]
fn concatenated_cars_need_the_option() {
    let place = Place::new();
    let shares = shares();
    let cars: Vec<_> = shares.iter().map(|blocks| rooted(blocks)).collect();
    let joined = [&cars[0][..], &v2(&cars[1], 5, &[]), &v2(&cars[2], 0, &[]), &cars[3], &cars[4]].concat();
    let ways = || ways_of_one(&place, "joined.car", &joined).into_iter();
    for (with, without) in ways().zip(ways()) {
        let done = imports(with.args(&["--concatenated"]), &shares.concat());
        assert_eq!(done.roots().len(), 4, "those of all headers");
        let done = without.run();
        done.refused(3, cars[0].len() as u64, "two CARs in one file");
        assert!(done.hint().contains("--concatenated"), "{done:?}");
    }
    // Behind the data of a CARv2.
    let second = [v2(&cars[0], 0, &[]), cars[1].clone()].concat();
    for run in ways_of_one(&place, "second.car", &second) {
        run.run().refused(3, second.len() as u64 - cars[1].len() as u64, "two CARs in one file");
    }
    let indexed = [v2(&cars[0], 0, b"an index"), cars[1].clone()].concat();
    let done = import(&place, place.file("indexed.car", &indexed)).args(&["--concatenated"]).run();
    done.refused(3, indexed.len() as u64 - cars[1].len() as u64 - 8, "the bytes after the data of this CARv2");
    // Bytes other than a header are reported as before.
    let mut version = cars[0].clone();
    version.extend([3, 0xa2, 0x65, b'r']);
    for args in [&[][..], &["--concatenated"]] {
        let done = import(&place, place.file("version.car", &version)).args(args).run();
        done.refused(3, cars[0].len() as u64 + 1, "CID version");
    }
    let cut = &joined[..cars[0].len() + 20];
    let done = import(&place, place.file("cut.car", cut)).args(&["--concatenated"]).run();
    done.refused(3, cut.len() as u64, "ends inside");
}

#[test]
fn several_sources_are_added_to_database() {
    let (place, shares, files) = plain_files();
    import(&place, &files[0]).holds(&shares[0]);
    for args in [&[][..], &["--preset", "memtable"]] {
        let done = import_all(&place, &files).args(&["--into-existing"]).args(args).succeeds();
        rows_are_right(&done, &files, &shares);
        let model = Model::new(&shares.concat(), Key::Cid);
        assert!(records(&done.db) == model.records, "{args:?}");
    }
}
