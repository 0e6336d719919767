//! Peak memory with inputs that are made to exceed the budget: tiny records, large blocks, many roots, many files, keys that
//! begin alike, bombs. Each row is one input and one way to load it. An import keeps the budget plus 64 MiB, or is refused with
//! the budget that it needs, and it reads and writes no more than a multiple of its input.
//!
//! Always: the rows that are marked, with 64 MiB. `BEDLOAD_LONG_TESTS=1`: all rows with 64 MiB, 256 MiB and 1 GiB.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::common::car::{BLAKE2B_256, DAG_CBOR, RAW, cid, header, noise, section, varint};
use crate::common::crash::{is_long, rounds};
use crate::common::run::{Place, bedload};
use crate::import::records::{Item, dump, kv};
use crate::memory::{FIXED, MIB, Measured, create, generate_steem, import, measured};

/// An input, whose size follows from the budget.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Input {
    Tiny,
    /// Twenty blocks of a share of the budget, given as its reciprocal.
    Large(f64),
    /// Large blocks whose digests begin alike: they are one partition.
    LargeAlike(f64),
    /// One block of a share of the budget among small ones.
    OneLarge(f64),
    /// Small blocks whose digests begin alike.
    Alike,
    /// One block again and again.
    Same,
    /// A header with so many roots.
    Roots(usize),
    /// So many CARs of one block.
    Files(usize),
    /// Identity CIDs of so many bytes.
    Identity(usize),
    /// Zeros, compressed.
    Bomb,
    Log,
    /// A stream of keys of so many bytes, of which they share the first half.
    Keys(usize),
}
use Input::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Plain,
    Pipe,
    Zstd,
    Gzip,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ends {
    Well,
    /// With a message that contains this text.
    Refused(&'static str),
    /// The one or the other, by the budget.
    Either(&'static str),
}
use Ends::*;

struct Row {
    input: Input,
    way: Way,
    threads: &'static str,
    /// Write buffers of a preset take three quarters of the budget.
    preset: Option<(&'static str, u64)>,
    args: &'static [&'static str],
    ends: Ends,
    /// Runs always.
    short: bool,
}

const BLOCK: &str = "does not fit a memory budget of";

const KEYS: &str = "the first and last keys of the files take";

const fn row(input: Input, way: Way, threads: &'static str) -> Row {
    Row { input, way, threads, preset: None, args: &[], ends: Well, short: false }
}

impl Row {
    const fn with(self, args: &'static [&'static str]) -> Self {
        Self { args, ..self }
    }

    const fn through(self, preset: &'static str, buffers: u64) -> Self {
        Self { preset: Some((preset, buffers)), ..self }
    }

    const fn ends(self, ends: Ends) -> Self {
        Self { ends, ..self }
    }

    const fn always(self) -> Self {
        Self { short: true, ..self }
    }
}

/// Vectors need half as much again as their buffers.
const VECTOR: u64 = 9;

const ROWS: &[Row] = &[
    row(Tiny, Way::Plain, "2").always(),
    row(Tiny, Way::Pipe, "8"),
    row(Tiny, Way::Zstd, "2"),
    row(Tiny, Way::Plain, "2").with(&["--links", "check"]),
    row(Tiny, Way::Plain, "2").through("memtable", VECTOR),
    row(Tiny, Way::Pipe, "2").through("rocksdb-defaults", 2),
    row(Large(4.7), Way::Plain, "2"),
    row(Large(4.7), Way::Plain, "8").always(),
    row(Large(4.7), Way::Plain, "16"),
    row(Large(4.7), Way::Pipe, "8"),
    row(Large(4.7), Way::Zstd, "8"),
    row(Large(4.7), Way::Plain, "8").with(&["--plan", "spill"]),
    row(Large(4.7), Way::Plain, "8").with(&["--plan", "memory"]),
    row(Large(4.7), Way::Plain, "8").with(&["--shard", "1/2"]),
    row(Large(4.7), Way::Plain, "2").through("memtable", VECTOR).ends(Refused(BLOCK)).always(),
    row(Large(4.7), Way::Plain, "2").through("rocksdb-defaults", 2).ends(Refused(BLOCK)),
    row(Large(64.0), Way::Plain, "8"),
    row(Large(64.0), Way::Plain, "2").through("memtable", VECTOR),
    row(Large(64.0), Way::Pipe, "2").through("rocksdb-defaults", 2),
    row(Large(3.0), Way::Plain, "2").ends(Refused(BLOCK)),
    row(LargeAlike(4.7), Way::Plain, "8").with(&["--plan", "spill"]).always(),
    row(LargeAlike(4.7), Way::Pipe, "8"),
    row(OneLarge(4.1), Way::Plain, "8"),
    row(OneLarge(4.1), Way::Pipe, "2"),
    row(Alike, Way::Plain, "8").always(),
    row(Alike, Way::Pipe, "2"),
    row(Same, Way::Plain, "8"),
    row(Same, Way::Plain, "2").through("memtable", VECTOR),
    row(Roots(20_000), Way::Plain, "2"),
    row(Roots(600_000), Way::Plain, "2").ends(Either("a header of")).always(),
    row(Roots(600_000), Way::Plain, "2").through("memtable", VECTOR).ends(Either("a header of")),
    row(Files(65_000), Way::Plain, "2"),
    row(Files(65_000), Way::Plain, "2").through("memtable", VECTOR),
    row(Files(3_000), Way::Plain, "8"),
    row(Identity(300), Way::Plain, "8"),
    row(Identity(2 << 20), Way::Plain, "2").ends(Refused("exceeds the limit of 2048 bytes")).always(),
    row(Identity(2000), Way::Plain, "2").always(),
    row(Identity(2000), Way::Pipe, "8"),
    row(Identity(2000), Way::Zstd, "2").with(&["--preset", "memtable"]),
    row(Bomb, Way::Zstd, "2"),
    row(Bomb, Way::Gzip, "8"),
    row(Bomb, Way::Zstd, "2").through("memtable", VECTOR),
    row(Bomb, Way::Zstd, "2").with(&["--preset", "memtable"]).always(),
    row(Log, Way::Plain, "8"),
    row(Log, Way::Pipe, "2"),
    row(Log, Way::Zstd, "2"),
    row(Bomb, Way::Zstd, "2").with(&["--preset", "memtable", "--set", "node.cf.enable_blob_files=true"]),
    row(Bomb, Way::Gzip, "2").with(&["--preset", "rocksdb-defaults"]),
    row(Keys(16_000), Way::Plain, "2").always(),
    row(Keys(16_000), Way::Pipe, "8").ends(Either(KEYS)),
    row(Keys(65_535), Way::Plain, "8").ends(Either(KEYS)).always(),
    row(Keys(300), Way::Plain, "8"),
    row(Log, Way::Plain, "8").through("memtable", 3 * VECTOR).with(&["--indexes", "ids,transactions"]),
];

impl Input {
    /// Writes the input for a budget of so many bytes. Digests are made up: nothing is verified.
    fn write(self, place: &Place, budget: u64) -> PathBuf {
        let path = place.path("input");
        if let Files(count) = self {
            std::fs::create_dir(&path).expect("a folder");
            for number in 0..count as u64 {
                let one = [header(&[]), section(&(hash(number, false), number.to_le_bytes().to_vec()))].concat();
                std::fs::write(path.join(format!("{number:05}.car")), one).expect("room");
            }
            return path;
        }
        if self == Log {
            return generate_steem(place, (3 * budget / MIB).min(512));
        }
        let all = (rounds(2, 3) as u64 * budget).min(768 * MIB);
        if let Keys(len) = self {
            let beginning = vec![7; len / 2];
            let ends: Vec<_> = (0..all / len as u64).map(|number| noise(number, len - len / 2)).collect();
            let keys: Vec<_> = ends.iter().map(|end| [&beginning[..], end].concat()).collect();
            let items: Vec<Item<'_>> = keys.iter().map(|key| (0, &key[..], &b""[..])).collect();
            std::fs::write(&path, kv(&["default"], false, &items)).expect("room");
            return path;
        }
        let share = |reciprocal: f64| (budget as f64 / reciprocal) as usize;
        let mut out = create(&path);
        let roots: Vec<_> =
            if let Roots(count) = self { (0..count as u64).map(|i| hash(i, false)).collect() } else { vec![] };
        let mut put = |bytes: &[u8]| out.write_all(bytes).expect("room");
        put(&header(&roots));
        let mut blocks = |count: u64, len: usize, key: &dyn Fn(u64) -> Vec<u8>| {
            let mut data = noise(7, len.min(1 << 16)).repeat(len.div_ceil(1 << 16));
            data.truncate(len);
            for number in 0..count {
                data.iter_mut().zip(number.to_le_bytes()).for_each(|(to, from)| *to = from);
                let key = key(number);
                put(&varint((key.len() + data.len()) as u64));
                put(&key);
                put(&data);
            }
        };
        match self {
            Tiny => blocks(all / 64, 4, &|i| hash(i, false)),
            Large(reciprocal) | LargeAlike(reciprocal) => {
                let is_alike = matches!(self, LargeAlike(_));
                blocks(20.min(all / share(reciprocal) as u64), share(reciprocal), &|i| hash(i, is_alike));
            }
            OneLarge(reciprocal) => {
                blocks(all / 4000, 1000, &|i| hash(i, false));
                blocks(1, share(reciprocal), &|_| hash(u64::MAX, false));
                blocks(all / 4000, 1000, &|i| hash(i | 1 << 40, false));
            }
            Alike => blocks(all / 1040, 1000, &|i| hash(i, true)),
            Same => (0..all / 1040).for_each(|_| blocks(1, 1000, &|i| hash(i, false))),
            Roots(_) => blocks(1, 1000, &|i| hash(i, false)),
            Identity(len) => {
                let key = |i: u64| cid(RAW, 0, &[&i.to_be_bytes()[..], &vec![7; len]].concat());
                blocks((all / len as u64).min(200_000), 0, &key);
            }
            Bomb => {
                let zeros = vec![0; 999_996];
                for number in 0..all / MIB {
                    put(&section(&(hash(number, false), zeros.clone())));
                }
            }
            Files(_) | Log | Keys(_) => {}
        }
        out.flush().expect("room");
        path
    }
}

/// A CID whose digest is made up; `alike`: digests begin with the same 24 bytes.
fn hash(number: u64, alike: bool) -> Vec<u8> {
    let mut digest = [7; 32];
    let mixed = |at: u64| {
        (number ^ at << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    for (at, part) in (0..).zip(digest.chunks_mut(8)) {
        if !alike {
            part.copy_from_slice(&mixed(at).to_be_bytes());
        }
    }
    digest[24..].copy_from_slice(&number.to_be_bytes());
    cid(DAG_CBOR, BLAKE2B_256, &digest)
}

/// The input as the row wants it, if that is another file.
fn packed(input: &Path, way: Way) -> Option<PathBuf> {
    let path = input.with_extension("packed");
    let open = || File::open(input).expect("the input");
    let to = || BufWriter::new(File::create(&path).expect("room"));
    match way {
        Way::Plain | Way::Pipe => return None,
        Way::Zstd => zstd::stream::copy_encode(open(), to(), 1).expect("room"),
        Way::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(to(), flate2::Compression::fast());
            std::io::copy(&mut open(), &mut encoder).expect("room");
            encoder.finish().expect("room").flush().expect("room");
        }
    }
    Some(path)
}

fn run(place: &Place, row: &Row, source: &Path, budget: u64) -> Measured {
    let mut args = row.args.to_vec();
    if !matches!(row.input, Log | Keys(_)) {
        args.extend(["--verify", "none"]);
    }
    let buffer;
    if let Some((preset, buffers)) = row.preset {
        buffer = format!("load.cf.write_buffer_size={}", budget * 3 / 4 / buffers);
        args.extend(["--preset", preset, "--set", &buffer]);
    }
    import(place, source, row.way == Way::Pipe, budget, row.threads, &args)
}

/// Checks one run, and returns what is wrong with it.
fn problem(row: &Row, run: &Measured, budget: u64, input: u64) -> Option<String> {
    // With --json the error is a document.
    let message = if run.is_done { run.stderr.clone() } else { format!("{}{}", run.report, run.stderr) };
    // Of large inputs the kernel keeps mapped pages.
    let used = if matches!(row.input, Tiny | Alike) { run.resident } else { run.anonymous };
    if used > budget + FIXED {
        return Some(format!("{} MiB are over the budget", used / MIB));
    }
    let is_expected = match row.ends {
        Well => run.is_done,
        Refused(text) => !run.is_done && message.contains(text),
        Either(text) => run.is_done || message.contains(text),
    };
    if !is_expected {
        return Some(format!("{:?} is expected: {message}", row.ends));
    }
    // A refusal names the budget that suffices, if one does.
    if !run.is_done && !["--memory", "CID", "record"].iter().any(|word| message.contains(word)) {
        return Some(format!("no budget is named: {message}"));
    }
    let moved = ["bytes_read", "bytes_written"].iter().filter_map(|name| run.report[name].as_u64()).sum::<u64>();
    // Every pass over the data reads and writes them once; many files cost some KiB each.
    let most = 24 * input + 256 * MIB;
    (moved > most).then(|| format!("{} MiB were read and written for {} MiB", moved / MIB, input / MIB))
}

#[test]
fn hostile_inputs_stay_within_the_budget() {
    let long = is_long();
    let budgets: &[u64] = if long { &[64, 256, 1024] } else { &[64] };
    let only = std::env::var("BEDLOAD_HOSTILE_ROW").unwrap_or_default();
    let mut problems = Vec::new();
    for &mib in budgets {
        let budget = mib * MIB;
        let rows = || ROWS.iter().filter(|row| (long || row.short) && format!("{:?}", row.input).contains(&only));
        let mut inputs: Vec<Input> = rows().map(|row| row.input).collect();
        // Rows of one input follow each other.
        inputs.dedup();
        for input in inputs {
            let place = Place::new();
            let plain = input.write(&place, budget);
            let size = if plain.is_dir() { 0 } else { plain.metadata().expect("the input").len() };
            for row in rows().filter(|row| row.input == input) {
                let packed = packed(&plain, row.way);
                let run = run(&place, row, packed.as_deref().unwrap_or(&plain), budget);
                let Row { way, threads, preset, args, .. } = row;
                let what = format!("{input:?} {way:?}, {threads} threads, {preset:?} {args:?}");
                let (anonymous, resident) = (run.anonymous / MIB, run.resident / MIB);
                println!(
                    "{mib} MiB, {what}: {anonymous} MiB anonymous, {resident} MiB resident, done: {}",
                    run.is_done
                );
                problems
                    .extend(problem(row, &run, budget, size).map(|problem| format!("{mib} MiB, {what}: {problem}")));
                if let Some(packed) = packed {
                    std::fs::remove_file(packed).expect("ours");
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn too_many_sources_name_the_required_budget() {
    let place = Place::new();
    let dir = Files(8193).write(&place, 0);
    let import = |memory| {
        let args = ["--memory", memory, "--dry-run"];
        bedload().arg("import").arg(&dir).arg("--db").arg(place.path("db")).args(args).output().expect("it runs")
    };
    let refused = import("16MiB");
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(text.contains("8193 sources do not fit a memory budget of 16.0 MiB"), "{text}");
    // It depends on the lengths of names.
    let needed = text.split("give --memory ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    assert!(needed.ends_with("MiB") && needed > "17", "{text}");
    assert!(import(needed).status.success());
}

/// The bugs: each of the streams took a large buffer, so few of them made a run, and each run had the names of all.
#[test]
fn many_small_streams_stay_within_the_budget() {
    let place = Place::in_memory();
    let names = (0..12_000u32).map(|number| {
        let records: Vec<[u8; 8]> = (0..20u64).map(|at| (at << 32 | u64::from(number)).to_be_bytes()).collect();
        let text = dump(records.iter().map(|key| (&key[..], &key[..])));
        place.file(&number.to_string(), text.as_bytes()).display().to_string()
    });
    let list = place.file("list", names.collect::<Vec<_>>().join("\n").as_bytes());
    let run = import(&place, Path::new(&format!("@{}", list.display())), false, 64 * MIB, "2", &[]);
    assert!(run.is_done, "{}", run.stderr);
    run.stays_within(64 * MIB + FIXED, "12,000 small streams");
}

/// The bugs: chunks that threads sort were not counted, and a range of short records takes more memory than its bytes.
#[test]
fn short_records_stay_within_the_budget() {
    let place = Place::in_memory();
    let keys: Vec<[u8; 4]> = (0..5_000_000u32).map(|number| number.wrapping_mul(0x9E37_79B1).to_be_bytes()).collect();
    let items: Vec<Item<'_>> = keys.iter().map(|key| (0, &key[..], &b""[..])).collect();
    let source = place.file("short.kv", &kv(&["default"], false, &items));
    let run = import(&place, &source, false, 120 * MIB, "32", &["--duplicates", "last"]);
    run.stays_within(120 * MIB + FIXED, "short records on 32 threads");
}

/// The bugs: each of the threads had several copies of a large record, and chunks that they worked on were not counted; samples had whole
/// keys.
#[test]
fn large_records_stay_within_the_budget() {
    let place = Place::in_memory();
    let large: Vec<Vec<u8>> = (0..60).map(|number| noise(number, 4 << 20)).collect();
    let items: Vec<Item<'_>> = large.iter().map(|bytes| (0, &bytes[..8], &bytes[..])).collect();
    // Small ones between them make a small average.
    let small: Vec<[u8; 8]> =
        (0..2_000_000u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()).collect();
    let items: Vec<Item<'_>> = items.into_iter().chain(small.iter().map(|key| (0, &key[..], &b""[..]))).collect();
    let source = place.file("values.kv", &kv(&["default"], false, &items));
    let run = import(&place, &source, false, 100 * MIB, "64", &[]);
    run.stays_within(100 * MIB + FIXED, "large values on 64 threads");
    let db = place.path("verified");
    let made = bedload().arg("import").arg(&source).arg("--db").arg(&db).output().expect("it runs");
    assert!(made.status.success());
    let mut verify = bedload();
    verify.arg("verify").arg(&db).arg("--against").arg(&source).args(["--memory", "100MiB", "--threads", "64"]);
    let verified = measured(&mut verify, None);
    assert!(verified.is_done, "{}{}", verified.report, verified.stderr);
    assert!(verified.resident <= 100 * MIB + FIXED, "{} MiB", verified.resident / MIB);
    let keys: Vec<&[u8]> = large.iter().flat_map(|bytes| bytes.chunks_exact(65_535).take(50)).collect();
    let items: Vec<Item<'_>> = keys.iter().map(|key| (0, *key, &b""[..])).collect();
    let source = place.file("keys.kv", &kv(&["default"], false, &items));
    let run = import(&place, &source, false, 272 * MIB, "16", &[]);
    run.stays_within(272 * MIB + FIXED, "long keys on 16 threads");
}

/// The bugs: `verify` took the largest imported record for the largest of all, and, without `BEDLOAD.json`, the average one.
#[test]
fn large_values_of_a_program_keep_the_budget() {
    let place = Place::in_memory();
    let small: Vec<[u8; 8]> =
        (0..200_000u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()).collect();
    let items: Vec<Item<'_>> = small.iter().map(|key| (0, &key[..], &b""[..])).collect();
    let source = place.file("small.kv", &kv(&["default"], false, &items));
    let (db, other, blobs) = (place.path("db"), place.path("other"), place.path("blobs"));
    for db in [&db, &other, &blobs] {
        assert!(bedload().arg("import").arg(&source).arg("--db").arg(db).output().expect("it runs").status.success());
    }
    for (db, has_blobs) in [(&db, false), (&blobs, true)] {
        let mut options = rust_rocksdb::Options::default();
        options.set_enable_blob_files(has_blobs);
        let program = rust_rocksdb::DB::open(&options, db).expect("opened");
        for number in 0..24 {
            // Compressed, they are small.
            let value = if has_blobs { noise(number, 8 << 20) } else { vec![7; 8 << 20] };
            program.put(noise(number, 8), value).expect("put");
        }
        program.flush().expect("flushed");
    }
    let verify = |db: &Path, against: &Path| {
        let mut verify = bedload();
        verify.arg("verify").arg(db).arg("--against").arg(against).args(["--memory", "128MiB", "--threads", "64"]);
        let verified = measured(&mut verify, None);
        let Measured { resident, report, stderr, .. } = verified;
        assert!(["differs", "intact"].map(Some).contains(&report["verdict"].as_str()), "{report}{stderr}");
        assert!(resident <= 128 * MIB + FIXED, "{} MiB: {report}", resident / MIB);
    };
    verify(&db, &source);
    verify(&db, &other);
    verify(&other, &db);
    verify(&blobs, &source);
    for db in [&db, &other] {
        std::fs::remove_file(db.join("BEDLOAD.json")).expect("removed");
    }
    verify(&db, &other);
}

/// The bug: only records were counted, but the index has a key of each block.
#[test]
fn indexes_of_long_keys_keep_the_budget() {
    let place = Place::in_memory();
    let long: Vec<Vec<u8>> = (0..3_000u64).map(|number| [&[0; 65_527][..], &number.to_be_bytes()].concat()).collect();
    let items: Vec<Item<'_>> = long.iter().map(|key| (0, &key[..], &b""[..])).collect();
    let source = place.file("long.kv", &kv(&["default"], false, &items));
    let (db, other) = (place.path("db"), place.path("other"));
    for db in [&db, &other] {
        let mut import = bedload();
        import.arg("import").arg(&source).arg("--db").arg(db).args(["--memory", "1GiB"]);
        assert!(import.output().expect("it runs").status.success());
    }
    let verify = |mebibytes: u64| {
        let mut verify = bedload();
        verify.arg("verify").arg(&db).arg("--against").arg(&other).args(["--threads", "64", "--memory"]);
        let verified = measured(verify.arg(format!("{mebibytes}MiB")), None);
        let resident = verified.resident / MIB;
        assert!(verified.resident <= mebibytes * MIB + FIXED, "{resident} MiB with {mebibytes}: {}", verified.report);
        verified
    };
    let refused = verify(128);
    assert!(refused.stderr.contains("the indexes of the SST files take "), "{}", refused.stderr);
    let hint = refused.stderr.split("hint: run the same command with --memory ").nth(1).expect("a hint");
    let needed = hint.strip_suffix("MiB or more\n").expect(hint).parse().expect(hint);
    assert_eq!(verify(needed).report["verdict"], "confirmed");
}
