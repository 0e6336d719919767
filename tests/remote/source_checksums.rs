//! SHA-256 of sources: given, or published beside a URL.

use crate::common::crash::{forest, plain};
use crate::common::run::{Place, import};
use crate::common::server::{Act, Server};
use crate::sha256;

#[test]
fn given_checksum_is_compared() {
    for snapshot in [plain(), forest()] {
        let (place, server) = (Place::new(), Server::new(snapshot));
        let right = format!("sha256:{}", sha256(&snapshot.bytes));
        let wrong = format!("sha256:{}", sha256(b"something else"));
        let sources = [server.url(snapshot.name), snapshot.file.to_str().expect("text").to_owned()];
        for source in sources {
            let done = import(&place, &source).args(&["--checksum", &wrong]).run();
            done.refused(3, None, &format!("its SHA-256 is {}", &right[7..]));
            assert!(done.stderr.contains(&wrong[7..]), "both sides: {}", done.stderr);
            let done = import(&place, &source).args(&["--checksum", &right]).holds(&snapshot.blocks);
            assert_eq!(done.text("/sources/0/checksum/sum"), &right[7..]);
            assert_eq!(done.text("/sources/0/checksum/from"), "the command line");
            assert_eq!(done.json.pointer("/sources/0/checksum/compared"), Some(&true.into()));
            std::fs::remove_dir_all(&done.db).expect("removed");
        }
    }
}

#[test]
fn published_checksum_is_compared() {
    for name in ["a.car.sha256sum", "a.car.sha256"] {
        let line = format!("{}  a.car\n", sha256(&plain().bytes));
        let (place, server) = (Place::new(), Server::new(plain()).with(name, line));
        let done = import(&place, server.url("a.car")).holds(&plain().blocks);
        assert_eq!(done.text("/sources/0/checksum/from"), server.url(name));
        let wrong = format!("{} *a.car\n", sha256(b"something else"));
        let (place, server) = (Place::new(), Server::new(plain()).with(name, wrong));
        import(&place, server.url("a.car")).run().refused(3, None, &server.url(name));
    }
    // That of another file, and a page that says in words that there is none.
    for text in [format!("{}  b.car\n", sha256(b"b")), "<html>not here</html>".into()] {
        let (place, server) = (Place::new(), Server::new(plain()).with("a.car.sha256sum", text));
        let done = import(&place, server.url("a.car")).holds(&plain().blocks);
        assert_eq!(done.json.pointer("/sources/0/checksum"), None);
    }
}

#[test]
fn checksum_is_read_from_file_or_url() {
    let line = format!("{}  somewhere/a.car\n", sha256(&plain().bytes));
    let (place, server) = (Place::new(), Server::new(plain()).with("sums", line.clone()));
    let file = place.file("sums", line.as_bytes());
    for from in [file.to_str().expect("text").to_owned(), server.url("sums")] {
        let done = import(&place, server.url("a.car")).args(&["--checksum", &format!("sha256:{from}")]).run();
        done.succeeded();
        assert_eq!(done.text("/sources/0/checksum/from"), from);
        std::fs::remove_dir_all(&done.db).expect("removed");
    }
    for (digits, words) in [("abcd", "`abcd` has 4 hex digits, and a SHA-256 has 64"), (&"a".repeat(65), "has 65 hex")]
    {
        let done = import(&place, server.url("a.car")).args(&["--checksum", &format!("sha256:{digits}")]).run();
        done.refused(2, None, words);
    }
    for (wrong, words) in [("md5:ab", "begins with sha256:"), (file.to_str().expect("text"), "begins with sha256:")] {
        import(&place, server.url("a.car")).args(&["--checksum", wrong]).run().refused(2, None, words);
    }
}

#[test]
fn unusable_published_checksum_is_reported() {
    let warnings = |stderr: &str| stderr.lines().filter(|line| line.starts_with("warning: ")).count();
    let page = b"<html>not here</html>".to_vec();
    for (bytes, words) in [
        (page.clone(), "it is a web page"),
        (vec![b'a'; 2 << 20], "it is too large for a sum"),
        (format!("{}  b.car\n", sha256(b"b")).into_bytes(), "it has no SHA-256 of a.car"),
    ] {
        let (place, server) = (Place::new(), Server::new(plain()).with("a.car.sha256", bytes));
        let done = import(&place, server.url("a.car")).holds(&plain().blocks);
        assert_eq!(done.json.pointer("/sources/0/checksum"), None);
        let expected = format!("warning: {} is not compared: {words}", server.url("a.car.sha256"));
        assert!(done.stderr.contains(&expected), "{}", done.stderr);
        assert_eq!(warnings(&done.stderr), 1, "{}", done.stderr);
    }
    for (act, words) in [
        (Act::Status(503, ""), Some("the server answers 503")),
        (Act::Status(429, "Retry-After: 100\r\n"), Some("the server takes too long to give it")),
        (Act::Status(403, ""), Some("the server denies access (403 Forbidden)")),
        (Act::Stall(10), Some("the server takes too long to give it")),
        (Act::Status(404, ""), None),
        (Act::Status(410, ""), None),
    ] {
        let server = Server::new(plain()).beside(act.clone());
        let place = Place::new();
        let run = import(&place, server.url("a.car")).env("BEDLOAD_NETWORK_STALL_MS", "2000");
        let done = run.holds(&plain().blocks);
        assert_eq!(warnings(&done.stderr), usize::from(words.is_some()), "{act:?}: {}", done.stderr);
        assert!(words.is_none_or(|words| done.stderr.contains(words)), "{act:?}: {}", done.stderr);
        // A signature is of one file: that it is not of another says nothing.
        if matches!(act, Act::Status(403, _)) {
            let done = import(&Place::new(), server.url("a.car?signature=x")).holds(&plain().blocks);
            assert_eq!(warnings(&done.stderr), 0, "{}", done.stderr);
        }
    }
    // One that is right makes up for one that is not.
    let line = format!("{}  a.car\n", sha256(&plain().bytes));
    let server = Server::new(plain()).with("a.car.sha256sum", page).with("a.car.sha256", line);
    let done = import(&Place::new(), server.url("a.car")).run();
    assert_eq!((done.code, warnings(&done.stderr)), (Some(0), 0), "{}", done.stderr);
    assert_eq!(done.text("/sources/0/checksum/from"), server.url("a.car.sha256"));
}
