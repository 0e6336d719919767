//! User, password and query of a URL are never shown or written.

use bedload::progress::Silent;
use bedload::{ImportOptions, NetworkOptions};

use crate::common::crash::{list, plain};
use crate::common::run::{Done, Place, import, program};
use crate::common::store::{Act, Store};

const SECRETS: [&str; 4] = ["hidden-user", "hidden-password", "hidden-signature", "X-Amz"];

#[track_caller]
fn has_none(what: &str, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let found = SECRETS.iter().find(|secret| text.contains(**secret));
    assert_eq!(found, None, "{what}: {text}");
}

#[track_caller]
fn shows_none(done: &Done) {
    has_none("standard error", done.stderr.as_bytes());
    has_none("standard output", done.json.to_string().as_bytes());
}

/// Runs a command in the folder of `place`; it fails with a known exit code and shows no secret.
#[track_caller]
fn fails_without_secrets(place: &Place, args: &[&str]) {
    let report = place.path("report.json");
    let _ = std::fs::remove_file(&report);
    let mut run = program();
    run.args(args).env("BEDLOAD_NETWORK_PATIENCE_MS", "10").current_dir(place.path(""));
    let output = run.output().expect("it runs");
    assert!(output.status.code().is_some_and(|code| (1..5).contains(&code)), "{args:?}: {output:?}");
    has_none("standard error", &output.stderr);
    has_none("standard output", &output.stdout);
    has_none("the report", &std::fs::read(&report).unwrap_or_default());
}

fn secret_url(server: &Store) -> String {
    format!("http://hidden-user:hidden-password@{}/a.car?X-Amz-Signature=hidden-signature", server.address)
}

#[test]
fn import_hides_url_secrets() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let url = secret_url(&server);
    import(&place, &url).spilling().dies_at("read-done");
    has_none("the journal", &std::fs::read(place.path("db.partial/journal")).expect("a journal"));
    let report = place.path("report.json");
    let done = import(&place, &url).spilling().args(&["--report", report.to_str().expect("text")]).succeeds();
    assert_eq!(done.text("/source/path"), format!("http://{}/a.car?…", server.address));
    shows_none(&done);
    has_none("the report", &std::fs::read(&report).expect("a report"));
    for file in list(&done.db) {
        if file.extension().is_none_or(|it| it != "sst") {
            has_none("the database", &std::fs::read(&file).expect("a file, as no database has folders"));
        }
    }
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.headers.contains_key("authorization")), "they are sent");
    assert!(requests.iter().all(|request| request.path.contains("hidden-signature")));
}

#[test]
fn errors_hide_url_secrets() {
    let place = Place::in_memory();
    let statuses = [403, 404, 500].map(|status| Act::Status(status, ""));
    for act in statuses.into_iter().chain([Act::Cut(0), Act::Redirect("/a?X-Amz=1".into())]) {
        let server = Store::serving(plain()).acts(move |_, _| act.clone());
        let url = secret_url(&server);
        for command in [
            &["import", &url, "--db", "db", "--json"][..],
            &["import", &url, "--db", "db", "--progress", "plain"],
            &["inspect", &url],
            &["inspect", "--list", &url, "--json"],
            &["doctor", &url],
            &["bench", &url],
        ] {
            fails_without_secrets(&place, command);
        }
    }
}

#[test]
fn malformed_urls_hide_secrets() {
    let place = Place::in_memory();
    let snapshot = place.file("a.car", &plain().bytes);
    let snapshot = snapshot.to_str().expect("text");
    let authority = "hidden-user:hidden-password@127.0.0.1:1/x.car?sig=hidden-signature";
    let nearly = [
        format!("ftp://{authority}"),
        format!("sftp://{authority}"),
        format!("http:/{authority}"),
        format!(r"http:\\{authority}"),
        format!("https:///{authority}"),
        format!("  https://{authority}"),
        format!("\u{feff}https://{authority}"),
        format!("@https://{authority}"),
        "https://hidden-user:hidden-pass#hidden-password@127.0.0.1:1/x.car".into(),
        "https://hidden-user:hidden-pass?hidden-password@127.0.0.1:1/x.car".into(),
        "https://hidden-user:hidden-pass word@127.0.0.1:1/x.car?hidden-signature".into(),
    ];
    let check = |args: &[&str]| fails_without_secrets(&place, args);
    for url in &nearly {
        check(&["import", url, "--db", "db", "--json", "--report", "report.json"]);
        check(&["import", snapshot, url, "--db", "db", "--report", "report.json"]);
        check(&["import", url, "--db", "db", "--progress", "json"]);
        for command in ["inspect", "doctor", "bench"] {
            check(&[command, url]);
        }
        for sum in [url.clone(), format!("sha256:{url}")] {
            check(&["import", snapshot, "--db", "db", "--checksum", &sum, "--report", "report.json", "--json"]);
        }
        // Errors of the command line parser.
        check(&["inspect", snapshot, url, "--json"]);
        check(&["import", snapshot, "--db", "db", &format!("--preset={url}")]);
    }
}

