//! Importing streams of records.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crc_fast::CrcAlgorithm;
use predicates::str::contains;

use super::rebuild::records as stored;
use crate::common::database::{bedload, json};
use crate::common::run::{self, Place};
use crate::common::skipped;

pub type Item<'a> = (usize, &'a [u8], &'a [u8]);
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A `kv` stream, without its trailer.
pub fn unfinished(families: &[&str], sorted: bool, items: &[Item<'_>]) -> Vec<u8> {
    let number = |number: usize| (number as u32).to_le_bytes();
    let part = |text: &[u8]| [&number(text.len()), text].concat();
    let mut bytes = b"BEDLOADK".to_vec();
    [1, usize::from(sorted), families.len()].into_iter().for_each(|field| bytes.extend(number(field)));
    families.iter().for_each(|name| bytes.extend(part(name.as_bytes())));
    let mut now = 0;
    for (family, key, value) in items {
        if std::mem::replace(&mut now, *family) != *family {
            bytes.extend([number(0xFFFF_FFFE), number(*family)].concat());
        }
        bytes.extend(part(key));
        bytes.extend(part(value));
    }
    bytes
}

/// The trailer of a stream.
pub fn trailer(stream: &[u8], records: usize) -> Vec<u8> {
    let crc = crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, stream) as u32;
    [&[0xFF; 4][..], &(records as u64).to_le_bytes(), &crc.to_le_bytes()].concat()
}

pub fn kv(families: &[&str], sorted: bool, items: &[Item<'_>]) -> Vec<u8> {
    let mut bytes = unfinished(families, sorted, items);
    bytes.extend(trailer(&bytes, items.len()));
    bytes
}

/// The text of `ldb --hex dump`.
pub fn dump<'a>(items: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> String {
    let mut text = String::new();
    let mut count = 0;
    for (key, value) in items {
        let hex = |bytes: &[u8]| data_encoding::HEXUPPER.encode(bytes);
        text.push_str(&format!("0x{} ==> 0x{}\n", hex(key), hex(value)));
        count += 1;
    }
    format!("{text}Keys in range: {count}\n")
}

pub fn import<P: AsRef<Path>>(sources: &[P], db: &Path) -> assert_cmd::Command {
    let mut command = bedload();
    command.arg("import").args(sources.iter().map(AsRef::as_ref)).arg("--db").arg(db).arg("--quiet");
    command
}

pub fn refused(source: &Path, db: &Path, more: &[&str], code: i32, words: &str) {
    import(&[source], db).args(more).assert().code(code).stderr(contains(words)).stderr(contains("\nhint: "));
    assert!(!db.exists() && !db.with_added_extension("partial").exists(), "{words}");
}

/// Keys of several kinds.
fn keys(kind: usize, count: u32) -> Vec<Vec<u8>> {
    let mixed = |number: u32| number.wrapping_mul(2_654_435_761).to_be_bytes();
    let key = |number: u32| match kind {
        0 => mixed(number).repeat(8),
        1 => u64::from(number).to_be_bytes().to_vec(),
        2 => [&[7; 64][..], &mixed(number)].concat(),
        3 => [&(number / 1000).to_be_bytes()[..], &mixed(number)].concat(),
        4 => mixed(number)[..(number as usize % 5)].to_vec(),
        5 => vec![number as u8],
        6 => b"one key".to_vec(),
        _ => vec![0; number as usize % 3000],
    };
    (0..count).map(key).collect()
}

