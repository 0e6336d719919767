//! Killed imports from URLs: the same command requests only the missing bytes.

use crate::common::car::gzip;
use crate::common::crash::{Snapshot, forest, plain};
use crate::common::run::{Import, Place, import};
use crate::common::server::{Act, Server};
use crate::{Needs, dies};

tests! {
    Needs::Nothing => [
        plain_car_resumes_at_its_durable_offset,
        frames_resume_at_the_durable_frame,
        checksum_of_the_source_survives_a_resume,
        single_frame_is_read_again,
        resume_reads_the_same_redirect_target,
        resume_refuses_a_changed_file,
        hashed_etag_is_compared,
        resume_skips_a_finished_source,
        killed_memtable_import_finishes,
        in_memory_import_resumes,
    ];
}

/// Bytes that a resumed import may request again: the probe and data read ahead of the durable point.
const SLACK: u64 = 2 << 20;

fn spilling(place: &Place, url: &str) -> Import {
    import(place, url)
        .args(&["--plan", "spill", "--memory", "16MiB", "--threads", "2", "--connections", "2"])
        .env("BEDLOAD_DURABLE_BYTES", "1000000")
}

/// The last durable place in the journal: bytes of the source.
fn durable(place: &Place) -> u64 {
    let text = std::fs::read_to_string(place.path("db.partial").join("journal")).expect("a journal");
    let marks = text.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(&line[17..]).ok());
    let mut packed =
        marks.filter_map(|entry| entry.pointer("/mark/restart/packed").and_then(serde_json::Value::as_u64));
    packed.next().expect("a durable place to begin at")
}

fn resumes(snapshot: &'static Snapshot, args: &[&str]) {
    let (place, server) = (Place::new(), Server::new(snapshot.bytes.clone()));
    let url = server.url(snapshot.name);
    dies(spilling(&place, &url).args(args), "read:5");
    let at = durable(&place);
    assert!(at > 2_000_000, "durable at {at}");
    server.served();
    let done = spilling(&place, &url).args(args).holds(&snapshot.blocks);
    let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
    assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
    assert!(served < snapshot.bytes.len() as u64, "all of it came again");
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
}

fn plain_car_resumes_at_its_durable_offset() {
    resumes(plain(), &[]);
}

fn frames_resume_at_the_durable_frame() {
    resumes(forest(), &[]);
}

fn checksum_of_the_source_survives_a_resume() {
    use sha2::Digest;
    for snapshot in [plain(), forest()] {
        let sum = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(&snapshot.bytes));
        resumes(snapshot, &["--checksum", &format!("sha256:{sum}")]);
        let wrong = format!("sha256:{}", "0".repeat(64));
        let (place, server) = (Place::new(), Server::new(snapshot.bytes.clone()));
        let url = server.url(snapshot.name);
        dies(spilling(&place, &url).args(&["--checksum", &wrong]), "read:3");
        let done = spilling(&place, &url).args(&["--checksum", &wrong]).run();
        done.refused(3, None, &format!("its SHA-256 is {sum}"));
    }
}

fn in_memory_import_resumes() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::new(), Server::new(snapshot.bytes.clone()));
        let run = || import(&place, server.url(snapshot.name)).env("BEDLOAD_DURABLE_BYTES", "1000000");
        dies(run(), "read:3");
        let at = durable(&place);
        server.served();
        run().holds(&snapshot.blocks);
        let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
        assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
    }
    // A source that cannot be resumed stays in memory.
    let (place, server) = (Place::new(), Server::new(gzip(&plain().bytes)));
    let done = import(&place, server.url("a.car.gz")).holds(&plain().blocks);
    assert_eq!(done.json.pointer("/plan/sort/spill"), Some(&false.into()));
}

fn single_frame_is_read_again() {
    use crate::common::car::zstd;
    let (place, server) = (Place::new(), Server::new(zstd(&plain().bytes)));
    let url = server.url("a.car.zst");
    dies(spilling(&place, &url), "read:3");
    spilling(&place, &url).holds(&plain().blocks);
}

fn resume_reads_the_same_redirect_target() {
    let server = Server::new(plain().bytes.clone());
    let (dated, newer) = (server.url("dated.car"), server.url("newer.car"));
    let to = move |to: String| {
        move |request: &crate::common::server::Request, _| match request.path.as_str() {
            "/latest" => Act::Redirect(to.clone()),
            "/newer.car" => Act::Status(500, ""),
            _ => Act::Serve,
        }
    };
    server.now(to(dated));
    let place = Place::new();
    dies(spilling(&place, &server.url("latest")), "read:3");
    server.now(to(newer));
    spilling(&place, &server.url("latest")).holds(&plain().blocks);
}

fn resume_refuses_a_changed_file() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let url = server.url("a.car");
    dies(spilling(&place, &url), "read:3");
    server.replace(plain().bytes.clone(), "\"two\"");
    let done = spilling(&place, &url).run();
    done.refused(4, None, "ETag \"one\"");
    assert!(done.stderr.contains("ETag \"two\""), "{}", done.stderr);
    spilling(&place, &url).args(&["--restart"]).holds(&plain().blocks);
}

/// The journal stores long or non-ASCII tags as hashes.
fn hashed_etag_is_compared() {
    for tags in [["1", "2"].map(|tag| tag.repeat(600)), ["\u{e9}", "\u{e8}"].map(str::to_owned)] {
        let [first, second] = tags.map(|tag| format!("\"{tag}\""));
        let (place, server) = (Place::new(), Server::new(Vec::new()));
        server.replace(plain().bytes.clone(), &first);
        let url = server.url("a.car");
        dies(spilling(&place, &url), "read:3");
        server.replace(plain().bytes.clone(), &second);
        spilling(&place, &url).run().refused(4, None, "ETag BLAKE3 ");
        server.replace(plain().bytes.clone(), &first);
        let asked = server.requests().len();
        spilling(&place, &url).holds(&plain().blocks);
        let requests = server.requests();
        assert!(
            requests[asked..].iter().all(|request| !request.headers.contains_key("if-match")),
            "it is not the server's"
        );
    }
}

fn resume_skips_a_finished_source() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let url = server.url("a.car");
    dies(spilling(&place, &url), "read-done");
    server.served();
    let done = spilling(&place, &url).holds(&plain().blocks);
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
}

fn killed_memtable_import_finishes() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let url = server.url("a.car");
    dies(import(&place, &url).through_memtables(), "batch:3");
    import(&place, &url).through_memtables().holds(&plain().blocks);
}
