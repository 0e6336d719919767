//! Servers that fail, stall or send wrong answers: the import retries, or reports the fault.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::common::crash::plain;
use crate::common::run::{Place, Run, import};
use crate::common::store::{Act, Store};

/// Short enough for a test.
fn impatient(import: Run) -> Run {
    import.env("BEDLOAD_NETWORK_STALL_MS", "300").env("BEDLOAD_NETWORK_PATIENCE_MS", "1500")
}

/// A server of [`plain`] that fails so at some requests.
fn failing(act: &Act, at: fn(usize) -> bool) -> Store {
    let act = act.clone();
    Store::serving(plain()).acts(move |_, nth| if at(nth) { act.clone() } else { Act::Serve })
}

#[test]
fn transient_failures_are_retried() {
    for act in [
        Act::Cut(1000),
        Act::Cut(0),
        Act::Stall(5000),
        Act::Stall(0),
        Act::Status(500, ""),
        Act::Status(429, "Retry-After: 1\r\n"),
        Act::Status(503, "Retry-After: 1\r\n"),
        Act::WrongRange,
        Act::Endless,
    ] {
        // Each range fails once at most: whether it fails again would depend on the order of the requests.
        let (failure, failed) = (act.clone(), Mutex::new(HashSet::new()));
        let server = Store::serving(plain()).acts(move |request, nth| {
            let end = request.range().map(|(_, last)| last);
            if nth % 5 == 2 && failed.lock().insert(end) { failure.clone() } else { Act::Serve }
        });
        let place = Place::in_memory();
        let run = import(&place, server.url("a.car")).env("BEDLOAD_NETWORK_STALL_MS", "300");
        assert_eq!(run.succeeds().text("/digest"), plain().digest, "{act:?}");
    }
}

#[test]
fn persistent_failure_keeps_unfinished_work() {
    for (act, words) in [
        (Act::Cut(0), "end of file before"),
        (Act::Stall(0), "the connection stalled: no data for 0.3 s"),
        (Act::Status(503, ""), "503"),
        (Act::Status(403, ""), "denies access (403"),
        (Act::WrongRange, "where"),
        (Act::Whole, "sends the whole file now"),
    ] {
        let (place, server) = (Place::in_memory(), failing(&act, |nth| nth > 3));
        let done = impatient(import(&place, server.url("a.car"))).run();
        done.refused(1, None, words);
        assert!(done.hint().contains("an import or a seed resumes where it stopped"), "{act:?}: {}", done.hint());
        server.now(|_, _| Act::Serve);
        import(&place, server.url("a.car")).holds(&plain().blocks);
    }
}

#[test]
fn failing_probe_names_the_url() {
    let place = Place::in_memory();
    // The port of a stopped server may be given to the server of another test.
    impatient(import(&place, "http://127.0.0.1:1/a.car")).run().refused(1, None, "read http://127.0.0.1");
    for (status, code, words) in
        [(404, 3, "there is no such file"), (403, 3, "denies"), (418, 3, "418"), (500, 1, "500")]
    {
        let server = Store::serving(plain()).acts(move |_, _| Act::Status(status, ""));
        impatient(import(&place, server.url("a.car"))).run().refused(code, None, words);
    }
}

#[test]
fn file_changed_during_import_is_refused() {
    let changed = "it changed on the server while it was being read: it was";
    // From the fourth request on the file has another length or another tag, which `If-Match` asks about.
    for (act, words) in [
        (Act::OtherLength, changed),
        (Act::Status(412, "ETag: \"two\"\r\n"), changed),
        (Act::Status(412, ""), "is another file, for which the server only answers 412 Precondition Failed"),
    ] {
        let server = failing(&act, |nth| nth > 2);
        let done = import(&Place::in_memory(), server.url("a.car")).run();
        done.refused(4, None, words);
        done.says(if words == changed { &["ETag \"one\""] } else { &[] });
    }
}