/// A value that depends on the key.
fn value_of(key: &[u8]) -> Vec<u8> {
    let sum = key.iter().fold(key.len(), |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    vec![sum as u8; sum % 700]
}

#[test]
fn families_get_their_records_and_options() {
    let place = Place::in_memory();
    let items: [Item<'_>; 6] =
        [(1, b"b", b"2"), (0, b"", b""), (1, b"a", b"1"), (2, b"z", b"9"), (1, b"a", b"1"), (0, b"\0", b"x")];
    let (source, db) = (place.file("a.kv", &kv(&["default", "\n", "three"], false, &items)), place.path("db"));
    let report = run::json(import(&[&source], &db).args(["--set", "cf.three.compression=kZSTD"]), 0);
    assert_eq!(report["source"]["format"], "kv");
    assert_eq!((report["blocks"]["read"].as_u64(), report["blocks"]["duplicate"].as_u64()), (Some(6), Some(1)));
    let all = stored(&db);
    let of = |name: &str| all[name].iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect::<Vec<_>>();
    assert_eq!(of("default"), [(&b""[..], &b""[..]), (b"\0", b"x")]);
    assert_eq!(of("\n"), [(&b"a"[..], &b"1"[..]), (b"b", b"2")]);
    assert_eq!(of("three"), [(&b"z"[..], &b"9"[..])]);
    let options = bedload().args(["stat", "--json"]).arg(&db).output().expect("run").stdout;
    assert!(String::from_utf8_lossy(&options).contains("kZSTD"));
    json(&["verify"], &db, &[], 0);
    import(&[&source], &place.path("x")).args(["--set", "cf.none.compression=kZSTD"]).assert().code(2);
    let output = import(&[&source], &place.path("x")).args(["--set", "cf.three.compresion=kZSTD"]).assert().code(2);
    output.stderr(contains("option cf.three.compresion=kZSTD: ")).stderr(contains("write `cf.three.compression`"));
    refused(&source, &place.path("x"), &["--column-family", "other"], 2, "names its column family");
}

#[test]
fn report_has_the_options_of_a_family() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["one"], false, &[(0, b"a", b"")]));
    let report = run::json(import(&[&source], &place.path("db")).args(["--set", "cf.one.compression=kZSTD"]), 0);
    let options = report["options"].as_array().expect("a list");
    let row = options.iter().find(|row| row["option"] == "cf.compression").expect("a row");
    assert_eq!((&row["value"], &row["from"]), (&"kZSTD".into(), &"option node.cf.compression=kZSTD".into()));
}

#[test]
fn every_kind_of_keys_is_sorted() {
    for kind in 0..8 {
        let place = Place::in_memory();
        // Long keys take as much memory with fewer records.
        let keys = keys(kind, if kind == 7 { 12_000 } else { 30_000 });
        let values: Vec<Vec<u8>> = keys.iter().map(|key| value_of(key)).collect();
        let items: Vec<Item<'_>> = keys
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(at, (key, value))| (at * 3 / keys.len() / 2, &key[..], &value[..]))
            .collect();
        let source = place.file("a.kv", &kv(&["default", "second"], false, &items));
        let mut halves = [Model::new(), Model::new()];
        items.iter().for_each(|(family, key, value)| drop(halves[*family].insert(key.to_vec(), value.to_vec())));
        assert_eq!(halves[0].len().max(halves[1].len()), halves[0].len());
        for memory in ["16MiB", "1GiB"] {
            let db = place.path(memory);
            let report = run::json(import(&[&source], &db).args(["--memory", memory]), 0);
            let all = stored(&db);
            assert_eq!((&all["default"], &all["second"]), (&halves[0], &halves[1]), "{kind}, {memory}");
            assert_eq!(report["blocks"]["read"].as_u64(), Some(keys.len() as u64));
            json(&["verify"], &db, &["--against", source.to_str().expect("text")], 0);
        }
    }
}

