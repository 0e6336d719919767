//! Bundles through the library: published with and without a database, signed, seeded from mirrors, and updated.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bedload::progress::{CancellationToken, Event, Phase, Silent};
use bedload::{
    BundleOptions, Error, ImportOptions, InputKind, Overrides, Publication, SeedOptions, Signer, StateKind, TrustedKey,
    Unfinished, VerifyOptions,
};
use minisign::KeyPair;

use crate::common::bundle::latest;
use crate::common::crash::{Snapshot, plain, small};
use crate::common::run::{Place, stops_at};
use crate::common::store::Store;

fn import_options(snapshot: &Snapshot, db: &Path) -> ImportOptions {
    let overrides = Overrides::default().set(vec!["load.ingest.sst_size=1M".to_owned()]);
    ImportOptions::new(&snapshot.file, db).threads(2).overrides(overrides)
}

fn is_valid(db: &Path, snapshot: &Snapshot) {
    let report = bedload::verify(&VerifyOptions::new(db), &Silent).expect("verified");
    assert!(report.valid, "{} is damaged", db.display());
    assert_eq!(report.digest.expect("a digest").to_string(), snapshot.digest);
}

#[test]
fn library_publishes_signs_and_seeds() {
    let place = Place::in_memory();
    let [db, to, copy, y] = ["db", "to", "copy", "y"].map(|name| place.path(name));
    let pair = KeyPair::generate_encrypted_keypair(Some("secret".into())).expect("random bytes");
    let secret = place.file("own.key", pair.sk.to_box(None).expect("a key").into_string().as_bytes());
    assert!(matches!(Signer::open(&secret, || Ok("wrong".into())), Err(Error::Usage { .. })));
    let signer = Signer::open(&secret, || Ok("secret".into())).expect("a signer");
    assert!(!format!("{signer:?}").contains("secret"));
    // During the import, without and with a database.
    let publication = Publication::new(&to).signer(signer.clone());
    let import = |publication: &Publication| {
        let report = bedload::import_and_bundle(&import_options(small(), &db), publication, &Silent).expect("imported");
        report.bundle.expect("a bundle").id
    };
    let id = import(&publication.clone().keep_database(false));
    assert_eq!((latest(&to), db.exists()), (id.clone(), false));
    assert_eq!(import(&publication), id, "the same records are the same bundle");
    // From the finished database.
    let report = bedload::bundle(&BundleOptions::new(&db, &copy).signer(signer), &Silent).expect("published");
    assert_eq!((report.uploaded_files, report.db), (report.files, db.display().to_string()));
    // The first mirror is missing.
    let key = TrustedKey::open(&pair.pk.to_base64()).expect("a key");
    let store = Store::of(&copy);
    let seed = SeedOptions::new(place.path("missing"), &y).mirrors([store.url("")]).trust(key).threads(2);
    let report = bedload::seed(&seed, &Silent).expect("seeded");
    assert_eq!(report.digest.to_string(), small().digest);
    is_valid(&y, small());
    let stranger = KeyPair::generate_unencrypted_keypair().expect("random bytes");
    let stranger = TrustedKey::open(&stranger.pk.to_base64()).expect("a key");
    let refused = bedload::seed(&SeedOptions::new(&to, place.path("z")).trust(stranger), &Silent);
    assert!(matches!(refused, Err(Error::BadInput { .. })), "signed by another key");
    let refused = bedload::seed(&SeedOptions::new(&to, place.path("z")).bundle("../x"), &Silent);
    assert!(matches!(refused, Err(Error::Usage { .. })), "a path is no id");
}

/// Publishes a database of `snapshot`, and returns the id of the bundle.
fn publish(place: &Place, snapshot: &Snapshot) -> String {
    let (db, to) = (place.path("db"), place.path("to"));
    bedload::import(&import_options(snapshot, &db).replace(db.exists()), &Silent).expect("imported");
    bedload::bundle(&BundleOptions::new(&db, &to), &Silent).expect("published").id
}

