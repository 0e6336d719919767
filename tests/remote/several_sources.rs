//! Several sources of which some are URLs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::car::Block;
use crate::common::crash::{Snapshot, forest, older, plain, small};
use crate::common::run::{Place, Run, import_all};
use crate::common::store::{Act, Store};
use crate::remote::resume::SLACK;
use crate::remote::{dies_after, sha256};

pub fn file(snapshot: &Snapshot) -> String {
    snapshot.file.to_str().expect("text").to_owned()
}

fn all<'a>(snapshots: &[&'a Snapshot]) -> Vec<&'a Block> {
    snapshots.iter().flat_map(|snapshot| &snapshot.blocks).collect()
}

fn spilling(place: &Place, sources: &[String]) -> Run {
    import_all(place, sources).spilling().args(&["--connections", "2"])
}

#[test]
fn resume_continues_at_the_killed_source() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::in_memory(), Store::serving(snapshot));
        let line = format!("{}  {}\n", sha256(&snapshot.bytes), snapshot.name);
        let server = server.with(&format!("{}.sha256sum", snapshot.name), line);
        let sources = [file(older()), server.url(snapshot.name), file(small())];
        let before = older().bytes.len() as u64 / 1_000_000;
        let point = format!("read:{}", before + 5);
        let (source, at) = dies_after(&place, &point, (1, 2_000_000), || spilling(&place, &sources));
        assert_eq!(source, 1, "killed in the URL");
        server.served();
        let done = spilling(&place, &sources).holds(all(&[older(), snapshot, small()]));
        let (served, missing) = (server.served(), snapshot.bytes.len() as u64 - at);
        assert!(served < missing + SLACK, "{served} bytes were served, {missing} were missing");
        assert_eq!(done.json["resumed"], true);
        // Only the row of the URL has fields of remote sources.
        let row = &done.json["sources"][1];
        assert_eq!((&row["remote"]["url"], &row["remote"]["etag"]), (&(*sources[1]).into(), &"\"one\"".into()));
        assert!(done.number("/sources/1/remote/received_bytes") >= missing);
        assert_eq!(row["checksum"]["sum"], sha256(&snapshot.bytes));
        assert_eq!(row["bytes"], snapshot.bytes.len());
        for nowhere in ["/sources/0/remote", "/sources/2/remote", "/sources/0/checksum", "/source/remote"] {
            assert_eq!(done.json.pointer(nowhere), None, "{nowhere}");
        }
    }
}

#[test]
fn resume_skips_a_finished_url() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let server = server.with("plain.car.sha256", sha256(&plain().bytes));
    let sources = [server.url("plain.car"), file(forest())];
    assert_eq!(dies_after(&place, "read:12", (1, 0), || spilling(&place, &sources)).0, 1, "killed in the file");
    server.served();
    let done = spilling(&place, &sources).holds(all(&[plain(), forest()]));
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    assert_eq!(done.text("/sources/0/checksum/sum"), sha256(&plain().bytes), "compared by the run before");
    assert_eq!(done.text("/sources/0/remote/etag"), "\"one\"");
}

#[test]
fn every_loader_reads_files_and_urls() {
    let server = Store::serving(forest());
    let blocks = all(&[forest(), older()]);
    let sources = [server.url(forest().name), file(older())];
    import_all(&Place::in_memory(), &sources).holds(blocks.iter().copied());
    // Killed in the URL, and in the file after it.
    for point in ["batch:3", "read-done"] {
        let place = Place::in_memory();
        import_all(&place, &sources).through_memtables().dies_at(point);
        import_all(&place, &sources).through_memtables().holds(blocks.iter().copied());
    }
    for act in [Act::Whole, Act::WithoutLength] {
        let server = Store::serving(plain()).acts(move |_, _| act.clone());
        let sources = [file(small()), server.url("plain.car"), file(older())];
        let place = Place::in_memory();
        spilling(&place, &sources).dies_at("read:5");
        spilling(&place, &sources).holds(all(&[small(), plain(), older()]));
    }
}