#[test]
fn formats_may_be_combined() {
    let place = Place::in_memory();
    let first = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1"), (0, b"c", b"3")]));
    let text = format!("Created bg thread 0x7f00\n{}", dump([(&b"b"[..], &b"2"[..]), (b"\xff\0", b"")]));
    let second = place.file("b.txt", text.as_bytes());
    let info = b"{\"database-path\": \"x\"}";
    let number = |number: usize| (number as u32).to_le_bytes();
    let rock =
        [&b"ROCKDUMP\0\0\0\0\0\0\0\x01"[..], &number(info.len()), info, &number(1), b"d", &number(1), b"4"].concat();
    let third = place.file("c.dump", &rock);
    let sources = [&first, &second, &third];
    let reason = "ROCKDUMP has no mark at its end";
    import(&sources, &place.path("db")).assert().code(3).stderr(contains(reason));
    let report = run::json(import(&sources, &place.path("db")).arg("--allow-no-trailer"), 0);
    let expected: Model = [(&b"a"[..], &b"1"[..]), (b"b", b"2"), (b"c", b"3"), (b"d", b"4"), (b"\xff\0", b"")]
        .map(|(k, v)| (k.into(), v.into()))
        .into();
    assert_eq!(stored(&place.path("db"))["default"], expected);
    let counts: Vec<_> = (0..3).map(|at| report["sources"][at]["blocks"]["read"].as_u64()).collect();
    assert_eq!(counts, [Some(2), Some(2), Some(1)]);
    let named = place.path("named");
    import(&[&second], &named).args(["--column-family", "texts"]).assert().success();
    assert_eq!(stored(&named)["texts"].len(), 2);
    let car = place.file("x.car", &crate::common::car::rooted(&[crate::common::car::block(b"x")]));
    import(&[&first, &car], &place.path("x")).assert().code(3).stderr(contains("it is no stream of records"));
}

#[test]
fn duplicates_follow_the_order_of_sources() {
    let place = Place::in_memory();
    let filler: Vec<Vec<u8>> = keys(0, 60_000);
    let filled = |value: &'static [u8]| -> Vec<u8> {
        let mut items: Vec<Item<'_>> = filler.iter().map(|key| (0, &key[..], &b"filler"[..])).collect();
        items.insert(40_000, (0, b"key", value));
        kv(&["default"], false, &items)
    };
    let (one, two) = (place.file("1.kv", &filled(b"first")), place.file("2.kv", &filled(b"last")));
    let same = place.file("3.kv", &filled(b"first"));
    for memory in ["16MiB", "1GiB"] {
        for (sources, how, expected) in [
            ([&one, &two], "first", Ok("first")),
            ([&one, &two], "last", Ok("last")),
            ([&two, &one], "last", Ok("first")),
            ([&one, &same], "same", Ok("first")),
            ([&one, &two], "same", Err("has another value at byte ")),
            ([&one, &same], "error", Err("has the same value at byte ")),
        ] {
            let db = place.path("db");
            let mut command = import(&sources, &db);
            let done = command.args(["--duplicates", how, "--memory", memory]).assert();
            match expected {
                Ok(value) => {
                    done.success();
                    let found = &stored(&db)["default"];
                    assert_eq!((found[&b"key"[..]].as_slice(), found.len()), (value.as_bytes(), 60_001), "{how}");
                    std::fs::remove_dir_all(&db).expect("removed");
                }
                Err(words) => drop(
                    done.code(3)
                        .stderr(contains(words))
                        .stderr(contains("1.kv"))
                        .stderr(contains("keeps one of the records")),
                ),
            }
        }
    }
    // Which of the keys is reported first depends on their order; only one differs.
    let at = unfinished(
        &["default"],
        false,
        &filler[..40_000].iter().map(|key| (0, &key[..], &b"filler"[..])).collect::<Vec<_>>(),
    )
    .len();
    let words =
        format!("{} at byte {at}: the key 0x6b6579 has another value at byte {at} of {}", two.display(), one.display());
    import(&[&one, &two], &place.path("db")).assert().code(3).stderr(contains(words));
    import(&[&one], &place.path("car")).args(["--duplicates", "last"]).assert().success();
}

