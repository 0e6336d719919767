//! Several sources of which some are URLs.

use crate::common::car::Block;
use crate::common::crash::{Snapshot, forest, older, plain, small};
use crate::common::run::{Import, Place, import_all};
use crate::common::server::{Act, Server};
use crate::{durable, sha256};

/// Bytes that may be read twice: those read ahead of the durable point.
const SLACK: u64 = 2 << 20;

fn file(snapshot: &Snapshot) -> String {
    snapshot.file.to_str().expect("text").to_owned()
}

fn all<'a>(snapshots: &[&'a Snapshot]) -> Vec<&'a Block> {
    snapshots.iter().flat_map(|snapshot| &snapshot.blocks).collect()
}

fn spilling(place: &Place, sources: &[String]) -> Import {
    import_all(place, sources).spilling().args(&["--connections", "2"])
}

#[test]
fn resume_continues_at_the_killed_source() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::new(), Server::new(snapshot));
        let line = format!("{}  {}\n", sha256(&snapshot.bytes), snapshot.name);
        let server = server.with(&format!("{}.sha256sum", snapshot.name), line);
        let sources = [file(older()), server.url(snapshot.name), file(small())];
        let blocks = all(&[older(), snapshot, small()]);
        let before = older().bytes.len() as u64 / 1_000_000;
        spilling(&place, &sources).dies_at(&format!("read:{}", before + 5));
        let (source, at) = durable(&place);
        assert!(source == 1 && at > 2_000_000, "durable at {at} of {source}");
        server.served();
        let done = spilling(&place, &sources).holds(blocks.iter().copied());
        let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
        assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
        assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
        // Only the row of the URL has fields of remote sources.
        assert_eq!(done.text("/sources/1/remote/url"), sources[1]);
        assert_eq!(done.text("/sources/1/remote/etag"), "\"one\"");
        assert!(done.number("/sources/1/remote/received_bytes") >= missing);
        assert_eq!(done.text("/sources/1/checksum/sum"), sha256(&snapshot.bytes));
        assert_eq!(done.number("/sources/1/bytes"), snapshot.bytes.len() as u64);
        for nowhere in ["/sources/0/remote", "/sources/2/remote", "/sources/0/checksum", "/source/remote"] {
            assert_eq!(done.json.pointer(nowhere), None, "{nowhere}");
        }
    }
}

#[test]
fn resume_skips_a_finished_url() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let server = server.with("plain.car.sha256", sha256(&plain().bytes));
    let sources = [server.url("plain.car"), file(forest())];
    spilling(&place, &sources).dies_at("read:12");
    assert_eq!(durable(&place).0, 1, "killed in the file");
    server.served();
    let done = spilling(&place, &sources).holds(all(&[plain(), forest()]));
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    assert_eq!(done.text("/sources/0/checksum/sum"), sha256(&plain().bytes), "compared by the run before");
    assert_eq!(done.text("/sources/0/remote/etag"), "\"one\"");
}

#[test]
fn every_loader_reads_files_and_urls() {
    let server = Server::new(forest());
    let blocks = all(&[forest(), older()]);
    let sources = [server.url(forest().name), file(older())];
    import_all(&Place::new(), &sources).holds(blocks.iter().copied());
    // Killed in the URL, and in the file after it.
    for point in ["batch:3", "read-done"] {
        let place = Place::new();
        import_all(&place, &sources).through_memtables().dies_at(point);
        import_all(&place, &sources).through_memtables().holds(blocks.iter().copied());
    }
}

#[test]
fn stream_is_resumed_among_several_sources() {
    for act in [Act::Whole, Act::WithoutLength] {
        let server = Server::new(plain()).acts(move |_, _| act.clone());
        let sources = [file(small()), server.url("plain.car"), file(older())];
        let place = Place::new();
        spilling(&place, &sources).dies_at("read:5");
        spilling(&place, &sources).holds(all(&[small(), plain(), older()]));
    }
}

#[test]
fn resume_names_the_changed_source() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let sources = [file(small()), server.url("plain.car")];
    spilling(&place, &sources).dies_at("read:3");
    server.replace(plain(), "\"two\"");
    let done = spilling(&place, &sources).run();
    done.refused(4, None, "source 2 was");
    for words in [&*sources[1], "ETag \"one\"", "ETag \"two\""] {
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
    spilling(&place, &sources).args(&["--restart"]).holds(all(&[small(), plain()]));
}