#[test]
fn changed_or_wrong_source_is_named() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let sources = [file(small()), server.url("plain.car")];
    spilling(&place, &sources).dies_at("read:3");
    server.replace(plain(), "\"two\"");
    let done = spilling(&place, &sources).run();
    done.refused(4, None, "source 2 was");
    done.says(&[&sources[1], "ETag \"one\"", "ETag \"two\""]);
    spilling(&place, &sources).args(&["--restart"]).holds(all(&[small(), plain()]));

    // It changes after the import has begun.
    let other = Store::serving(plain());
    other.replace(plain(), "\"two\"");
    let (moved, first) = (other.url("plain.car"), AtomicBool::new(true));
    let server = Store::serving(plain()).acts(move |_, _| match first.swap(false, Ordering::Relaxed) {
        true => Act::Serve,
        false => Act::Redirect(moved.clone()),
    });
    let sources = [file(small()), server.url("plain.car")];
    let done = spilling(&Place::in_memory(), &sources).run();
    done.refused(4, None, "it changed on the server since the import began");
    done.says(&[&sources[1]]);

    let server = Store::serving(plain()).with("plain.car.sha256sum", sha256(b"something else"));
    let sources = [file(small()), server.url("plain.car")];
    import_all(&Place::in_memory(), &sources).refused(3, &format!("read {}: its SHA-256 is", sources[1]));
}

#[test]
fn options_of_one_source_are_refused() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let url = server.url("plain.car");
    let sum = format!("sha256:{}", sha256(&plain().bytes));
    let connections = "--connections and --endpoint have no effect";
    for (sources, args, words) in [
        (vec![file(small()), url.clone()], &["--checksum", &*sum][..], "a checksum is of one source, and these are 2"),
        (vec![format!("{url}?a=hidden"), format!("{url}?b=hidden")], &[], "is named twice"),
        (vec![file(plain())], &["--connections", "2"], connections),
        (vec![file(small()), file(plain())], &["--connections", "2"], connections),
    ] {
        let done = import_all(&place, &sources).args(args).run();
        done.refused(2, None, words);
        assert!(!done.stderr.contains("hidden"), "{}", done.stderr);
    }
}

#[test]
fn concurrent_probes_report_the_first_fault() {
    let late = |bytes: &[u8], wait: u64, act: Act| {
        Store::serving(bytes).acts(move |_, _| {
            std::thread::sleep(Duration::from_millis(wait));
            act.clone()
        })
    };
    let looks = |args: &[&str]| {
        let server = late(&small().bytes, 20, Act::Serve);
        let sources: Vec<String> = (0..40).map(|number| server.url(&format!("{number}.car"))).collect();
        import_all(&Place::in_memory(), &sources).args(args).args(&["--dry-run"]).succeeds();
        assert!(server.requests().len() >= 40);
        server.most_connections()
    };
    let most = looks(&[]);
    assert!((8..=20).contains(&most), "{most} at once");
    // The server counts those that it has yet to close.
    assert!(looks(&["--connections", "1"]) < 5);

    let [fast, slow] = [0, 300].map(|wait| late(&[], wait, Act::Status(404, "")));
    let sources = [file(small()), slow.url("a.car"), fast.url("b.car"), "missing.car".into()];
    import_all(&Place::in_memory(), &sources).refused(3, &format!("read {}: there is no such file", sources[1]));
    let sources = [file(small()), "missing.car".into(), fast.url("b.car")];
    import_all(&Place::in_memory(), &sources).refused(3, "missing.car: there is no such file");
}

#[test]
fn each_url_gets_its_own_credentials() {
    let (place, one, two) = (Place::in_memory(), Store::serving(plain()), Store::serving(older()));
    let url = |server: &Store, secret: &str| format!("http://user:{secret}@{}/a.car?{secret}", server.address);
    let sources = [url(&one, "hidden-one"), url(&two, "hidden-two")];
    let done = spilling(&place, &sources).holds(all(&[plain(), older()]));
    for (server, secret, row) in [(&one, "hidden-one", 0), (&two, "hidden-two", 1)] {
        assert!(server.requests().iter().any(|request| request.path.ends_with(&format!("?{secret}"))));
        assert_eq!(done.text(&format!("/sources/{row}/path")), format!("http://{}/a.car?…", server.address));
    }
    assert!(!done.json.to_string().contains("hidden") && !done.stderr.contains("hidden"));
}