#[test]
fn sorted_records_are_checked() {
    let place = Place::in_memory();
    let keys: Vec<Vec<u8>> = (0..90_000u32).map(|number| number.to_be_bytes().repeat(10)).collect();
    let all: Vec<Item<'_>> =
        keys.iter().enumerate().map(|(at, key)| (at / 50_000, &key[..], &key[..at % 40])).collect();
    let source = place.file("a.kv", &kv(&["a", "b"], true, &all));
    for memory in ["16MiB", "1GiB"] {
        let db = place.path(memory);
        let report = run::json(import(&[&source], &db).args(["--memory", memory]), 0);
        assert_eq!(report["plan"]["records"]["is_sorted"], true);
        let found = stored(&db);
        assert_eq!((found["a"].len(), found["b"].len()), (50_000, 40_000));
        assert!(found["b"].iter().all(|(key, value)| key.starts_with(value)));
        json(&["verify"], &db, &[], 0);
    }
    for (at, other) in [(1, 0), (45_000, 45_001), (89_999, 3), (60_000, 59_999)] {
        let mut wrong = all.clone();
        wrong[at] = wrong[other];
        let words = "the header says that the records are sorted";
        refused(
            &place.file("w.kv", &kv(&["a", "b"], true, &wrong)),
            &place.path("x"),
            &["--memory", "16MiB"],
            3,
            words,
        );
    }
    let items: [Item<'_>; 4] = [(0, b"c", b""), (0, b"d", b""), (0, b"a", b""), (0, b"b", b"")];
    let at = unfinished(&["a"], true, &items[..2]).len();
    let words =
        format!("at byte {at}: the header says that the records are sorted, and this one, with the key 0x61, is");
    refused(&place.file("w.kv", &kv(&["a"], true, &items)), &place.path("x"), &[], 3, &words);
    let back: [Item<'_>; 2] = [(1, b"a", b""), (0, b"b", b"")];
    refused(&place.file("w.kv", &kv(&["a", "b"], true, &back)), &place.path("x"), &[], 3, "are sorted");
}

#[test]
fn every_cut_is_refused() {
    let place = Place::in_memory();
    let whole = kv(&["default", "b"], false, &[(0, b"key", b"value"), (1, b"", b""), (0, b"k", b"v")]);
    for len in 0..whole.len() {
        let source = place.file("cut.kv", &whole[..len]);
        let output = import(&[&source], &place.path("db")).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(3) && text.contains("\nhint: "), "{len}: {text}");
        assert!(!place.path("db").exists(), "{len}");
    }
    let text = dump([(&b"key"[..], &b"value"[..]), (b"", b"")]);
    for len in 1..text.len() {
        let source = place.file("cut.txt", &text.as_bytes()[..len]);
        import(&[&source], &place.path("db")).assert().code(3);
        assert!(!place.path("db").exists(), "{len}");
    }
}

#[test]
fn bad_streams_are_refused_with_their_place() {
    let place = Place::in_memory();
    let start = unfinished(&["default"], false, &[(0, b"a", b"1")]);
    let with = |more: &[&[u8]]| [&start[..], &more.concat()].concat();
    let good = with(&[&trailer(&start, 1)]);
    let mut flipped = good.clone();
    flipped[start.len() - 1] ^= 1;
    let max = u32::MAX.to_le_bytes();
    let text = |line: &str| format!("0x00 ==> 0x00\n{line}\nKeys in range: 2\n").into_bytes();
    for (bytes, words) in [
        (start.clone(), "it has no trailer"),
        (with(&[&trailer(&start, 2)]), "says that it has 2 records, and 1 came"),
        (flipped, "its CRC-32 is "),
        ([&good[..], b"x"].concat(), "more bytes follow the trailer"),
        (with(&[&0x1_0000u32.to_le_bytes()]), "a key of 65536 bytes"),
        (with(&[&1u32.to_le_bytes(), b"k", &max]), "a value of 4294967295 bytes"),
        (
            with(&[&0xFFFF_FFFEu32.to_le_bytes(), &1u32.to_le_bytes()]),
            "there is no column family 1: the header names 1, counted from 0",
        ),
        (b"BEDLOADK\x02\0\0\0\0\0\0\0".to_vec(), "version 2 of kv"),
        (text("0x0 ==> 0x00"), "a key is not `0x` and pairs of hex digits"),
        // Text of `ldb dump` without `--hex`, of keys that are text like this.
        (text("0x00ab ==> 0x00"), "a key is not `0x` and pairs of hex digits with capital letters"),
        (text("0x00 ==> 0x00\r"), "CR and LF"),
        (b"0x00 ==> 0x00\nKeys in range: 2\n".to_vec(), "says that it has 2 records, and 1 came"),
        (b"key ==> value\nKeys in range: 1\n".to_vec(), "without `--hex`"),
        (b"0x00 ==> 0x00\nKeys in range: 1\n0x01 ==> 0x00\nKeys in range: 1\n".to_vec(), "more text follows"),
    ] {
        refused(&place.file("bad", &bytes), &place.path("db"), &[], 3, words);
    }
}

#[test]
fn options_of_other_sources_are_refused() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1")]));
    for more in [
        &["--key", "digest"][..],
        &["--links", "check"],
        &["--shard", "0/2"],
        &["--verify", "none"],
        &["--preset", "memtable"],
        &["--plan", "spill"],
        &["--into-existing"],
        &["--from", "3"],
    ] {
        let output = import(&[&source], &place.path("db")).args(more).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(2 | 4)) && text.contains("hint: "), "{more:?}: {text}");
    }
    let car = place.file("x.car", &crate::common::car::rooted(&[crate::common::car::block(b"x")]));
    import(&[&car], &place.path("db")).args(["--duplicates", "last"]).assert().code(2).stderr(contains("on a CAR"));
}

