//! What is imported, inspected and compared from a URL, and how much is asked for.

use serde_json::Value;

use crate::Needs;
use crate::common::car::*;
use crate::common::crash::{forest, log, plain};
use crate::common::run::{Place, import, program};
use crate::common::server::{Act, Server};

tests! {
    Needs::Nothing => [
        a_plain_car_comes_in_ranges_of_the_pinned_file,
        every_kind_of_wrapping_comes_from_a_url,
        forests_frames_come_in_ranges_and_a_block_log_as_a_stream,
        a_server_without_ranges_is_read_by_one_stream,
        slow_connections_are_made_more_and_connections_fixes_them,
        an_inspection_reads_a_few_hundred_kib,
        a_database_is_compared_with_a_url_and_doctor_samples_one,
        options_of_networks_are_refused_for_files,
    ];
}

fn a_plain_car_comes_in_ranges_of_the_pinned_file() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
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

fn every_kind_of_wrapping_comes_from_a_url() {
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

fn forests_frames_come_in_ranges_and_a_block_log_as_a_stream() {
    let (place, server) = (Place::new(), Server::new(forest().bytes.clone()));
    import(&place, server.url("some.forest.car.zst")).holds(&forest().blocks);
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    let done = import(&place, server.url("block_log")).run();
    done.succeeded();
    assert_eq!(done.text("/digest"), log().digest);
}

fn a_server_without_ranges_is_read_by_one_stream() {
    for act in [Act::Whole, Act::WithoutLength] {
        let (place, server) = (Place::new(), Server::new(plain().bytes.clone()).acts(move |_, _| act.clone()));
        let done = import(&place, server.url("a.car")).holds(&plain().blocks);
        assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(false)));
    }
}

fn slow_connections_are_made_more_and_connections_fixes_them() {
    let slow = |_: &_, _| Act::Slow(700 << 10);
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()).acts(slow));
    import(&place, server.url("a.car")).holds(&plain().blocks);
    assert!(server.most_connections() > 4, "more give more: {}", server.most_connections());
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()).acts(|_, _| Act::Slow(4 << 20)));
    import(&place, server.url("a.car")).args(&["--connections", "2"]).holds(&plain().blocks);
    // The server counts those that it has yet to close.
    assert!(server.most_connections() <= 4, "{}", server.most_connections());
}

fn an_inspection_reads_a_few_hundred_kib() {
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
    let server = Server::new(forest().bytes.clone());
    let output = program().args(["inspect", "--full", &server.url("a"), "--json"]).output().expect("it runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["blocks"].as_u64(), Some(forest().read));
}

fn a_database_is_compared_with_a_url_and_doctor_samples_one() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
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

fn options_of_networks_are_refused_for_files() {
    let place = Place::new();
    let done = import(&place, place.file("a.car", &plain().bytes)).args(&["--connections", "3"]).run();
    done.refused(2, None, "--connections and --endpoint have no effect");
}
