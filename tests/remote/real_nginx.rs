//! Imports from nginx.

use std::process::Command;

use serde_json::Value;

use crate::common::crash::{ended, plain, succeeds, wait_for};
use crate::common::database::generate_as;
use crate::common::run::{Place, Run, import, own_folder};
use crate::remote::servers::{Nginx, debian, start_import};
use crate::remote::{needs, runs};

const SLOW: &str = "limit_rate 1m;";

#[test]
fn throttled_import_requests_each_range_once() {
    let Some(nginx) = Nginx::new(SLOW) else { return };
    let done = import(&nginx.place, nginx.url("a.car")).holds(&plain().blocks);
    assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(true)));
    assert!(done.text("/sources/0/remote/etag").starts_with('"'), "{}", done.json);
    let (sent, len) = (nginx.sent(), plain().bytes.len() as u64);
    assert!(sent >= len && sent < len + (300 << 10), "{sent} bytes were sent of {len}");
    let log = nginx.log();
    // The server has no checksum beside the file.
    let ranges = log.iter().filter(|(status, _)| *status != 404);
    assert!(ranges.clone().all(|(status, _)| *status == 206) && ranges.count() > 6, "{log:?}");
}

#[test]
fn import_survives_a_server_restart() {
    let Some(mut nginx) = Nginx::new(SLOW) else { return };
    let child = start_import(&nginx, "a.car", "2");
    wait_for(|| nginx.log().iter().filter(|(status, _)| *status == 206).count() >= 5);
    nginx.restart();
    let done = ended(child);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.text("/digest"), plain().digest);
}

#[test]
fn only_named_certificates_are_trusted() {
    if !needs(succeeds(debian("openssl").arg("version")), "openssl") {
        return;
    }
    let place = Place::in_memory();
    // A self-signed certificate for this machine, and its key.
    let [certificate, key] = ["certificate", "key"].map(|it| place.path(it).to_str().expect("text").to_owned());
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-days", "2", "-subj", "/CN=a test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    runs(openssl.args(["-out", &certificate, "-keyout", &key]));
    let tls = format!("ssl_certificate {certificate}; ssl_certificate_key {key};");
    let Some(nginx) = Nginx::new(&tls) else { return };
    let done = import(&place, nginx.url("a.car")).run();
    done.refused(3, None, "the server's certificate is not trusted");
    assert!(done.hint().contains("SSL_CERT_FILE"), "{}", done.hint());
    import(&place, nginx.url("a.car")).env("SSL_CERT_FILE", &certificate).holds(&plain().blocks);
    let elsewhere = format!("https://localhost:{}/a.car", nginx.port);
    let other = Place::in_memory();
    let done = import(&other, &elsewhere).env("SSL_CERT_FILE", &certificate).run();
    done.refused(3, None, "the server's certificate is not trusted");
    import(&other, nginx.url("a.car").replace("https", "http")).run().refused(3, None, "400");
}

#[test]
fn password_is_sent_but_never_shown() {
    let Some(nginx) = Nginx::new("auth_basic secret; auth_basic_user_file DIR/users;") else { return };
    nginx.place.file("users", b"hidden-user:{PLAIN}hidden-password\n");
    let with = |user: &str| nginx.url("a.car").replace("http://", &format!("http://{user}@"));
    let has_none = |text: &str| assert!(!text.contains("hidden"), "{text}");
    let refused = |source: &str| {
        let place = Place::in_memory();
        let done = import(&place, source).at_fault(nginx.url("a.car").as_ref()).run();
        done.refused(3, None, "401");
        has_none(&format!("{}{}", done.json, done.stderr));
    };
    refused(&nginx.url("a.car"));
    refused(&with("hidden-user:hidden-guess"));
    let run = || import(&nginx.place, with("hidden-user:hidden-password")).spilling();
    run().dies_at("read:3");
    has_none(&std::fs::read_to_string(nginx.place.path("db.partial/journal")).expect("a journal"));
    let done = run().holds(&plain().blocks);
    has_none(&format!("{}{}", done.json, done.stderr));
}

/// Both serve unsigned requests like any web server. Environment variables of their tools name the server.
#[test]
fn google_and_azure_imports_resume() {
    let Some(nginx) = Nginx::new("") else { return };
    nginx.lend("bucket/a.car", &plain().file);
    let key = serde_json::json!({
        "gcs_base_url": nginx.url("").trim_end_matches('/'), "disable_oauth": true, "client_email": "",
        "private_key": "", "private_key_id": "",
    });
    let google = |place: &Place| import(place, "gs://bucket/a.car").env("GOOGLE_SERVICE_ACCOUNT_KEY", &key.to_string());
    let azure = |place: &Place| {
        import(place, "az://bucket/a.car")
            .args(&["--endpoint", nginx.url("").trim_end_matches('/')])
            .env("AZURE_STORAGE_ACCOUNT_NAME", "anybody")
            .env("AZURE_SKIP_SIGNATURE", "true")
    };
    for store in [&google as &dyn Fn(&Place) -> Run, &azure] {
        let place = Place::in_memory();
        let run = || store(&place).spilling().args(&["--connections", "2"]);
        run().dies_at("read:7");
        let done = run().holds(&plain().blocks);
        assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
        let received = done.number("/sources/0/remote/received_bytes");
        assert!(received + (1 << 19) < plain().bytes.len() as u64, "{received} bytes were requested again");
    }
}

/// Peak resident size stays within the budget and the 64 MiB that `tests/memory` allows beside it.
#[test]
fn many_connections_stay_within_the_budget() {
    let source = generate_as(own_folder().join("connections.car"), &["--size", "64MiB"]);
    let Some(nginx) = Nginx::new("limit_rate 3m;") else { return };
    nginx.lend("large.car", &source);
    for mib in [16, 64] {
        let place = Place::in_memory();
        let memory = format!("{mib}MiB");
        let run = import(&place, nginx.url("large.car")).args(&["--connections", "64", "--memory", &memory]);
        let done = run.succeeds();
        let peak = done.number("/peak_rss_bytes");
        assert!(peak <= (mib + 64) << 20, "{} MiB with a budget of {mib} MiB", peak >> 20);
        assert!(peak > 8 << 20, "something else was measured");
    }
    std::fs::remove_file(source).expect("it is ours");
}