#[test]
fn pipes_and_compressed_streams_are_read() {
    let place = Place::in_memory();
    let keys = keys(0, 5000);
    let items: Vec<Item<'_>> = keys.iter().map(|key| (0, &key[..], &key[..5])).collect();
    let bytes = kv(&["default"], false, &items);
    let packed = zstd::encode_all(&bytes[..], 1).expect("packed");
    for (name, bytes) in [("plain", &bytes), ("packed", &packed)] {
        let db = place.path(name);
        import(&["-"], &db).write_stdin(bytes.clone()).assert().success();
        assert_eq!(stored(&db)["default"].len(), 5000);
        let (file, db) = (place.file(&format!("{name}.kv"), bytes), place.path(&format!("{name}-file")));
        import(&[&file], &db).assert().success();
        assert_eq!(stored(&db)["default"].len(), 5000);
    }
    // A producer that dies.
    import(&["-"], &place.path("x")).write_stdin(bytes[..bytes.len() - 40].to_vec()).assert().code(3);
    let mut list = std::fs::File::create(place.path("list")).expect("a list");
    writeln!(list, "{}", place.path("plain.kv").display()).expect("written");
    import(&[PathBuf::from(format!("@{}", place.path("list").display()))], &place.path("y")).assert().success();
}

#[test]
fn stream_is_compared_with_its_database() {
    let place = Place::in_memory();
    let source = place.file("a.kv", &kv(&["default", "b"], false, &[(0, b"a", b"1"), (1, b"k", b"v")]));
    let other = place.file("b.kv", &kv(&["default", "b"], false, &[(0, b"a", b"2"), (1, b"k", b"v")]));
    let db = place.path("db");
    import(&[&source], &db).assert().success();
    let against = |path: &Path, code| json(&["verify"], &db, &["--against", path.to_str().expect("text")], code);
    assert_eq!(against(&source, 0)["against"]["same"].as_u64(), Some(2));
    assert_eq!(against(&other, 3)["problems"]["kinds"]["differs"].as_u64(), Some(1));
    bedload().arg("verify").arg(&db).args(["--column-family", "b"]).assert().code(2).stderr(contains("as a whole"));
    let left: Vec<_> = place.path("").read_dir().expect("listed").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("verify")), "{left:?}");
}