#[test]
fn list_of_urls_hides_secrets() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let url = secret_url(&server);
    for line in [format!("  {url}  \n"), format!("\u{feff}{url}\r\n"), format!("\u{feff}# names\n\t{url}\n")] {
        let list = place.file("list", line.as_bytes());
        let done = import(&place, format!("@{}", list.display())).succeeds();
        assert_eq!(done.text("/source/path"), format!("http://{}/a.car?…", server.address));
        shows_none(&done);
        std::fs::remove_dir_all(&done.db).expect("removed");
    }
    let list = place.file("list", b"\n ftp://hidden-user:hidden-password@127.0.0.1:1/x.car\n");
    let words = format!("{}:2: cannot read ftp://127.0.0.1:1/x.car", list.display());
    shows_none(&import(&place, format!("@{}", list.display())).refused(3, &words));
}

#[test]
fn credentials_in_options_are_sent_and_hidden() {
    let place = Place::in_memory();
    let (server, other) = (Store::serving(plain()), Store::serving(plain()));
    let network = NetworkOptions::default().http_header(server.endpoint(), "Authorization", "Bearer hidden-password");
    let import = |source: &str, network: NetworkOptions, db: &str| {
        let options = ImportOptions::new(source, place.path(db)).network(network);
        has_none("the options", format!("{options:?}").as_bytes());
        bedload::import(&options, &Silent)
    };
    import(&server.url("a.car"), network.clone(), "one").expect("imported");
    let is_sent = |request: &crate::common::store::Request| {
        request.headers.get("authorization").is_some_and(|value| value == "Bearer hidden-password")
    };
    assert!(server.requests().iter().all(is_sent));
    // Another server that the first one redirects to does not receive it.
    let address = other.url("a.car");
    server.now(move |_, _| Act::Redirect(address.clone()));
    import(&server.url("a.car"), network, "two").expect("imported");
    assert!(!other.requests().is_empty() && !other.requests().iter().any(is_sent));
    let wrong = NetworkOptions::default().http_header(server.endpoint(), "Authorization", "hidden-password\n");
    let error = import(&server.url("a.car"), wrong, "three").expect_err("a line feed");
    has_none("the error", format!("{error:?}").as_bytes());
    // An object store.
    let store = Store::serving(plain());
    let settings = NetworkOptions::default()
        .endpoint(store.endpoint())
        .store_setting("AWS_ACCESS_KEY_ID", "the-key")
        .store_setting("AWS_REGION", "here-1")
        .store_setting("AWS_SECRET_ACCESS_KEY", "hidden-password")
        .store_setting("AWS_SESSION_TOKEN", "hidden-signature");
    import("s3://bucket/a.car", settings.clone(), "four").expect("imported");
    for request in store.requests() {
        if let Some(authorization) = request.headers.get("authorization") {
            assert!(
                authorization.contains("Credential=the-key/") && authorization.contains("/here-1/"),
                "{authorization}"
            );
            assert_eq!(request.headers["x-amz-security-token"], "hidden-signature");
        }
    }
    assert!(store.requests().iter().any(|request| request.headers.contains_key("authorization")));
    let error = import("s3://bucket/a.car", settings.store_setting("AWS_SECRET", "hidden-password"), "five");
    assert!(matches!(error, Err(bedload::Error::Usage { .. })), "{error:?}");
}
