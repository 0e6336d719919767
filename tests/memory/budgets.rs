//! Peak resident size stays within the budget plus a fixed 64 MiB, whatever the source, its compression and the threads.
//!
//! Snapshots are four times as large as the budget, so a loader that holds on to them fails.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::common::car::{BLAKE2B_256, DAG_CBOR, RAW, blake, block, cid, header, noise, rooted, section};
use crate::common::crash::{From, f3_metadata, in_turn, is_long, rounds};
use crate::common::run::{BEDLOAD, Place, hermetic};
use crate::memory::{FIXED, MIB, Measured, create, generate_steem, import, measured};
use bedload::testing::generate::{self, Format, Profile, Spec};

pub fn snapshot(place: &Place, size: u64, format: Format) -> PathBuf {
    let path = place.path(format.name());
    generate::write(&Spec::new(Profile::Mainnet, size).format(format), &mut create(&path)).expect("room");
    path
}

fn spilled(measured: &Measured) -> bool {
    measured.report["plan"]["sort"]["spill"].as_bool().expect("a plan")
}

/// Imports `source` and expects that the budget of `mib` MiB was kept.
#[track_caller]
fn keeps(place: &Place, source: &Path, from: From, mib: u64, threads: usize, args: &[&str]) -> Measured {
    let measured = import(place, source, from == From::Pipe, mib * MIB, &threads.to_string(), args);
    let what = format!("{from:?} {source:?}, {threads} threads, {args:?}, {}", measured.report["plan"]);
    measured.stays_within(mib * MIB + FIXED, &what);
    measured
}

#[test]
fn long_f3_data_stay_within_the_budget() {
    let f3 = blake(RAW, &(0..160).map(|number| noise(number, 1 << 20)).collect::<Vec<_>>().concat());
    let rest: Vec<_> = (0..2000).map(|number| block(&noise(number, 1000))).collect();
    let blocks = [&[f3_metadata(&f3.0, &[&rest[0].0]), f3], &rest[..]].concat();
    let (place, source) = Place::with_file("v2.car", &rooted(&blocks));
    drop(blocks);
    for (plan, from) in [("auto", From::Pipe), ("memory", From::File), ("spill", From::File)] {
        if is_long() || plan != "spill" {
            let measured = keeps(&place, &source, from, 64, 2, &["--plan", plan, "--f3", "skip"]);
            assert_eq!(measured.report["f3"][0]["bytes"], 160 << 20, "{plan}");
        }
    }
}

#[test]
fn imports_stay_within_the_budget() {
    let budgets: &[u64] = if is_long() { &[64, 256, 1024] } else { &[64] };
    let forms = [(Format::Car, (From::File, 8)), (Format::CarZst, (From::Pipe, 2))];
    for (&mib, (format, usual)) in budgets.iter().flat_map(|mib| forms.map(|form| (mib, form))) {
        let place = Place::new();
        let source = snapshot(&place, 4 * mib * MIB, format);
        let ways = [1, 2, 8].into_iter().flat_map(|threads| [From::File, From::Pipe].map(|from| (from, threads)));
        for (from, threads) in ways.filter(|way| is_long() || *way == usual) {
            let measured = keeps(&place, &source, from, mib, threads, &[]);
            assert!(spilled(&measured), "it cannot fit");
            let payload = measured.number("payload_bytes");
            assert!(payload > 3 * mib * MIB, "only {payload} bytes were imported");
        }
    }
}

#[test]
fn fitting_snapshot_stays_within_the_budget() {
    let place = Place::new();
    let source = snapshot(&place, 112 * MIB, Format::Car);
    assert!(!spilled(&keeps(&place, &source, From::File, 144, 2, &[])), "it fits");
    // The size of a pipe is not known; a budget that holds it all the same is used.
    assert!(!spilled(&keeps(&place, &source, From::Pipe, 288, 2, &[])), "it fits");
}

#[test]
fn small_sources_stay_within_the_budget() {
    let place = Place::new();
    let dir = place.dir("cars");
    // More than are mapped at a time; some would fit a chunk many times.
    for seed in 0..400u64 {
        let format = if seed % 4 == 3 { Format::CarZst } else { Format::Car };
        let size = if seed % 2 == 0 { MIB } else { 64 << 10 };
        let path = dir.join(format!("{seed:03}.{}", format.name()));
        let spec = Spec::new(Profile::Small, size).seed(seed).format(format);
        generate::write(&spec, &mut create(&path)).expect("room");
    }
    for args in [&[][..], &["--plan", "memory"], &["--preset", "memtable", "--set", "load.cf.write_buffer_size=4M"]] {
        for &mib in &[64, 288][..rounds(1, 2)] {
            let measured = keeps(&place, &dir, From::File, mib, 2, args);
            assert_eq!(measured.report["sources"].as_array().map(Vec::len), Some(400));
            assert!(measured.number("payload_bytes") > 180 * MIB);
        }
    }
}

