//! Several sources of which some are URLs.

use sha2::{Digest, Sha256};

use crate::common::car::Block;
use crate::common::crash::{Snapshot, forest, older, plain, small};
use crate::common::run::{Import, Place, import_all};
use crate::common::server::{Act, Server};
use crate::{Needs, dies};

tests! {
    Needs::Nothing => [
        resume_continues_at_the_killed_source,
        resume_skips_a_finished_url,
        every_loader_reads_files_and_urls,
        stream_is_resumed_among_several_sources,
        resume_names_the_changed_source,
        changed_later_source_is_named,
        wrong_checksum_names_its_source,
        options_of_one_source_are_refused,
        each_url_gets_its_own_credentials,
        concurrent_probes_report_the_first_fault,
    ];
}

/// Bytes that may be read twice: those read ahead of the durable point.
const SLACK: u64 = 2 << 20;

fn file(snapshot: &Snapshot) -> String {
    snapshot.file.to_str().expect("text").to_owned()
}

fn all<'a>(snapshots: &[&'a Snapshot]) -> Vec<&'a Block> {
    snapshots.iter().flat_map(|snapshot| &snapshot.blocks).collect()
}

fn spilling(place: &Place, sources: &[String]) -> Import {
    import_all(place, sources)
        .args(&["--plan", "spill", "--memory", "16MiB", "--threads", "2", "--connections", "2"])
        .env("BEDLOAD_DURABLE_BYTES", "1000000")
}

/// The source of the last durable place, and its bytes before that.
fn durable(place: &Place) -> (u64, Option<u64>) {
    let text = std::fs::read_to_string(place.path("db.partial").join("journal")).expect("a journal");
    let mut entries = text.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(&line[17..]).ok());
    let mark = entries.find_map(|entry| entry.get("mark").cloned()).expect("a durable place");
    let number = |path: &str| mark.pointer(path).and_then(serde_json::Value::as_u64);
    (number("/source").unwrap_or_default(), number("/restart/packed"))
}

fn sum(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(bytes))
}

fn resume_continues_at_the_killed_source() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::new(), Server::new(snapshot.bytes.clone()));
        let line = format!("{}  {}\n", sum(&snapshot.bytes), snapshot.name);
        let server = server.with(&format!("{}.sha256sum", snapshot.name), line);
        let sources = [file(older()), server.url(snapshot.name), file(small())];
        let blocks = all(&[older(), snapshot, small()]);
        let before = older().bytes.len() as u64 / 1_000_000;
        dies(spilling(&place, &sources), &format!("read:{}", before + 5));
        let (source, at) = durable(&place);
        let at = at.expect("a place to begin at");
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
        assert_eq!(done.text("/sources/1/checksum/sum"), sum(&snapshot.bytes));
        assert_eq!(done.number("/sources/1/bytes"), snapshot.bytes.len() as u64);
        for nowhere in ["/sources/0/remote", "/sources/2/remote", "/sources/0/checksum", "/source/remote"] {
            assert_eq!(done.json.pointer(nowhere), None, "{nowhere}");
        }
    }
}

fn resume_skips_a_finished_url() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let server = server.with("plain.car.sha256", sum(&plain().bytes));
    let sources = [server.url("plain.car"), file(forest())];
    dies(spilling(&place, &sources), "read:12");
    assert_eq!(durable(&place).0, 1, "killed in the file");
    server.served();
    let done = spilling(&place, &sources).holds(all(&[plain(), forest()]));
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    assert_eq!(done.text("/sources/0/checksum/sum"), sum(&plain().bytes), "compared by the run before");
    assert_eq!(done.text("/sources/0/remote/etag"), "\"one\"");
}

fn every_loader_reads_files_and_urls() {
    let server = Server::new(forest().bytes.clone());
    let blocks = all(&[forest(), older()]);
    let place = Place::new();
    let sources = [server.url(forest().name), file(older())];
    import_all(&place, &sources).holds(blocks.iter().copied());
    let place = Place::new();
    dies(import_all(&place, &sources).through_memtables(), "batch:3");
    import_all(&place, &sources).through_memtables().holds(blocks.iter().copied());
    // Killed in the file after the URL.
    let place = Place::new();
    dies(import_all(&place, &sources).through_memtables(), "read-done");
    import_all(&place, &sources).through_memtables().holds(blocks);
}

