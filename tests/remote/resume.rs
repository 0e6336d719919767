//! Killed imports from URLs: the same command requests only the missing bytes, unless the file has changed.

use crate::common::car::{gzip, zstd};
use crate::common::crash::{Snapshot, forest, log, plain};
use crate::common::run::{Done, Place, Run, import};
use crate::common::store::{Request, Store};
use crate::remote::{dies_after, sha256};

/// Bytes that a resumed import may request again: the probe and data read ahead of the durable point.
pub const SLACK: u64 = 2 << 20;

pub fn spilling(place: &Place, url: &str) -> Run {
    import(place, url).spilling().args(&["--connections", "2"])
}

/// An import of a block log.
pub fn of_log(place: &Place, url: &str) -> Run {
    import(place, url).args(&["--memory", "16MiB", "--threads", "2"]).env("BEDLOAD_DURABLE_BYTES", "1000000")
}

/// Imports of a CAR and of a log: points at which they are killed within the source and after its end.
type Kind = (&'static Snapshot, fn(&Place, &str) -> Run, &'static str, &'static str);

fn kinds() -> [Kind; 2] {
    [(plain(), spilling, "read:3", "read-done"), (log(), of_log, "range:2", "renamed")]
}

#[track_caller]
fn imports(run: Run, snapshot: &Snapshot) -> Done {
    if !snapshot.blocks.is_empty() {
        return run.holds(&snapshot.blocks);
    }
    let done = run.succeeds();
    assert_eq!(done.text("/digest"), snapshot.digest);
    done
}

/// An import that is killed at `point` requests no more than what was missing.
fn resumes(snapshot: &Snapshot, point: &str, args: impl Fn(Run) -> Run) {
    let (place, server) = (Place::in_memory(), Store::serving(snapshot));
    let run = || args(import(&place, server.url(snapshot.name)).env("BEDLOAD_DURABLE_BYTES", "1000000"));
    // The first durable points of an import are before what is read ahead.
    let least = if point == "read:5" { 2_000_000 } else { 0 };
    let (_, at) = dies_after(&place, point, (0, least), run);
    server.served();
    let done = imports(run(), snapshot);
    let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
    assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
    assert_eq!(done.json["resumed"], true);
    assert!(least == 0 || served < snapshot.bytes.len() as u64, "all bytes were requested again");
}

#[test]
fn killed_import_resumes_at_its_durable_offset() {
    for snapshot in [plain(), forest()] {
        let sum = sha256(&snapshot.bytes);
        let given = format!("sha256:{sum}");
        for checksum in [&[][..], &["--checksum", &given]] {
            resumes(snapshot, "read:5", |run| run.spilling().args(&["--connections", "2"]).args(checksum));
        }
        // In memory.
        resumes(snapshot, "read:3", |run| run);
        let wrong = format!("sha256:{}", "0".repeat(64));
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let run = || spilling(&place, &server.url(snapshot.name)).args(&["--checksum", &wrong]);
        run().dies_at("read:3");
        run().run().refused(3, None, &format!("its SHA-256 is {sum}"));
    }
    // A source that cannot be resumed stays in memory.
    let (place, server) = (Place::in_memory(), Store::serving(gzip(&plain().bytes)));
    let done = imports(import(&place, server.url("a.car.gz")), plain());
    assert_eq!(done.json.pointer("/plan/sort/spill"), Some(&false.into()));
    // A single frame is read again.
    let (place, server) = (Place::in_memory(), Store::serving(zstd(&plain().bytes)));
    let run = || spilling(&place, &server.url("a.car.zst"));
    run().dies_at("read:3");
    imports(run(), plain());
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let run = || import(&place, server.url("a.car")).through_memtables();
    run().dies_at("batch:3");
    imports(run(), plain());
}

#[test]
fn resume_reads_the_same_redirect_target() {
    for (snapshot, run, point, _) in kinds() {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        server.points_to("dated");
        run(&place, &server.url("latest")).dies_at(point);
        server.points_to("newer");
        let done = imports(run(&place, &server.url("latest")), snapshot);
        assert_eq!(done.text("/sources/0/remote/url"), server.url("dated"));
        assert_eq!(done.json["resumed"], true);
    }
}

#[test]
fn resume_refuses_a_changed_file() {
    for (snapshot, run, point, finished) in kinds() {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let url = server.url("a.file");
        run(&place, &url).dies_at(point);
        server.replace(snapshot, "\"two\"");
        let done = run(&place, &url).run();
        done.refused(4, None, "the source was");
        done.says(&[&url, "ETag \"one\"", "ETag \"two\""]);
        let done = imports(run(&place, &url).args(&["--restart"]), snapshot);
        assert_eq!(done.text("/sources/0/remote/etag"), "\"two\"");
        // Another file under the name is not taken for a source that was read, nor is a snapshot of another format.
        for (killed, bytes) in [(finished, snapshot), (point, forest())] {
            let place = Place::in_memory();
            run(&place, &url).dies_at(killed);
            server.replace(bytes, "\"three\"");
            assert_eq!(run(&place, &url).run().code, Some(4), "{killed}");
            server.replace(snapshot, "\"two\"");
        }
    }
}

/// The journal stores long or non-ASCII tags as hashes.
#[test]
fn hashed_etag_is_compared() {
    for tags in [["1", "2"].map(|tag| tag.repeat(600)), ["\u{e9}", "\u{e8}"].map(str::to_owned)] {
        let [first, second] = tags.map(|tag| format!("\"{tag}\""));
        let (place, server) = (Place::in_memory(), Store::new());
        server.replace(plain(), &first);
        let url = server.url("a.car");
        spilling(&place, &url).dies_at("read:3");
        server.replace(plain(), &second);
        spilling(&place, &url).run().refused(4, None, "ETag BLAKE3 ");
        server.replace(plain(), &first);
        let asked = server.requests().len();
        imports(spilling(&place, &url), plain());
        let has_tag = |request: &Request| request.headers.contains_key("if-match");
        assert!(!server.requests()[asked..].iter().any(has_tag), "it is not the server's");
    }
}

#[test]
fn resume_skips_a_finished_source() {
    for (snapshot, run, _, finished) in kinds() {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let url = server.url("a.file");
        run(&place, &url).dies_at(finished);
        server.served();
        let done = imports(run(&place, &url), snapshot);
        assert!(server.served() < 1 << 20, "only its beginning is asked for");
        assert!(finished == "renamed" || done.json["resumed"] == true);
    }
}
