//! Imports, inspections and comparisons of URLs, and the bytes that they request.

use serde_json::Value;

use crate::common::car::*;
use crate::common::crash::{forest, plain};
use crate::common::run::{Place, import, program};
use crate::common::server::{Act, Server};

#[test]
fn plain_car_is_read_in_pinned_ranges() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let done = import(&place, server.url("snapshot.car")).holds(&plain().blocks);
    let requests = server.requests();
    assert!(requests.len() > 4, "one stream, and not ranges: {}", requests.len());
    assert!(requests.iter().all(|request| request.range().is_some()));
    let tags: Vec<_> = requests.iter().map(|request| request.headers.get("if-match")).collect();
    assert_eq!(tags[0], None, "nothing is known yet");
    assert!(tags[1..].iter().all(|tag| tag.is_some_and(|tag| tag == "\"one\"")), "{tags:?}");
    let mut ranges: Vec<_> = requests.iter().filter_map(|request| request.range()).collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0 || pair[1].0 >= pair[0].0), "{ranges:?}");
    let len = plain().bytes.len() as u64;
    assert!(server.served() < len + (300 << 10), "no byte comes twice but those of the probe and of the tail");
    assert_eq!(done.text("/sources/0/remote/etag"), "\"one\"");
    assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(true)));
    assert_eq!(done.number("/source/bytes"), len);
}

#[test]
fn url_import_reads_every_compression() {
    let blocks = &plain().blocks[..1500];
    let car = rooted(blocks);
    let kinds: [(&str, Vec<u8>); 6] = [
        ("a.car.zst", zstd(&car)),
        ("a.car.xz", xz(&car)),
        ("a.car.gz", gzip(&car)),
        ("a.car.lz4", lz4(&car)),
        ("v2.car", v2(&car, 40, &noise(5, 5000))),
        ("tiny.car", rooted(&blocks[..3])),
    ];
    for (name, bytes) in kinds {
        let (place, server) = (Place::new(), Server::new(bytes));
        let blocks = if name == "tiny.car" { &blocks[..3] } else { blocks };
        import(&place, server.url(name)).holds(blocks);
    }
}

#[test]
fn server_without_ranges_is_read_as_stream() {
    for act in [Act::Whole, Act::WithoutLength] {
        for bytes in [plain().bytes.clone(), zstd(&plain().bytes)] {
            let act = act.clone();
            let (place, server) = (Place::new(), Server::new(bytes).acts(move |_, _| act.clone()));
            let done = import(&place, server.url("a.car")).holds(&plain().blocks);
            assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(false)));
        }
    }
}

#[test]
fn slow_server_gets_more_connections() {
    let slow = |_: &_, _| Act::Slow(700 << 10);
    let (place, server) = (Place::new(), Server::new(plain()).acts(slow));
    import(&place, server.url("a.car")).holds(&plain().blocks);
    assert!(server.most_connections() > 4, "more give more: {}", server.most_connections());
    let (place, server) = (Place::new(), Server::new(plain()).acts(|_, _| Act::Slow(4 << 20)));
    import(&place, server.url("a.car")).args(&["--connections", "2"]).holds(&plain().blocks);
    // The server counts those that it has yet to close.
    assert!(server.most_connections() <= 4, "{}", server.most_connections());
}

#[test]
fn inspect_reads_little_of_a_url() {
    for (name, bytes) in [("a.car", &plain().bytes), ("a.forest.car.zst", &forest().bytes)] {
        let server = Server::new(bytes.clone());
        let output = program().args(["inspect", &server.url(name), "--json"]).output().expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["bytes"].as_u64(), Some(bytes.len() as u64));
        assert_eq!(report["roots"][0]["present"], Value::Bool(true), "{report}");
        let served = server.served();
        assert!(served < 1 << 20, "{name}: {served} bytes");
    }
    let server = Server::new(forest());
    let output = program().args(["inspect", "--full", &server.url("a"), "--json"]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["blocks"].as_u64(), Some(forest().read));
}

#[test]
fn verify_and_doctor_read_a_url() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let done = import(&place, server.url("a.car")).run();
    done.succeeded();
    let url = server.url("a.car");
    let db = done.db.to_str().expect("text");
    let output = program().args(["verify", db, "--against", &url, "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["against"]["same"].as_u64(), Some(plain().records));
    let dir = place.path("here");
    std::fs::create_dir(&dir).expect("a folder");
    let output = program().arg("doctor").arg("--dir").arg(&dir).args([&url, "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["forecast"]["source"].as_str(), Some(url.as_str()), "{report}");
}