fn stream_is_resumed_among_several_sources() {
    for act in [Act::Whole, Act::WithoutLength] {
        let server = Server::new(plain().bytes.clone()).acts(move |_, _| act.clone());
        let sources = [file(small()), server.url("plain.car"), file(older())];
        let args = ["--plan", "spill", "--memory", "16MiB"];
        let import = |place: &Place| import_all(place, &sources).args(&args).env("BEDLOAD_DURABLE_BYTES", "1000000");
        let place = Place::new();
        dies(import(&place), "read:5");
        import(&place).holds(all(&[small(), plain(), older()]));
    }
}

fn resume_names_the_changed_source() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let sources = [file(small()), server.url("plain.car")];
    dies(spilling(&place, &sources), "read:3");
    server.replace(plain().bytes.clone(), "\"two\"");
    let done = spilling(&place, &sources).run();
    done.refused(4, None, "source 2 was");
    for words in [&*sources[1], "ETag \"one\"", "ETag \"two\""] {
        assert!(done.stderr.contains(words), "{}", done.stderr);
    }
    spilling(&place, &sources).args(&["--restart"]).holds(all(&[small(), plain()]));
}

fn changed_later_source_is_named() {
    let server = Server::new(plain().bytes.clone());
    let other = Server::new(plain().bytes.clone());
    let (moved, first) = (other.url("plain.car"), std::sync::atomic::AtomicBool::new(true));
    other.replace(plain().bytes.clone(), "\"two\"");
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

fn wrong_checksum_names_its_source() {
    let server = Server::new(plain().bytes.clone()).with("plain.car.sha256sum", sum(b"something else"));
    let sources = [file(small()), server.url("plain.car")];
    let place = Place::new();
    let done = import_all(&place, &sources).run();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("read {}: its SHA-256 is", sources[1])), "{}", done.stderr);
}

fn options_of_one_source_are_refused() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let url = server.url("plain.car");
    let sum = format!("sha256:{}", sum(&plain().bytes));
    let done = import_all(&place, &[file(small()), url.clone()]).args(&["--checksum", &sum]).run();
    done.refused(2, None, "--checksum is of one source, and these are 2");
    let done = import_all(&place, &[format!("{url}?a=hidden"), format!("{url}?b=hidden")]).run();
    done.refused(2, None, "is named twice");
    assert!(!done.stderr.contains("hidden"), "{}", done.stderr);
    let done = import_all(&place, &[file(small()), file(plain())]).args(&["--connections", "2"]).run();
    done.refused(2, None, "--connections and --endpoint have no effect");
}

fn concurrent_probes_report_the_first_fault() {
    let late = |_: &_, _| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Act::Serve
    };
    let looks = |args: &[&str]| {
        let server = Server::new(small().bytes.clone()).acts(late);
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

fn each_url_gets_its_own_credentials() {
    let (place, one, two) = (Place::new(), Server::new(plain().bytes.clone()), Server::new(older().bytes.clone()));
    let url = |server: &Server, secret: &str| format!("http://user:{secret}@{}/a.car?{secret}", server.address());
    let sources = [url(&one, "hidden-one"), url(&two, "hidden-two")];
    let done = spilling(&place, &sources).holds(all(&[plain(), older()]));
    for (server, secret, row) in [(&one, "hidden-one", 0), (&two, "hidden-two", 1)] {
        assert!(server.requests().iter().any(|request| request.path.ends_with(&format!("?{secret}"))));
        assert_eq!(done.text(&format!("/sources/{row}/path")), format!("http://{}/a.car?…", server.address()));
    }
    assert!(!done.json.to_string().contains("hidden") && !done.stderr.contains("hidden"));
}