#[test]
fn several_streams_are_compared_together() {
    let place = Place::in_memory();
    let one = place.file("a.kv", &kv(&["default"], false, &[(0, b"a", b"1"), (0, b"b", b"2")]));
    let two = place.file("b.kv", &kv(&["default"], false, &[(0, b"b", b"3")]));
    let db = place.path("db");
    import(&[&one, &two], &db).args(["--duplicates", "last"]).assert().success();
    let [one, two] = [&one, &two].map(|path| path.to_str().expect("text"));
    let both = json(&["verify"], &db, &["--against", one, "--against", two], 0);
    assert_eq!((both["against"]["same"].as_u64(), &both["verdict"]), (Some(2), &"confirmed".into()));
    let swapped = json(&["verify"], &db, &["--against", two, "--against", one], 3);
    assert_eq!(swapped["problems"]["kinds"]["differs"].as_u64(), Some(1));
    assert_eq!(json(&["verify"], &db, &["--against", one], 3)["valid"], false);
}

#[test]
fn summary_names_records_and_families() {
    let place = Place::in_memory();
    let items: [Item<'_>; 3] = [(1, b"b", b"2"), (0, b"a", b"1"), (1, b"a", b"1")];
    let (source, db) = (place.file("a.kv", &kv(&["default", "two"], false, &items)), place.path("db"));
    let output = import(&[&source], &db).output().expect("run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for words in
        ["3 read, 3 written, 0 duplicate", "every record that was read", "default: 1 record, ", "two: 2 records, "]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("block"), "{text}");
}

#[test]
fn interrupted_pipe_starts_over() {
    let place = Place::in_memory();
    let many: Vec<Vec<u8>> = (0..30_000u32).map(|number| number.to_be_bytes().to_vec()).collect();
    let items: Vec<Item<'_>> = many.iter().map(|key| (0, key.as_slice(), &[7; 1000][..])).collect();
    let (stream, db) = (kv(&["default"], false, &items), place.path("db"));
    let cut = stream[..stream.len() - 9].to_vec();
    let piped = |stream: Vec<u8>| {
        let mut command = import(&["-"], &db);
        command.args(["--memory", "16MiB"]).write_stdin(stream);
        command
    };
    piped(stream.clone()).env("BEDLOAD_ABORT_AT", "run").assert().failure();
    assert!(db.with_added_extension("partial").exists());
    piped(cut).assert().code(3).stderr(contains("starts over"));
    piped(stream).assert().success();
    assert_eq!(stored(&db)["default"].len(), many.len());
}

/// Each program of the page writes two records.
#[test]
fn writers_of_the_page_are_read() {
    let page = std::fs::read_to_string("docs/kv.md").expect("the page");
    for (language, file, build) in [
        ("python", "a.py", None),
        ("c", "a.c", Some(("cc", &["-O1", "-o"][..]))),
        ("rust", "a.rs", Some(("rustc", &["--edition", "2021", "-o"]))),
        ("go", "a.go", Some(("go", &["build", "-o"]))),
    ] {
        let place = Place::in_memory();
        let (_, rest) = page.split_once(&format!("```{language}\n")).expect("a program");
        let (program, _) = rest.split_once("```").expect("its end");
        let source = place.file(file, program.as_bytes());
        let mut command = match build {
            None => {
                let mut command = run::hermetic("python3");
                command.arg(&source);
                command
            }
            Some((compiler, args)) => {
                let made =
                    std::process::Command::new(compiler).args(args).arg(place.path("program")).arg(&source).status();
                if !made.as_ref().is_ok_and(std::process::ExitStatus::success) {
                    assert!(made.is_err(), "{compiler} refuses the program of the page");
                    skipped(format_args!("it needs {compiler}"));
                    continue;
                }
                run::hermetic(place.path("program"))
            }
        };
        let stream = command.output().expect("it runs").stdout;
        import(&["-"], &place.path("db")).write_stdin(stream).assert().success();
        let expected: Model =
            [(b"a", b"one"), (b"b", b"two")].map(|(key, value)| (key.to_vec(), value.to_vec())).into();
        assert_eq!(stored(&place.path("db"))["default"], expected, "{language}");
    }
}
