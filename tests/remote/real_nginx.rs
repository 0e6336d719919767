//! Imports from nginx.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::Needs;
use crate::common::bundle::{files, holds, published, seed};
use crate::common::car::zstd;
use crate::common::crash::{ended, forest, plain};
use crate::common::run::{BEDLOAD, Import, Place, hermetic, import, own_folder, program};
use crate::servers::Nginx;

tests! {
    Needs::Nginx => [
        many_connections_stay_within_the_budget,
        import_survives_a_server_restart,
        throttled_import_requests_each_range_once,
        forest_snapshot_is_imported_and_inspected,
        redirect_is_followed_once,
        resume_refuses_a_changed_file,
        disabled_ranges_are_read_as_stream,
        only_named_certificates_are_trusted,
        password_is_sent_but_never_shown,
        published_checksum_is_compared,
        google_and_azure_imports_resume,
        killed_seed_fetches_only_missing_files,
    ];
}

const SLOW: &str = "limit_rate 1m;";

fn spilling(place: &Place, url: &str) -> Import {
    import(place, url).args(&["--plan", "spill", "--memory", "16MiB"]).env("BEDLOAD_DURABLE_BYTES", "1000000")
}

fn throttled_import_requests_each_range_once() {
    let (place, nginx) = (Place::new(), Nginx::new(SLOW));
    nginx.put("a.car", &plain().bytes);
    let done = import(&place, nginx.url("a.car")).holds(&plain().blocks);
    assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(true)));
    assert!(done.text("/sources/0/remote/etag").starts_with('"'), "{}", done.json);
    let (sent, len) = (nginx.sent(), plain().bytes.len() as u64);
    assert!(sent >= len && sent < len + (300 << 10), "{sent} bytes were sent of {len}");
    let log = nginx.log();
    assert!(log.iter().filter(|answer| answer.path == "/a.car").all(|answer| answer.status == 206), "{log:?}");
    assert!(log.len() > 6, "{log:?}");
}

