//! SHA-256 of sources: given, or published beside a URL.

use crate::common::crash::{forest, log, plain, small};
use crate::common::run::{Done, Place, import};
use crate::common::store::{Act, Store};
use crate::remote::resume::of_log;
use crate::remote::several_sources::file;
use crate::remote::sha256;

fn given(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

/// The sum of the only source was compared, and comes from there.
#[track_caller]
fn compared(done: &Done, bytes: &[u8], from: &str) {
    done.succeeded();
    let checksum = &done.json["sources"][0]["checksum"];
    assert_eq!((&checksum["sum"], &checksum["from"]), (&sha256(bytes).into(), &from.into()));
    assert_eq!(checksum["compared"], true);
    let _ = std::fs::remove_dir_all(&done.db);
}

#[test]
fn given_checksum_is_compared() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let (right, wrong) = (given(&snapshot.bytes), given(b"something else"));
        for source in [server.url(snapshot.name), file(snapshot)] {
            let done = import(&place, &source).args(&["--checksum", &wrong]).run();
            done.refused(3, None, &format!("its SHA-256 is {}", &right[7..]));
            done.says(&[&wrong[7..]]);
            let done = import(&place, &source).args(&["--checksum", &right]).holds(&snapshot.blocks);
            compared(&done, &snapshot.bytes, "the checksum option");
        }
    }
}

#[test]
fn log_checksum_is_compared() {
    let name = "block_log.sha256sum";
    let (place, server) = (Place::in_memory(), Store::serving(log()).with(name, sha256(&log().bytes)));
    let url = server.url("block_log");
    of_log(&place, &url).dies_at("range:2");
    compared(&of_log(&place, &url).run(), &log().bytes, &server.url(name));
    let server = server.with(name, sha256(&plain().bytes));
    of_log(&place, &url).run().refused(3, None, "its SHA-256 is");
    // Of a part of it there is no sum to compare.
    let done = of_log(&place, &url).args(&["--to", "100"]).succeeds();
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
    std::fs::remove_dir_all(&done.db).expect("removed");
    for source in [server.url("block_log"), file(log())] {
        let done = of_log(&place, &source).args(&["--to", "100", "--checksum", &given(&log().bytes)]).run();
        done.refused(2, None, "a checksum is of all bytes, and a log with a last block is not read to its end");
    }
}

#[test]
fn published_checksum_is_compared() {
    for name in ["a.car.sha256sum", "a.car.sha256"] {
        let line = format!("{}  a.car\n", sha256(&small().bytes));
        let (place, server) = (Place::in_memory(), Store::serving(small()).with(name, line));
        let done = import(&place, server.url("a.car")).holds(&small().blocks);
        compared(&done, &small().bytes, &server.url(name));
        let wrong = format!("{} *a.car\n", sha256(b"something else"));
        server.edit(|objects| drop(objects.insert(name.into(), wrong.into())));
        import(&place, server.url("a.car")).run().refused(3, None, &server.url(name));
    }
}

#[test]
fn checksum_is_read_from_file_or_url() {
    let line = format!("{}  somewhere/a.car\n", sha256(&small().bytes));
    let (place, server) = (Place::in_memory(), Store::serving(small()).with("sums", line.clone()));
    let sums = place.file("sums", line.as_bytes()).display().to_string();
    let run = |checksum: &str| import(&place, server.url("a.car")).args(&["--checksum", checksum]).run();
    for from in [&sums, &server.url("sums")] {
        compared(&run(&format!("sha256:{from}")), &small().bytes, from);
    }
    for (wrong, words) in [
        ("sha256:abcd", "`abcd` has 4 hex digits, and a SHA-256 has 64"),
        (&format!("sha256:{}", "a".repeat(65)), "has 65 hex"),
        ("md5:ab", "only sha256 is supported"),
        (&sums, "only sha256 is supported"),
    ] {
        run(wrong).refused(2, None, words);
    }
}

#[test]
fn unusable_published_checksum_is_reported() {
    let imports = |server: &Store, name: &str, warnings: usize| {
        let place = Place::in_memory();
        let done = import(&place, server.url(name)).env("BEDLOAD_NETWORK_STALL_MS", "2000").holds(&small().blocks);
        let warned = done.stderr.lines().filter(|line| line.starts_with("warning: ")).count();
        assert_eq!(warned, warnings, "{}", done.stderr);
        done
    };
    let page = b"<html>not here</html>".to_vec();
    let other = format!("{}  b.car\n", sha256(b"b")).into_bytes();
    for (bytes, words) in [
        (&page, "it is a web page"),
        (&vec![b'a'; 2 << 20], "it is too large for a sum"),
        (&other, "it has no SHA-256 of a.car"),
    ] {
        for name in ["a.car.sha256", "a.car.sha256sum"] {
            let server = Store::serving(small()).with(name, bytes.clone());
            let done = imports(&server, "a.car", 1);
            assert_eq!(done.json.pointer("/sources/0/checksum"), None);
            done.says(&[&format!("warning: {} is not compared: {words}", server.url(name))]);
        }
    }
    for (act, words) in [
        (Act::Status(503, ""), &["the server answers 503"][..]),
        (Act::Status(429, "Retry-After: 100\r\n"), &["the server takes too long to give it"]),
        (Act::Status(403, ""), &["the server denies access (403 Forbidden)"]),
        (Act::Stall(10), &["the server takes too long to give it"]),
        (Act::Status(404, ""), &[]),
        (Act::Status(410, ""), &[]),
    ] {
        let server = Store::serving(small()).beside(act.clone());
        imports(&server, "a.car", words.len()).says(words);
        // A signature is of one file: that it is not of another says nothing.
        if matches!(act, Act::Status(403, _)) {
            imports(&server, "a.car?signature=x", 0);
        }
    }
    // One that is right makes up for one that is not.
    let line = format!("{}  a.car\n", sha256(&small().bytes));
    let server = Store::serving(small()).with("a.car.sha256sum", page).with("a.car.sha256", line);
    compared(&imports(&server, "a.car", 0), &small().bytes, &server.url("a.car.sha256"));
}