#[test]
fn redirects_are_followed_within_limits() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    server.points_to("dated.car");
    let done = import(&place, server.url("latest")).holds(&plain().blocks);
    let to_latest = server.requests().iter().filter(|request| request.path == "/latest").count();
    assert_eq!(to_latest, 1, "the name is asked once");
    assert_eq!(done.text("/sources/0/remote/url"), server.url("dated.car"));
    assert_eq!(done.text("/source/path"), server.url("latest"));

    let place = Place::in_memory();
    let to = server.url("again");
    server.now(move |_, _| Act::Redirect(to.clone()));
    import(&place, server.url("a.car")).run().refused(3, None, "redirects without an end");
    for scheme in ["ftp", "s3", "gopher"] {
        let to = format!("{scheme}://user:hidden@127.0.0.1/a.car");
        let server = Store::serving(plain()).acts(move |_, _| Act::Redirect(to.clone()));
        let web = import(&place, server.url("a.car"));
        for (number, run) in [web, import(&place, "s3://bucket/a.car").at(&server.endpoint())].into_iter().enumerate() {
            let done = run.run();
            done.refused(3, None, &format!("it redirects to a URL of {scheme}, which is not followed"));
            assert!(!done.stderr.contains("hidden"), "{}", done.stderr);
            assert_eq!(server.requests().len(), number + 1, "no other try");
        }
    }
}

#[test]
fn restarted_stream_is_compared() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    // The probe, a stream that breaks, and one that does not.
    server.now(|_, nth| if nth == 1 { Act::Cut(1_500_000) } else { Act::Whole });
    impatient(import(&place, server.url("a.car"))).holds(&plain().blocks);

    let place = Place::in_memory();
    let mut other = plain().bytes.clone();
    other[1_000_000] ^= 1;
    let server = Arc::new(Store::serving(plain()));
    let weak = Arc::downgrade(&server);
    server.now(move |_, nth| {
        if let Some(server) = weak.upgrade().filter(|_| nth == 2) {
            server.replace(other.clone(), "\"one\"");
        }
        if nth == 1 { Act::Cut(1_500_000) } else { Act::Whole }
    });
    impatient(import(&place, server.url("a.car"))).run().refused(4, None, "other bytes at its beginning");
}

/// A server that sent one byte every five seconds held an import for ever.
#[test]
fn trickling_server_ends_the_import() {
    let words = "the connection stalled: less than 1 KiB/s for 2 s";
    for (good, serve) in [(0, Act::Serve), (3, Act::Serve), (1, Act::Whole)] {
        let (place, server) = (Place::in_memory(), Store::serving(plain()));
        let first = serve.clone();
        server.now(move |_, nth| if nth >= good { Act::Trickle } else { first.clone() });
        let run = impatient(import(&place, server.url("a.car"))).env("BEDLOAD_NETWORK_STALL_MS", "500");
        run.run().refused(1, None, words);
        server.now(move |_, _| serve.clone());
        import(&place, server.url("a.car")).holds(&plain().blocks);
    }
}

/// Each 503 halved the connections, and the import stayed at one.
#[test]
fn refused_request_delays_only_its_connection() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let times = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&times);
    server.now(move |_, nth| {
        noted.lock().push(Instant::now());
        if nth % 3 == 2 { Act::Status(503, "Retry-After: 1\r\n") } else { Act::Serve }
    });
    let done = import(&place, server.url("a.car")).holds(&plain().blocks);
    let times = times.lock();
    assert!((20..40).contains(&times.len()), "{} requests", times.len());
    // One connection alone would wait a second after each refused request.
    let follows = |pair: &&[Instant]| pair[1] - pair[0] < Duration::from_millis(900);
    let followed = times[2..].chunks(3).filter_map(|chunk| chunk.get(..2)).filter(follows).count();
    assert!(followed > times.len() / 3 / 2, "{followed} refused requests of {} delayed no other", times.len() / 3);
    assert!(done.number("/sources/0/remote/connections") >= 4, "{}", done.json["sources"][0]["remote"]);
}
