//! Block logs at URLs.

use crate::common::crash::{forest, log, plain};
use crate::common::run::{Import, Place, import};
use crate::common::server::{Act, Server};
use crate::{Needs, dies};

tests! {
    Needs::Nothing => [
        log_resumes_unless_it_changed,
        log_resumes_at_the_redirect_target,
        finished_log_is_not_read_again,
        resume_refuses_another_source_format,
        log_checksum_is_compared,
    ];
}

fn of_log(place: &Place, url: &str) -> Import {
    import(place, url).args(&["--memory", "16MiB", "--threads", "2"]).env("BEDLOAD_DURABLE_BYTES", "1000000")
}

fn log_resumes_unless_it_changed() {
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    let url = server.url("block_log");
    dies(of_log(&place, &url), "range:2");
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert_eq!(done.text("/digest"), log().digest);
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));

    let place = Place::new();
    dies(of_log(&place, &url), "range:2");
    server.replace(log().bytes.clone(), "\"two\"");
    let done = of_log(&place, &url).run();
    done.refused(4, None, "the source was");
    for words in [&*url, "ETag \"one\"", "ETag \"two\""] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
    let done = of_log(&place, &url).args(&["--restart"]).run();
    done.succeeded();
    assert_eq!(done.text("/sources/0/remote/etag"), "\"two\"");
}

fn log_resumes_at_the_redirect_target() {
    let server = Server::new(log().bytes.clone());
    let to = |name: &str| {
        let to = server.url(name);
        move |request: &crate::common::server::Request, _| match request.path.as_str() {
            "/latest" => Act::Redirect(to.clone()),
            "/newer" => Act::Status(500, ""),
            _ => Act::Serve,
        }
    };
    server.now(to("dated"));
    let place = Place::new();
    dies(of_log(&place, &server.url("latest")), "range:2");
    server.now(to("newer"));
    let done = of_log(&place, &server.url("latest")).run();
    done.succeeded();
    assert_eq!(done.text("/sources/0/remote/url"), server.url("dated"));
}

fn finished_log_is_not_read_again() {
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    let url = server.url("block_log");
    dies(of_log(&place, &url), "renamed");
    server.served();
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert!(server.served() < 1 << 20, "only its beginning is asked for");
    // Another file under the name is not taken for it.
    let place = Place::new();
    dies(of_log(&place, &url), "renamed");
    server.replace(log().bytes.clone(), "\"two\"");
    let done = of_log(&place, &url).run();
    assert_eq!(done.code, Some(4), "{}", done.stderr);
}

fn resume_refuses_another_source_format() {
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    dies(of_log(&place, &server.url("a")), "range:2");
    server.replace(forest().bytes.clone(), "\"two\"");
    let done = of_log(&place, &server.url("a")).run();
    assert_eq!(done.code, Some(4), "{}", done.stderr);
}

fn log_checksum_is_compared() {
    use sha2::{Digest, Sha256};
    let sum = |bytes: &[u8]| data_encoding::HEXLOWER.encode(&Sha256::digest(bytes));
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    let server = server.with("block_log.sha256sum", sum(&log().bytes));
    let url = server.url("block_log");
    dies(of_log(&place, &url), "range:2");
    let done = of_log(&place, &url).run();
    done.succeeded();
    assert_eq!(done.json.pointer("/sources/0/checksum/compared"), Some(&true.into()));
    let (place, server) = (Place::new(), Server::new(log().bytes.clone()));
    let server = server.with("block_log.sha256sum", sum(&plain().bytes));
    let url = server.url("block_log");
    of_log(&place, &url).run().refused(3, None, "its SHA-256 is");
    // Of a part of it there is no sum to compare.
    let done = of_log(&place, &url).args(&["--to", "100"]).run();
    done.succeeded();
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
    std::fs::remove_dir_all(&done.db).expect("removed");
    let sum = format!("sha256:{}", sum(&log().bytes));
    for source in [url, log().file.to_str().expect("text").to_owned()] {
        let done = of_log(&place, &source).args(&["--to", "100", "--checksum", &sum]).run();
        done.refused(2, None, "--checksum is of all bytes, and with --to the log is not read to its end");
    }
}