fn forest_snapshot_is_imported_and_inspected() {
    let (place, nginx) = (Place::new(), Nginx::new(""));
    nginx.put("a.forest.car.zst", &forest().bytes);
    import(&place, nginx.url("a.forest.car.zst")).holds(&forest().blocks);
    let before = nginx.sent();
    let output = program().args(["inspect", &nginx.url("a.forest.car.zst"), "--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(nginx.sent() - before < 1 << 20);
}

fn redirect_is_followed_once() {
    let (place, nginx) = (Place::new(), Nginx::new("location = /latest { return 302 /dated.car; }"));
    nginx.put("dated.car", &plain().bytes);
    let done = import(&place, nginx.url("latest")).holds(&plain().blocks);
    nginx.settle();
    assert_eq!(nginx.log().iter().filter(|answer| answer.path == "/latest").count(), 1);
    assert_eq!(done.text("/sources/0/remote/url"), nginx.url("dated.car"));
    assert_eq!(done.text("/source/path"), nginx.url("latest"));
}

fn import_survives_a_server_restart() {
    let (place, mut nginx) = (Place::new(), Nginx::new(SLOW));
    nginx.put("a.car", &plain().bytes);
    let mut command = hermetic(BEDLOAD);
    command.args(["import", &nginx.url("a.car"), "--connections", "2", "--json", "--progress", "off", "--db"]);
    command.arg(place.path("db")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    while nginx.log().iter().filter(|answer| answer.status == 206).count() < 5 {
        std::thread::sleep(Duration::from_millis(10));
    }
    nginx.stop();
    std::thread::sleep(Duration::from_millis(500));
    nginx.start();
    let done = ended(child);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(done.text("/digest"), plain().digest);
}

fn resume_refuses_a_changed_file() {
    let (place, nginx) = (Place::new(), Nginx::new(""));
    nginx.put("a.car", &plain().bytes);
    let url = nginx.url("a.car");
    let died = spilling(&place, &url).env("BEDLOAD_ABORT_AT", "read:3").run();
    assert_eq!(died.code, Some(137), "{}", died.stderr);
    let mut other = plain().bytes.clone();
    other.truncate(other.len() - 1000);
    nginx.put("a.car", &other);
    let done = spilling(&place, &url).run();
    done.refused(4, None, "8,");
    let tags: Vec<_> = done.stderr.split("ETag ").skip(1).filter_map(|it| it.split(['"', ',']).nth(1)).collect();
    assert!(tags.len() == 2 && tags[0] != tags[1], "{}", done.stderr);
    nginx.put("a.car", &plain().bytes);
    spilling(&place, &url).args(&["--restart"]).holds(&plain().blocks);
}

fn disabled_ranges_are_read_as_stream() {
    let nginx = Nginx::new("max_ranges 0;");
    nginx.put("a.car", &plain().bytes);
    nginx.put("a.car.zst", &zstd(&plain().bytes));
    for name in ["a.car", "a.car.zst"] {
        let place = Place::new();
        let done = import(&place, nginx.url(name)).holds(&plain().blocks);
        assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&Value::Bool(false)));
    }
}

/// A certificate for this machine that nobody else knows, and its key.
fn certificate(place: &Place) -> (String, String) {
    let [certificate, key] = ["certificate", "key"].map(|it| place.path(it).to_str().expect("text").to_owned());
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.args(["-days", "2", "-subj", "/CN=a test", "-addext", "subjectAltName=IP:127.0.0.1"]);
    let output = openssl.args(["-out", &certificate, "-keyout", &key]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (certificate, key)
}

fn only_named_certificates_are_trusted() {
    let place = Place::new();
    let (certificate, key) = certificate(&place);
    let nginx = Nginx::new(&format!("ssl_certificate {certificate}; ssl_certificate_key {key};"));
    nginx.put("a.car", &plain().bytes);
    let done = import(&place, nginx.url("a.car")).run();
    done.refused(3, None, "the server's certificate is not trusted");
    assert!(done.hint().contains("SSL_CERT_FILE"), "{}", done.hint());
    import(&place, nginx.url("a.car")).env("SSL_CERT_FILE", &certificate).holds(&plain().blocks);
    let elsewhere = format!("https://localhost:{}/a.car", nginx.port());
    let other = Place::new();
    let done = import(&other, &elsewhere).env("SSL_CERT_FILE", &certificate).run();
    done.refused(3, None, "the server's certificate is not trusted");
    let done = import(&other, nginx.url("a.car").replace("https", "http")).run();
    done.refused(3, None, "400");
}

fn password_is_sent_but_never_shown() {
    let nginx = Nginx::new("auth_basic secret; auth_basic_user_file DIR/users;");
    nginx.write("users", b"hidden-user:{PLAIN}hidden-password\n");
    nginx.put("a.car", &plain().bytes);
    let with = |user: &str| nginx.url("a.car").replace("http://", &format!("http://{user}@"));
    let has_none = |text: &str| assert!(!text.contains("hidden"), "{text}");
    let refused = |source: &str| {
        let place = Place::new();
        let done = import(&place, source).at_fault(nginx.url("a.car").as_ref()).run();
        done.refused(3, None, "401");
        has_none(&format!("{}{}", done.json, done.stderr));
    };
    refused(&nginx.url("a.car"));
    refused(&with("hidden-user:hidden-guess"));
    let place = Place::new();
    let died = spilling(&place, &with("hidden-user:hidden-password")).env("BEDLOAD_ABORT_AT", "read:3").run();
    assert_eq!(died.code, Some(137), "{}", died.stderr);
    has_none(&std::fs::read_to_string(place.path("db.partial").join("journal")).expect("a journal"));
    let done = spilling(&place, &with("hidden-user:hidden-password")).holds(&plain().blocks);
    has_none(&format!("{}{}", done.json, done.stderr));
}

fn published_checksum_is_compared() {
    use sha2::Digest;
    let nginx = Nginx::new("");
    let sum = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(&plain().bytes));
    nginx.put("a.car", &plain().bytes);
    nginx.put("a.car.sha256sum", format!("{sum}  a.car\n").as_bytes());
    let done = import(&Place::new(), nginx.url("a.car")).holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/from"), nginx.url("a.car.sha256sum"));
    nginx.put("a.car.sha256sum", format!("{}  a.car\n", "0".repeat(64)).as_bytes());
    let done = import(&Place::new(), nginx.url("a.car")).run();
    done.refused(3, None, &format!("its SHA-256 is {sum}"));
}

/// Both serve unsigned requests like any web server. Variables of their own tools name the server.
fn google_and_azure_imports_resume() {
    let nginx = Nginx::new("");
    std::fs::create_dir(nginx.dir().join("bucket")).expect("a folder");
    nginx.put("bucket/a.car", &plain().bytes);
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
    for store in [&google as &dyn Fn(&Place) -> Import, &azure] {
        let place = Place::new();
        let args = ["--memory", "16MiB", "--connections", "2"];
        let many = |run: Import| run.args(&args).env("BEDLOAD_DURABLE_BYTES", "1000000");
        let died = many(store(&place)).env("BEDLOAD_ABORT_AT", "read:4").run();
        assert_eq!(died.code, Some(137), "{}", died.stderr);
        let done = many(store(&place)).holds(&plain().blocks);
        assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
        let received = done.number("/sources/0/remote/received_bytes");
        assert!(received + (1 << 20) < plain().bytes.len() as u64, "{received} bytes came again");
    }
}

/// Peak resident size stays within the budget and the 64 MiB that `tests/memory` allows beside it.
fn many_connections_stay_within_the_budget() {
    let source = own_folder().join("connections.car");
    program().args(["generate", "--quiet", "--size", "64MiB"]).arg(&source).assert().success();
    let nginx = Nginx::new("limit_rate 3m;");
    nginx.lend("a.car", &source);
    for mib in [16, 64] {
        let place = Place::new();
        let memory = format!("{mib}MiB");
        let done = import(&place, nginx.url("a.car")).args(&["--connections", "64", "--memory", &memory]).run();
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let peak = done.number("/peak_rss_bytes");
        assert!(peak <= (mib + 64) << 20, "{} MiB with a budget of {mib} MiB", peak >> 20);
        assert!(peak > 8 << 20, "something else was measured");
    }
    std::fs::remove_file(source).expect("it is ours");
}

fn killed_seed_fetches_only_missing_files() {
    let (place, nginx) = (Place::new(), Nginx::new(""));
    let to = published(&place, plain());
    nginx.lend("mainnet", &to);
    let (from, y) = (nginx.url("mainnet"), place.path("y"));
    let sizes: Vec<u64> = files(&to).iter().map(|file| file.metadata().expect("a file").len()).collect();
    let total: u64 = sizes.iter().sum();
    seed(&from, &y).dies_at("fetched:2");
    assert_eq!(seed(&from, &y).succeeds().json["resumed"], true);
    holds(&y, plain());
    nginx.settle();
    let (sent, least) = (nginx.sent(), sizes.iter().min().expect("a file"));
    assert!(sent < 2 * total - least, "{sent} bytes were sent of {total}: what was fetched came again");
}
