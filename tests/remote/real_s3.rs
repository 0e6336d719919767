//! Imports from an S3 server of another hand: moto.

use crate::common::crash::{forest, plain};
use crate::common::run::{Import, Place, import};
use crate::servers::Moto;
use crate::{Needs, dies};

tests! {
    Needs::Moto => [
        objects_are_imported_and_go_on_after_a_kill,
        wrong_buckets_and_keys_are_refused,
        an_object_that_changes_between_two_runs_is_refused_with_both_sides,
    ];
}

fn from(place: &Place, moto: &Moto, url: &str) -> Import {
    import(place, url)
        .args(&["--endpoint", &moto.endpoint(), "--plan", "spill", "--memory", "16MiB", "--connections", "2"])
        .env("AWS_ACCESS_KEY_ID", "a-key")
        .env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret")
        .env("AWS_REGION", "us-east-1")
        .env("BEDLOAD_DURABLE_BYTES", "1000000")
}

fn objects_are_imported_and_go_on_after_a_kill() {
    let moto = Moto::new();
    for snapshot in [plain(), forest()] {
        moto.put(snapshot.name, &snapshot.bytes);
        let url = format!("s3://bucket/{}", snapshot.name);
        let place = Place::new();
        let done = from(&place, &moto, &url).holds(&snapshot.blocks);
        assert_eq!(done.text("/source/path"), url);
        assert_eq!(done.json.pointer("/source/remote/ranges"), Some(&true.into()));
        assert!(!format!("{}{}", done.json, done.stderr).contains("a-hidden-secret"));
        let place = Place::new();
        dies(from(&place, &moto, &url), "read:4");
        let done = from(&place, &moto, &url).holds(&snapshot.blocks);
        assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
        let received = done.number("/source/remote/received_bytes");
        assert!(received + (1 << 20) < snapshot.bytes.len() as u64, "{received} bytes came again");
    }
}

fn wrong_buckets_and_keys_are_refused() {
    let moto = Moto::new();
    moto.put("plain.car", &plain().bytes);
    for url in ["s3://bucket/other.car", "s3://other-bucket/plain.car"] {
        from(&Place::new(), &moto, url).run().refused(3, None, "there is no such file on the server");
    }
}

fn an_object_that_changes_between_two_runs_is_refused_with_both_sides() {
    let (moto, place) = (Moto::new(), Place::new());
    moto.put("a.car", &plain().bytes);
    dies(from(&place, &moto, "s3://bucket/a.car"), "read:4");
    let mut other = plain().bytes.clone();
    *other.last_mut().expect("a byte") ^= 1;
    moto.put("a.car", &other);
    let done = from(&place, &moto, "s3://bucket/a.car").run();
    done.refused(4, None, "ETag ");
    assert_eq!(done.stderr.matches("ETag ").count(), 2, "{}", done.stderr);
    moto.put("a.car", &plain().bytes);
    from(&place, &moto, "s3://bucket/a.car").args(&["--restart"]).holds(&plain().blocks);
}