#[test]
fn changed_later_source_is_named() {
    let server = Server::new(plain());
    let other = Server::new(plain());
    let (moved, first) = (other.url("plain.car"), std::sync::atomic::AtomicBool::new(true));
    other.replace(plain(), "\"two\"");
    let server = server.acts(move |_, _| match first.swap(false, std::sync::atomic::Ordering::Relaxed) {
        true => Act::Serve,
        false => Act::Redirect(moved.clone()),
    });
    let sources = [file(small()), server.url("plain.car")];
    let place = Place::new();
    let done = spilling(&place, &sources).run();
    done.refused(4, None, "it changed on the server since the import began");
    assert!(done.stderr.contains(&sources[1]), "{}", done.stderr);
}

#[test]
fn wrong_checksum_names_its_source() {
    let server = Server::new(plain()).with("plain.car.sha256sum", sha256(b"something else"));
    let sources = [file(small()), server.url("plain.car")];
    let place = Place::new();
    let done = import_all(&place, &sources).run();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("read {}: its SHA-256 is", sources[1])), "{}", done.stderr);
}

#[test]
fn options_of_one_source_are_refused() {
    let (place, server) = (Place::new(), Server::new(plain()));
    let url = server.url("plain.car");
    let sum = format!("sha256:{}", sha256(&plain().bytes));
    let done = import_all(&place, &[file(small()), url.clone()]).args(&["--checksum", &sum]).run();
    done.refused(2, None, "--checksum is of one source, and these are 2");
    let done = import_all(&place, &[format!("{url}?a=hidden"), format!("{url}?b=hidden")]).run();
    done.refused(2, None, "is named twice");
    assert!(!done.stderr.contains("hidden"), "{}", done.stderr);
    for sources in [&[file(plain())][..], &[file(small()), file(plain())]] {
        let done = import_all(&place, sources).args(&["--connections", "2"]).run();
        done.refused(2, None, "--connections and --endpoint have no effect");
    }
}

#[test]
fn concurrent_probes_report_the_first_fault() {
    let late = |_: &_, _| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Act::Serve
    };
    let looks = |args: &[&str]| {
        let server = Server::new(small()).acts(late);
        let sources: Vec<String> = (0..40).map(|number| server.url(&format!("{number}.car"))).collect();
        let place = Place::new();
        let done = import_all(&place, &sources).args(args).args(&["--dry-run"]).run();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(server.requests().len() >= 40);
        server.most_connections()
    };
    let most = looks(&[]);
    assert!((8..=20).contains(&most), "{most} at once");
    // The server counts those that it has yet to close.
    assert!(looks(&["--connections", "1"]) < 5);

    let (fast, slow) = (Server::new(Vec::new()), Server::new(Vec::new()));
    fast.now(|_, _| Act::Status(404, ""));
    slow.now(|_, _| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        Act::Status(404, "")
    });
    let sources = [file(small()), slow.url("a.car"), fast.url("b.car"), "missing.car".into()];
    let place = Place::new();
    let done = import_all(&place, &sources).run();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("read {}: there is no such file", sources[1])), "{}", done.stderr);
    let sources = [file(small()), "missing.car".into(), fast.url("b.car")];
    let done = import_all(&place, &sources).run();
    assert!(done.stderr.contains("missing.car: there is no such file"), "{}", done.stderr);
}

#[test]
fn each_url_gets_its_own_credentials() {
    let (place, one, two) = (Place::new(), Server::new(plain()), Server::new(older()));
    let url = |server: &Server, secret: &str| format!("http://user:{secret}@{}/a.car?{secret}", server.address());
    let sources = [url(&one, "hidden-one"), url(&two, "hidden-two")];
    let done = spilling(&place, &sources).holds(all(&[plain(), older()]));
    for (server, secret, row) in [(&one, "hidden-one", 0), (&two, "hidden-two", 1)] {
        assert!(server.requests().iter().any(|request| request.path.ends_with(&format!("?{secret}"))));
        assert_eq!(done.text(&format!("/sources/{row}/path")), format!("http://{}/a.car?…", server.address()));
    }
    assert!(!done.json.to_string().contains("hidden") && !done.stderr.contains("hidden"));
}