/// Leaves an unfinished seed of `small` into `y`. Returns its options, and the id of a newer bundle of `plain`.
fn unfinished(place: &Place) -> (SeedOptions, String) {
    let first = publish(place, small());
    let stop = CancellationToken::default();
    let seed = SeedOptions::new(place.path("to"), place.path("y")).threads(1);
    let error = bedload::seed(&seed.clone().stop(stop.clone()), &stops_at(Phase::Read, stop)).expect_err("cancelled");
    assert!(matches!(error, Error::Interrupted { .. }));
    let newest = publish(place, plain());
    assert_ne!(first, newest);
    (seed, newest)
}

#[test]
fn seed_of_another_bundle_starts_over() {
    let place = Place::new();
    let (seed, newest) = unfinished(&place);
    let seed = seed.bundle(newest);
    let refused = bedload::seed(&seed, &Silent);
    assert!(matches!(refused, Err(Error::State { kind: StateKind::Unfinished, .. })), "{refused:?}");
    let warned = AtomicBool::new(false);
    let warn = |event: &Event| {
        let starts_over = matches!(event, Event::Warning { message } if message.ends_with("the import starts over"));
        warned.fetch_or(starts_over, Ordering::Relaxed);
    };
    let report = bedload::seed(&seed.unfinished(Unfinished::ResumeOrRestart), &warn).expect("seeded");
    assert!(warned.into_inner() && !report.resumed);
    is_valid(&place.path("y"), plain());
}

/// The description of the first bundle of [`unfinished`].
fn first_description(place: &Place, newest: &str) -> PathBuf {
    let dirs = place.path("to").read_dir().expect("listed").map(|entry| entry.expect("an entry"));
    let others = dirs.filter(|dir| *dir.file_name() != *newest).map(|dir| dir.path().join("bundle.json"));
    others.into_iter().find(|path| path.exists()).expect("the first bundle")
}

#[test]
fn bundle_without_its_files_starts_over() {
    let place = Place::new();
    let (seed, newest) = unfinished(&place);
    let text = std::fs::read_to_string(first_description(&place, &newest)).expect("read");
    let mut removed = 0;
    for entry in place.path("to/files").read_dir().expect("listed").map(|entry| entry.expect("an entry")) {
        if text.contains(&*entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path()).expect("removed");
            removed += 1;
        }
    }
    assert!(removed > 0);
    let refused = bedload::seed(&seed, &Silent);
    assert!(matches!(refused, Err(Error::BadInput { kind: InputKind::Incomplete, .. })), "{refused:?}");
    bedload::seed(&seed.unfinished(Unfinished::ResumeOrRestart), &Silent).expect("seeded");
    is_valid(&place.path("y"), plain());
}

#[test]
fn missing_place_is_a_missing_input() {
    let place = Place::new();
    let (seed, _) = unfinished(&place);
    std::fs::rename(place.path("to"), place.path("elsewhere")).expect("renamed");
    let refused = bedload::seed(&seed, &Silent);
    assert!(matches!(refused, Err(Error::BadInput { kind: InputKind::Missing, .. })), "{refused:?}");
}

#[test]
fn removed_bundle_is_refused_or_starts_over() {
    let place = Place::new();
    let (seed, newest) = unfinished(&place);
    std::fs::remove_file(first_description(&place, &newest)).expect("removed");
    let refused = bedload::seed(&seed, &Silent);
    assert!(matches!(refused, Err(Error::State { kind: StateKind::Unfinished, .. })), "{refused:?}");
    bedload::seed(&seed.unfinished(Unfinished::ResumeOrRestart), &Silent).expect("seeded");
    is_valid(&place.path("y"), plain());
}

#[test]
fn cancelled_library_seed_resumes_and_updates() {
    let place = Place::in_memory();
    let (seed, _) = unfinished(&place);
    let y = place.path("y");
    bedload::seed(&seed, &Silent).expect("seeded");
    // An unfinished seed keeps its bundle.
    is_valid(&y, small());
    bedload::seed(&seed.clone().update(true), &Silent).expect("updated");
    is_valid(&y, plain());
    let again = bedload::seed(&seed, &Silent);
    assert!(matches!(again, Err(Error::State { .. })), "it exists");
}
