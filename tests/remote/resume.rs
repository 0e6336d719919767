//! Killed imports from URLs: the same command requests only the missing bytes.

use crate::common::car::{gzip, zstd};
use crate::common::crash::{Snapshot, forest, plain};
use crate::common::run::{Import, Place, import};
use crate::common::server::{Request, Server};
use crate::{durable, sha256};

/// Bytes that a resumed import may request again: the probe and data read ahead of the durable point.
const SLACK: u64 = 2 << 20;

fn spilling(place: &Place, url: &str) -> Import {
    import(place, url).spilling().args(&["--connections", "2"])
}

/// An import that is killed at `point` requests no more than what was missing.
fn resumes(snapshot: &Snapshot, point: &str, args: impl Fn(Import) -> Import) {
    let (place, server) = (Place::new(), Server::new(snapshot));
    let run = || args(import(&place, server.url(snapshot.name)).env("BEDLOAD_DURABLE_BYTES", "1000000"));
    run().dies_at(point);
    let (_, at) = durable(&place);
    server.served();
    let done = run().holds(&snapshot.blocks);
    let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
    assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
    // The first durable points of an import are before what is read ahead.
    if point == "read:5" {
        assert!(at > 2_000_000, "durable at {at}");
        assert!(served < snapshot.bytes.len() as u64, "all of it came again");
    }
}

#[test]
fn killed_import_resumes_at_its_durable_offset() {
    for snapshot in [plain(), forest()] {
        let sum = sha256(&snapshot.bytes);
        let given = format!("sha256:{sum}");
        for checksum in [&[][..], &["--checksum", &given]] {
            resumes(snapshot, "read:5", |run| run.spilling().args(&["--connections", "2"]).args(checksum));
        }
        let wrong = format!("sha256:{}", "0".repeat(64));
        let (place, server) = (Place::new(), Server::new(snapshot));
        let run = || spilling(&place, &server.url(snapshot.name)).args(&["--checksum", &wrong]);
        run().dies_at("read:3");
        run().run().refused(3, None, &format!("its SHA-256 is {sum}"));
    }
}

#[test]
fn in_memory_import_resumes() {
    for snapshot in [plain(), forest()] {
        resumes(snapshot, "read:3", |run| run);
    }
    // A source that cannot be resumed stays in memory.
    let (place, server) = (Place::new(), Server::new(gzip(&plain().bytes)));
    let done = import(&place, server.url("a.car.gz")).holds(&plain().blocks);
    assert_eq!(done.json.pointer("/plan/sort/spill"), Some(&false.into()));
}

#[test]
fn single_frame_is_read_again() {
    let (place, server) = (Place::new(), Server::new(zstd(&plain().bytes)));
    let url = server.url("a.car.zst");
    spilling(&place, &url).dies_at("read:3");
    spilling(&place, &url).holds(&plain().blocks);
}

#[test]
fn resume_reads_the_same_redirect_target() {
    let server = Server::new(plain());
    server.points_to("dated.car");
    let place = Place::new();
    spilling(&place, &server.url("latest")).dies_at("read:3");
    server.points_to("newer.car");
    spilling(&place, &server.url("latest")).holds(&plain().blocks);
}

#[test]
fn resume_refuses_a_changed_file() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let url = server.url("a.car");
    spilling(&place, &url).dies_at("read:3");
    server.replace(plain(), "\"two\"");
    let done = spilling(&place, &url).run();
    done.refused(4, None, "ETag \"one\"");
    assert!(done.stderr.contains("ETag \"two\""), "{}", done.stderr);
    spilling(&place, &url).args(&["--restart"]).holds(&plain().blocks);
}

/// The journal stores long or non-ASCII tags as hashes.
#[test]
fn hashed_etag_is_compared() {
    for tags in [["1", "2"].map(|tag| tag.repeat(600)), ["\u{e9}", "\u{e8}"].map(str::to_owned)] {
        let [first, second] = tags.map(|tag| format!("\"{tag}\""));
        let (place, server) = (Place::new(), Server::new(Vec::new()));
        server.replace(plain(), &first);
        let url = server.url("a.car");
        spilling(&place, &url).dies_at("read:3");
        server.replace(plain(), &second);
        spilling(&place, &url).run().refused(4, None, "ETag BLAKE3 ");
        server.replace(plain(), &first);
        let asked = server.requests().len();
        spilling(&place, &url).holds(&plain().blocks);
        let has_tag = |request: &Request| request.headers.contains_key("if-match");
        assert!(!server.requests()[asked..].iter().any(has_tag), "it is not the server's");
    }
}

#[test]
fn resume_skips_a_finished_source() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let url = server.url("a.car");
    spilling(&place, &url).dies_at("read-done");
    server.served();
    let done = spilling(&place, &url).holds(&plain().blocks);
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
}

#[test]
fn killed_memtable_import_finishes() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let url = server.url("a.car");
    import(&place, &url).through_memtables().dies_at("batch:3");
    import(&place, &url).through_memtables().holds(&plain().blocks);
}
