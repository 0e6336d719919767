//! Object stores: S3 through a server that speaks its protocol.

use crate::common::crash::plain;
use crate::common::run::{Place, Run, import, program};
use crate::common::store::{Act, Request, Store};

/// The session token and the customer key went to every host that a store redirected to, which includes another port.
#[test]
fn credentials_stay_with_their_origin() {
    let other = Store::serving(plain());
    let to = other.url("a.car");
    let store = Store::serving(Vec::new()).acts(move |_, _| Act::Redirect(to.clone()));
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let web = format!("http://me:hidden@{}/a.car", store.address);
    let runs = [
        ("s3://bucket/a.car", &["x-amz-security-token", "x-amz-server-side-encryption-customer-key"][..]),
        ("az://bucket/a.car", &[]),
        (web.as_str(), &[]),
    ];
    for (url, secrets) in runs {
        let (asked, redirected) = (store.requests().len(), other.requests().len());
        let place = Place::in_memory();
        let run = with_keys(import(&place, url)).env("AWS_SESSION_TOKEN", "hidden");
        let run = run.env("AWS_SERVER_SIDE_ENCRYPTION", "sse-c").env("AWS_SSE_CUSTOMER_KEY_BASE64", key);
        let run = if url == web { run } else { run.args(&["--endpoint", &store.endpoint()]) };
        run.holds(&plain().blocks);
        assert!(other.heads().iter().all(|request| !request.headers.contains_key("authorization")));
        for secret in secrets.iter().chain(&["authorization"]) {
            let has = |request: &Request| request.headers.contains_key(*secret);
            assert!(store.requests()[asked..].iter().all(has), "{url}: {secret}");
        }
        let redirected = &other.requests()[redirected..];
        assert!(!redirected.is_empty());
        let public = ["accept", "accept-encoding", "connection", "host", "if-match", "range", "user-agent"];
        for name in redirected.iter().flat_map(|request| request.headers.keys()) {
            assert!(public.contains(&name.as_str()), "{url}: {name} is sent to another origin");
        }
    }
}

#[test]
fn s3_signs_ranges_and_retries() {
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let run = || {
        let run = import(&place, "s3://bucket/dir/a.car").env("AWS_ENDPOINT_URL", &server.endpoint());
        let run = run.env("AWS_ACCESS_KEY_ID", "own-key").env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret");
        run.env("AWS_REGION", "eu-north-1").env("BEDLOAD_NETWORK_PATIENCE_MS", "100")
    };
    for (status, code, words) in [(404, 3, "no such file"), (403, 3, "denies"), (503, 1, "503")] {
        server.now(move |_, _| Act::Status(status, ""));
        run().run().refused(code, None, words);
    }
    server.now(|_, nth| if nth % 4 == 3 { Act::Cut(10_000) } else { Act::Serve });
    let asked = server.requests().len();
    let done = run().holds(&plain().blocks);
    assert_eq!(done.text("/source/path"), "s3://bucket/dir/a.car");
    let requests = &server.requests()[asked..];
    assert!(requests.len() > 4);
    for request in requests {
        assert_eq!(request.path, "/bucket/dir/a.car");
        let signed = request.headers.get("authorization").map(String::as_str).unwrap_or_default();
        assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=own-key/"), "{signed}");
        assert!(signed.contains("/eu-north-1/s3/") && request.range().is_some(), "{request:?}");
    }
    assert!(!format!("{}{}", done.json, done.stderr).contains("a-hidden-secret"));
}

fn with_keys(import: Run) -> Run {
    let amazon = import.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
    let azure = amazon.env("AZURE_STORAGE_ACCOUNT_NAME", "a").env("AZURE_STORAGE_ACCOUNT_KEY", "YWJj");
    azure.env("BEDLOAD_NETWORK_PATIENCE_MS", "10")
}

#[test]
fn invalid_settings_and_urls_are_named() {
    let place = Place::in_memory();
    for url in ["s3://bucket/a.car", "az://bucket/a.car"] {
        for endpoint in ["localhost:9000", "minio", "http://", "http://h:99999", "file:///tmp", " ", ""] {
            let done = with_keys(import(&place, url)).args(&["--endpoint", endpoint]).run();
            done.refused(2, None, &format!("the endpoint is not the address of a server: `{endpoint}`"));
            assert!(done.hint().contains("http://localhost:9000"), "{}", done.hint());
        }
    }
    for (url, variable, value) in [
        ("s3://bucket/a.car", "AWS_ENDPOINT_URL", " "),
        ("s3://bucket/a.car", "AWS_ENDPOINT_URL_S3", "localhost:9000"),
        ("az://bucket/a.car", "AZURE_STORAGE_ENDPOINT", "localhost:1"),
        ("az://bucket/a.car", "IDENTITY_ENDPOINT", "localhost:1"),
        ("gs://bucket/a.car", "GOOGLE_BASE_URL", "minio"),
    ] {
        let done = with_keys(import(&place, url)).env(variable, value).run();
        done.refused(2, None, &format!("the variable {variable} is not the address of a server: `{value}`"));
    }
    for url in ["s3://bucket", "s3://bucket/", "gs://bucket", "az://bucket"] {
        with_keys(import(&place, url)).run().refused(2, None, &format!("{url} names no file: it ends with the bucket"));
    }
    for variable in ["AWS_REGION", "AWS_DEFAULT_REGION"] {
        let done = with_keys(import(&place, "s3://bucket/a.car")).env(variable, "a b").run();
        done.refused(2, None, &format!("the variable {variable} is not a region: `a b`"));
    }
    let done = with_keys(import(&place, "s3://bucket/a.car")).args(&["--endpoint", "me:hidden@minio:9000"]).run();
    done.refused(2, None, "`minio:9000`");
    assert!(!done.stderr.contains("hidden"), "{}", done.stderr);

    // The option overrides variables. An empty variable counts as unset.
    let server = Store::serving(plain());
    for (variable, value) in [("AWS_ENDPOINT_URL_S3", "minio"), ("AWS_ENDPOINT_URL", ""), ("AWS_REGION", "")] {
        let run = with_keys(import(&place, "s3://bucket/a.car")).env(variable, value);
        let done = run.args(&["--endpoint", &server.url("")]).succeeds();
        assert_eq!(server.requests().last().map(|request| request.path.clone()), Some("/bucket/a.car".into()));
        std::fs::remove_dir_all(&done.db).expect("removed");
    }
    for command in [&["inspect"][..], &["doctor"], &["import", "--db", "db"]] {
        let mut run = program();
        run.args(command).args(["s3://bucket/a.car", "--endpoint", "minio"]).current_dir(place.path(""));
        run.assert().code(2);
    }
}
