//! Object stores: S3 through a server that speaks its protocol.

use crate::Needs;
use crate::common::crash::plain;
use crate::common::run::{Place, import};
use crate::common::server::{Act, Server};

tests! {
    Needs::Nothing => [
        s3_is_asked_for_ranges_with_signed_requests,
        s3_takes_a_profile_and_fails_as_others_do,
    ];
}

fn s3_is_asked_for_ranges_with_signed_requests() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let done = import(&place, "s3://bucket/dir/a.car")
        .env("AWS_ACCESS_KEY_ID", "a-key")
        .env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret")
        .args(&["--endpoint", &format!("http://{}", server.address())])
        .run();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.text("/digest"), plain().digest);
    assert_eq!(done.text("/source/path"), "s3://bucket/dir/a.car");
    let requests = server.requests();
    assert!(requests.len() > 4);
    for request in &requests {
        assert_eq!(request.path, "/bucket/dir/a.car");
        let signed = request.headers.get("authorization").map(String::as_str).unwrap_or_default();
        assert!(signed.starts_with("AWS4-HMAC-SHA256 Credential=a-key/"), "{signed}");
        assert!(request.range().is_some());
    }
    assert!(!format!("{}{}", done.json, done.stderr).contains("a-hidden-secret"));
}

fn s3_takes_a_profile_and_fails_as_others_do() {
    let (place, server) = (Place::new(), Server::new(plain().bytes.clone()));
    let credentials = "[other]\naws_access_key_id = profile-key\naws_secret_access_key = hidden\nregion = eu-north-1\n";
    let file = place.file("credentials", credentials.as_bytes());
    let run = || {
        import(&place, "s3://bucket/a.car")
            .env("AWS_PROFILE", "other")
            .env("AWS_SHARED_CREDENTIALS_FILE", file.to_str().expect("text"))
            .env("AWS_ENDPOINT_URL", &format!("http://{}", server.address()))
            .env("BEDLOAD_NETWORK_PATIENCE_MS", "100")
    };
    for (status, code, words) in [(404, 3, "no such file"), (403, 3, "refuses"), (503, 1, "503")] {
        server.now(move |_, _| Act::Status(status, ""));
        run().run().refused(code, None, words);
    }
    server.now(|_, nth| if nth % 4 == 3 { Act::Cut(100) } else { Act::Serve });
    let done = run().run();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let signed = server.requests().last().and_then(|request| request.headers.get("authorization").cloned());
    assert!(signed.is_some_and(|it| it.contains("Credential=profile-key/") && it.contains("/eu-north-1/s3/")));
}
