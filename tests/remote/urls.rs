//! Imports, inspections and comparisons of URLs, and the bytes that they request.

use crate::common::car::*;
use crate::common::crash::{forest, plain};
use crate::common::run::{Place, import, json, program};
use crate::common::store::{Act, Store};

#[test]
fn plain_car_is_read_in_pinned_ranges() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
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
    assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&true.into()));
    assert_eq!(done.number("/source/bytes"), len);
}

#[test]
fn url_import_reads_every_compression() {
    let blocks = &plain().blocks[..1500];
    let car = rooted(blocks);
    for (name, bytes, blocks) in [
        ("a.car.zst", zstd(&car), blocks),
        ("a.car.xz", xz(&car), blocks),
        ("a.car.gz", gzip(&car), blocks),
        ("a.car.lz4", lz4(&car), blocks),
        ("v2.car", v2(&car, 40, &noise(5, 5000)), blocks),
        ("tiny.car", rooted(&blocks[..3]), &blocks[..3]),
    ] {
        import(&Place::in_memory(), Store::serving(bytes).url(name)).holds(blocks);
    }
}

#[test]
fn server_without_ranges_is_read_as_stream() {
    for act in [Act::Whole, Act::WithoutLength] {
        for bytes in [plain().bytes.clone(), zstd(&plain().bytes)] {
            let act = act.clone();
            let (place, server) = (Place::in_memory(), Store::serving(bytes).acts(move |_, _| act.clone()));
            let done = import(&place, server.url("a.car")).holds(&plain().blocks);
            assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&false.into()));
        }
    }
}

#[test]
fn slow_server_gets_more_connections() {
    for (rate, args) in [(700 << 10, &[][..]), (4 << 20, &["--connections", "2"])] {
        let (place, server) = (Place::in_memory(), Store::serving(plain()).acts(move |_, _| Act::Slow(rate)));
        import(&place, server.url("a.car")).args(args).holds(&plain().blocks);
        // The server counts those that it has yet to close.
        assert_eq!(server.most_connections() > 4, args.is_empty(), "{} at once", server.most_connections());
    }
}

#[test]
fn inspect_reads_little_of_a_url() {
    for (name, bytes) in [("a.car", &plain().bytes), ("a.forest.car.zst", &forest().bytes)] {
        let server = Store::serving(bytes.clone());
        let report = json(program().args(["inspect", &server.url(name)]), 0);
        assert_eq!((&report["bytes"], &report["roots"][0]["present"]), (&bytes.len().into(), &true.into()), "{report}");
        let served = server.served();
        assert!(served < 1 << 20, "{name}: {served} bytes");
    }
    let server = Store::serving(forest());
    let report = json(program().args(["inspect", "--full", &server.url("a")]), 0);
    assert_eq!(report["blocks"], forest().read);
}

#[test]
fn verify_and_doctor_read_a_url() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let url = server.url("a.car");
    let done = import(&place, &url).succeeds();
    let report = json(program().arg("verify").arg(&done.db).args(["--against", &url]), 0);
    assert_eq!(report["against"]["same"], plain().records);
    let report = json(program().arg("doctor").arg("--dir").arg(place.dir("here")).arg(&url), 0);
    assert_eq!(report["forecast"]["source"], url, "{report}");
}
