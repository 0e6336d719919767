//! Imports from an S3 server of another hand: moto.

use crate::common::bundle::{bundle, import_to, imported, join, seed};
use crate::common::crash::{forest, plain};
use crate::common::run::{Place, Run, import};
use crate::remote::servers::Moto;

fn from(place: &Place, moto: &Moto, url: &str) -> Run {
    import(place, url).at(&moto.endpoint()).spilling().args(&["--connections", "2"]).env("AWS_REGION", "us-east-1")
}

#[test]
fn killed_object_import_resumes() {
    let Some(moto) = Moto::new() else { return };
    for snapshot in [plain(), forest()] {
        moto.put(snapshot.name, &snapshot.bytes);
        let url = format!("s3://bucket/{}", snapshot.name);
        let place = Place::in_memory();
        let done = from(&place, &moto, &url).holds(&snapshot.blocks);
        assert_eq!(done.text("/source/path"), url);
        assert_eq!(done.json.pointer("/sources/0/remote/ranges"), Some(&true.into()));
        assert!(!format!("{}{}", done.json, done.stderr).contains("a-hidden-secret"));
        let place = Place::in_memory();
        from(&place, &moto, &url).dies_at("read:7");
        let done = from(&place, &moto, &url).holds(&snapshot.blocks);
        assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
        let received = done.number("/sources/0/remote/received_bytes");
        assert!(received + (1 << 19) < snapshot.bytes.len() as u64, "{received} bytes were requested again");
        // A changed object is not resumed.
        let place = Place::in_memory();
        from(&place, &moto, &url).dies_at("read:7");
        let mut other = snapshot.bytes.clone();
        *other.last_mut().expect("a byte") ^= 1;
        moto.put(snapshot.name, &other);
        let done = from(&place, &moto, &url).run();
        done.refused(4, None, "ETag ");
        assert_eq!(done.stderr.matches("ETag ").count(), 2, "{}", done.stderr);
        moto.put(snapshot.name, &snapshot.bytes);
        from(&place, &moto, &url).args(&["--restart"]).holds(&snapshot.blocks);
    }
    for url in ["s3://bucket/other.car", "s3://other-bucket/plain.car"] {
        from(&Place::in_memory(), &moto, url).run().refused(3, None, "there is no such file on the server");
    }
}

#[test]
fn bundles_and_shards_pass_through_a_store() {
    let Some(moto) = Moto::new() else { return };
    let place = Place::in_memory();
    let (db, to, endpoint) = (imported(&place, plain()), "s3://bucket/mainnet", moto.endpoint());
    bundle(&db, to).at(&endpoint).dies_at("bundle-file:2");
    let done = bundle(&db, to).at(&endpoint).succeeds();
    assert!(done.number("/uploaded_files") + 2 <= done.number("/files"), "what had arrived is sent again");
    // Another import of the same snapshot has nothing to send.
    let again = import_to(plain(), to, None, &place.path("")).at(&endpoint).succeeds();
    assert_eq!((again.text("/bundle/id"), again.number("/bundle/uploaded_files")), (done.text("/id"), 0));
    let y = place.path("y");
    seed(to, &y).at(&endpoint).dies_at("fetched:3");
    seed(to, &y).at(&endpoint).seeds(plain());
    let parts = "s3://bucket/shards";
    for number in [1, 0] {
        let part = import_to(plain(), parts, None, &place.path("")).args(&["--shard", &format!("{number}/2")]);
        part.at(&endpoint).succeeds();
    }
    let joined = join(parts).at(&endpoint).succeeds();
    assert_eq!(joined.number("/records"), done.number("/records"));
    seed(parts, &place.path("z")).at(&endpoint).seeds(plain());
}
