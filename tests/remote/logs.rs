//! Block logs at URLs.

use crate::common::crash::{forest, log, plain};
use crate::common::run::{Import, Place, import};
use crate::common::server::Server;
use crate::sha256;

fn of_log(place: &Place, url: &str) -> Import {
    import(place, url).args(&["--memory", "16MiB", "--threads", "2"]).env("BEDLOAD_DURABLE_BYTES", "1000000")
}

#[test]
fn log_resumes_unless_it_changed() {
    let (place, server) = (Place::new(), Server::new(log()));
    let url = server.url("block_log");
    of_log(&place, &url).dies_at("range:2");
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert_eq!(done.text("/digest"), log().digest);
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));

    let place = Place::new();
    of_log(&place, &url).dies_at("range:2");
    server.replace(log(), "\"two\"");
    let done = of_log(&place, &url).run();
    done.refused(4, None, "the source was");
    for words in [&*url, "ETag \"one\"", "ETag \"two\""] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    let done = of_log(&place, &url).args(&["--restart"]).run();
    done.succeeded();
    assert_eq!(done.text("/sources/0/remote/etag"), "\"two\"");
}

#[test]
fn log_resumes_at_the_redirect_target() {
    let (place, server) = (Place::new(), Server::new(log()));
    server.points_to("dated");
    of_log(&place, &server.url("latest")).dies_at("range:2");
    server.points_to("newer");
    let done = of_log(&place, &server.url("latest")).run();
    done.succeeded();
    assert_eq!(done.text("/sources/0/remote/url"), server.url("dated"));
}

#[test]
fn finished_log_is_not_read_again() {
    let (place, server) = (Place::new(), Server::new(log()));
    let url = server.url("block_log");
    of_log(&place, &url).dies_at("renamed");
    server.served();
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    // Another file under the name is not taken for it.
    let place = Place::new();
    of_log(&place, &url).dies_at("renamed");
    server.replace(log(), "\"two\"");
    assert_eq!(of_log(&place, &url).run().code, Some(4));
    // Nor is a snapshot of another format.
    let place = Place::new();
    of_log(&place, &url).dies_at("range:2");
    server.replace(forest(), "\"three\"");
    assert_eq!(of_log(&place, &url).run().code, Some(4));
}

#[test]
fn log_checksum_is_compared() {
    let (place, server) = (Place::new(), Server::new(log()));
    let server = server.with("block_log.sha256sum", sha256(&log().bytes));
    let url = server.url("block_log");
    of_log(&place, &url).dies_at("range:2");
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert_eq!(done.json.pointer("/sources/0/checksum/compared"), Some(&true.into()));
    let (place, server) = (Place::new(), Server::new(log()));
    let server = server.with("block_log.sha256sum", sha256(&plain().bytes));
    let url = server.url("block_log");
    of_log(&place, &url).run().refused(3, None, "its SHA-256 is");
    // Of a part of it there is no sum to compare.
    let done = of_log(&place, &url).args(&["--to", "100"]).run();
    done.succeeded();
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
    std::fs::remove_dir_all(&done.db).expect("removed");
    let sum = format!("sha256:{}", sha256(&log().bytes));
    for source in [url, log().file.to_str().expect("text").to_owned()] {
        let done = of_log(&place, &source).args(&["--to", "100", "--checksum", &sum]).run();
        done.refused(2, None, "--checksum is of all bytes, and with --to the log is not read to its end");
    }
}