#[test]
fn oversized_snapshot_stays_within_the_budget() {
    let place = Place::new();
    let source = snapshot(&place, 256 * MIB, Format::Car);
    assert!(spilled(&keeps(&place, &source, From::File, 64, 2, &["--plan", "memory"])), "it cannot fit");
    let links = keeps(&place, &source, From::File, 64, 2, &["--links", "check"]).report["links"].clone();
    assert!(links["linked"].as_u64() > Some(10_000) && links["missing"] == 0, "{links}");
    // RocksDB kept each file in memory to train its dictionary, and the check of options had a whole dictionary.
    for more in ["max_dict_bytes=16777216", "max_dict_bytes=536870912;zstd_max_train_bytes=65536"] {
        let dictionaries = format!("node.cf.compression_opts={{level=1;{more}}}");
        keeps(&place, &source, From::File, 64, 8, &["--set", "node.cf.compression=kZSTD", "--set", &dictionaries]);
    }
    let args = ["--preset", "memtable", "--set", "load.cf.write_buffer_size=4M"];
    for &threads in in_turn(&[2, 8], 1) {
        let measured = keeps(&place, &source, From::File, 64, threads, &args);
        assert!(measured.number("payload_bytes") > 192 * MIB, "{}", measured.report["payload_bytes"]);
    }
}

/// A CAR of blocks of so many bytes whose digests are made up.
fn made_up(place: &Place, count: u64, codec: impl Fn(u64) -> u64, len: usize) -> PathBuf {
    let path = place.path("made-up");
    let mut out = create(&path);
    out.write_all(&header(&[])).expect("room");
    for i in 0..count {
        let block = (cid(codec(i), BLAKE2B_256, &noise(i, 32)), noise(i, len));
        out.write_all(&section(&block)).expect("room");
    }
    out.flush().expect("room");
    path
}

#[test]
fn half_piece_blocks_stay_within_the_budget() {
    let place = Place::new();
    let count = rounds(1000, 4600) as u64;
    // Half a piece of 512 KiB, and a little more.
    let source = made_up(&place, count, |_| DAG_CBOR, 264_000);
    let measured = keeps(&place, &source, From::Pipe, 2048, 2, &["--verify", "none"]);
    assert_eq!(measured.report["plan"]["sort"]["partitions"]["piece_bytes"], 512 << 10);
    assert_eq!(measured.report["blocks"]["written"], count);
}

#[test]
fn six_key_prefixes_stay_within_the_budget() {
    let place = Place::new();
    let mib = if is_long() { 1024 } else { 64 };
    let (blocks, codecs) = (4 * mib * MIB / 1000, [0x55, 0x70, DAG_CBOR, 0x0129, 0x78, 0x90]);
    let path = made_up(&place, blocks, |i| codecs[(i % 6) as usize], 950);
    for &threads in in_turn(&[2, 8], 1) {
        let measured = keeps(&place, &path, From::File, mib, threads, &["--verify", "none"]);
        assert!(spilled(&measured), "it cannot fit");
        assert_eq!(measured.report["blocks"]["written"], blocks);
    }
}

#[test]
fn memtable_log_import_stays_within_the_budget() {
    let place = Place::new();
    let source = generate_steem(&place, 192);
    let small = ["--set", "load.cf.write_buffer_size=4M", "--set", "load.cf.max_write_buffer_number=2"];
    let ways = [("memtable", From::Pipe, 8), ("rocksdb-defaults", From::File, 8), ("memtable", From::File, 2)];
    for (preset, from, threads) in ways.into_iter().take(rounds(1, 3)) {
        let args = [&["--preset", preset, "--indexes", "ids,transactions"][..], &small].concat();
        let measured = keeps(&place, &source, from, 64, threads, &args);
        assert_eq!(measured.report["plan"]["memtable"]["write_buffer_bytes"], 3 * 2 * 4 * MIB);
        assert!(measured.number("payload_bytes") > 187 * MIB);
    }
}

/// A control group with a memory limit; `None` if none can be made.
struct Group(PathBuf);

impl Group {
    fn new(limit: u64) -> Option<Self> {
        let name = format!("bedload-test-{}", std::process::id());
        for (root, file) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let dir = Path::new(root).join(&name);
            if std::fs::create_dir(&dir).is_ok() {
                let group = Self(dir);
                if std::fs::write(group.0.join(file), limit.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        crate::common::skipped("no control group with a memory limit can be made here");
        None
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn import_stays_within_its_cgroup_limit() {
    let limit = 192 * MIB;
    let Some(group) = Group::new(limit) else { return };
    let place = Place::new();
    let source = snapshot(&place, 4 * limit / 2, Format::Car);
    let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.0.display());
    let run = |args: &[&str]| {
        let mut command = hermetic("sh");
        command.args(["-c", &enter, BEDLOAD, "import"]).arg(&source).arg("--db").arg(place.path("db")).args(args);
        let done = measured(&mut command, None);
        assert!(done.is_done, "{}{}", done.report, done.stderr);
        std::fs::remove_dir_all(place.path("db")).expect("a database");
        done.report
    };
    // By itself it takes half of what the group allows, whatever the machine has.
    let report = run(&["--threads", "2"]);
    assert_eq!(report["plan"]["memory"], limit / 2, "{}", report["plan"]);
    assert!(report["plan"]["sort"]["spill"].as_bool().expect("a plan"), "four times the budget cannot fit");
    // A budget that leaves no more than what is promised to come on top.
    let budget = (limit - FIXED) / MIB;
    for threads in in_turn(&["1", "8"], 1) {
        let report = run(&["--threads", threads, "--memory", &format!("{budget}MiB")]);
        assert!(report["peak_rss_bytes"].as_u64().expect("a number") <= limit, "{report}");
    }
}
