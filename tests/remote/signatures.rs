//! Signatures of bundles: those of `bundle --sign` and of minisign, and `seed --trust`.

use std::path::{Path, PathBuf};
use std::process::Command;

use minisign::KeyPair;

use crate::common::bundle::*;
use crate::common::crash::{copy, plain, small};
use crate::common::database::flip;
use crate::common::run::Place;
use crate::common::store::Store;
use crate::remote::{needs, runs};

/// A key pair: the files of both keys, and the public one as text.
struct Keys {
    secret: PathBuf,
    public: PathBuf,
    text: String,
}

fn keys(place: &Place, name: &str) -> Keys {
    let pair = KeyPair::generate_unencrypted_keypair().expect("random bytes");
    let secret = pair.sk.to_box(None).expect("a key").into_string();
    let public = pair.pk.to_box().expect("a key").into_string();
    Keys {
        secret: place.file(&format!("{name}.key"), secret.as_bytes()),
        public: place.file(&format!("{name}.pub"), public.as_bytes()),
        text: pair.pk.to_base64(),
    }
}

impl Keys {
    fn sign(&self, run: Run) -> Run {
        run.args(&["--sign", text(&self.secret)])
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn signature(to: &Path) -> PathBuf {
    to.join(latest(to)).join("bundle.json.minisig")
}

#[test]
fn seed_accepts_only_a_trusted_signature() {
    let place = Place::in_memory();
    let (db, to, y) = (imported(&place, small()), place.path("to"), place.path("y"));
    let (own, other) = (keys(&place, "own"), keys(&place, "other"));
    own.sign(bundle(&db, &to)).succeeds();
    let store = Store::of(&to);
    for from in [to.display().to_string(), store.url("")] {
        for trust in [&[own.text.as_str()][..], &[text(&own.public)], &[&other.text, &own.text], &[]] {
            let args: Vec<&str> = trust.iter().flat_map(|key| ["--trust", key]).collect();
            seed(&from, &y).args(&args).seeds(small());
            std::fs::remove_dir_all(&y).expect("a database");
        }
    }
    // Others are refused before a file is fetched.
    let refused = |words: &str, trust: &str| {
        let store = Store::of(&to);
        for from in [to.display().to_string(), store.url("")] {
            let run = seed(&from, &y).args(&["--trust", trust]);
            run.refused_at_once(3, "bundle.json.minisig is not valid").says(&[words]);
        }
        assert!(!store.was_asked_for_files());
    };
    refused("not by a trusted key", &other.text);
    let path = signature(&to);
    let right = std::fs::read_to_string(&path).expect("a signature");
    // A byte of each line that counts, which is all but the first.
    let ends: Vec<usize> = right.match_indices('\n').map(|(at, _)| at).collect();
    assert_eq!(ends.len(), 4);
    for line in ends.windows(2) {
        flip(&path, (line[0] + line[1]) / 2, 1);
        refused("", &own.text);
        std::fs::write(&path, &right).expect("written");
    }
    // That of another bundle by the same key.
    let (elsewhere, others) = (Place::in_memory(), place.path("others"));
    own.sign(bundle(&imported(&elsewhere, plain()), &others)).succeeds();
    std::fs::copy(signature(&others), &path).expect("copied");
    refused("not by a trusted key", &own.text);
    std::fs::write(&path, vec![b'x'; 100 << 10]).expect("written");
    seed(&to, &y).args(&["--trust", &own.text]).refused_at_once(3, "the limit");
    std::fs::write(&path, b"\xff\xfe").expect("written");
    refused("not of minisign's format", &own.text);
    std::fs::remove_file(&path).expect("there");
    refused("the file is missing", &own.text);
    // Without --trust nothing is asked.
    seed(&to, &y).succeeds();
}

#[test]
fn signature_is_written_once_before_the_pointer() {
    let (place, store) = (Place::in_memory(), Store::new());
    let (db, own, other) = (imported(&place, small()), keys(&place, "own"), keys(&place, "other"));
    // Signs, and takes the names of the files that the store received.
    let publish = |key: &Keys| -> Vec<String> {
        key.sign(bundle(&db, "s3://bucket/main")).at(&store.endpoint()).succeeds();
        let puts = store.take_names("PUT");
        puts.iter().filter_map(|name| Some(name.rsplit_once('/')?.1.to_owned())).collect()
    };
    let first = publish(&own);
    assert_eq!(first[first.len() - 3..], ["bundle.json", "bundle.json.minisig", "latest"]);
    assert!(!publish(&own).contains(&"bundle.json.minisig".to_owned()), "a valid signature was written again");
    assert!(publish(&other).contains(&"bundle.json.minisig".to_owned()));
    let y = place.path("y");
    let trusting = |key: &str| seed("s3://bucket/main", &y).at(&store.endpoint()).args(&["--trust", key]);
    trusting(&own.text).refused(3, "not by a trusted key");
    trusting(&other.text).seeds(small());
    // A run killed earlier has published no pointer to an unsigned bundle.
    let to = place.path("to");
    for point in ["bundle-described", "bundle-signed"] {
        own.sign(bundle(&db, &to)).dies_at(point);
        assert!(!to.join("latest").exists());
    }
    own.sign(bundle(&db, &to)).succeeds();
    names_only_what_is_there(&to);
}

/// A bundle whose first file was changed and is named by an altered description.
fn foreign(to: &Path) {
    let (_place, other, _) = bundled(plain());
    copy(&other, to);
    let first = files(to).remove(0);
    flip(&first, 4321, 1);
    put_file(to, 0, &std::fs::read(&first).expect("a file"));
    std::fs::remove_file(first).expect("removed");
}

#[test]
fn signed_bundle_reuses_no_unsigned_files() {
    let place = Place::in_memory();
    let (own, other) = (keys(&place, "own"), keys(&place, "other"));
    let (work, y) = (place.dir("work"), place.path("y"));
    let unsigned = |to: &Path| import_to(plain(), to, None, &work);
    let seeds = |to: &Path, key: &Keys| {
        seed(to, &y).args(&["--trust", &key.text]).seeds(plain());
        std::fs::remove_dir_all(&y).expect("a database");
    };
    // Nor does it reuse files of a killed unsigned run.
    for (to, is_killed) in [(place.path("to"), false), (place.path("killed"), true)] {
        foreign(&to);
        if is_killed {
            unsigned(&to).dies_at("published:3");
        }
        let done = own.sign(unsigned(&to)).succeeds();
        assert_eq!(done.number("/bundle/uploaded_files"), done.number("/bundle/files"), "an unsigned file was reused");
        assert!(is_killed || done.stderr.contains("the newest bundle cannot be reused"), "{}", done.stderr);
        seeds(&to, &own);
        // Its own it does name.
        let twice = own.sign(unsigned(&to)).succeeds();
        assert_eq!((twice.text("/bundle/id"), twice.number("/bundle/uploaded_files")), (done.text("/bundle/id"), 0));
    }
    // So it is with a database.
    let to = place.path("elsewhere");
    foreign(&to);
    other.sign(bundle(&imported(&place, plain()), &to)).succeeds();
    seeds(&to, &other);
}

#[test]
fn password_is_read_from_environment_or_file() {
    let place = Place::in_memory();
    let (db, to) = (imported(&place, small()), place.path("to"));
    let pair = KeyPair::generate_encrypted_keypair(Some("a word".into())).expect("random bytes");
    let secret = place.file("own.key", pair.sk.to_box(None).expect("a key").into_string().as_bytes());
    let key = pair.pk.to_base64();
    let publish = || bundle(&db, &to).args(&["--sign", text(&secret)]);
    publish().refused(2, "needs its password");
    publish().env("BEDLOAD_SIGN_PASSWORD", "another word").refused(2, "cannot be decrypted");
    assert!(!to.exists());
    publish().env("BEDLOAD_SIGN_PASSWORD", "a word").succeeds();
    std::fs::remove_file(signature(&to)).expect("there");
    let file = place.file("password", b"a word\n");
    let done = publish().env("BEDLOAD_SIGN_PASSWORD_FILE", text(&file)).succeeds();
    assert!(!format!("{}{}", done.json, done.stderr).contains("a word"));
    seed(&to, &place.path("y")).args(&["--trust", &key]).succeeds();
}

#[test]
fn unusable_key_is_refused_before_reading() {
    let place = Place::in_memory();
    let own = keys(&place, "own");
    let nothing = place.file("nothing", b"no key\nat all\n");
    for wrong in [&nothing, &own.public, &place.path("missing")] {
        bundle(&place.path("none"), place.path("to")).args(&["--sign", text(wrong)]).refused(2, "");
    }
    for wrong in ["RWQ", text(&nothing), text(&own.secret), "/dev/null"] {
        seed(place.path("none"), &place.path("y")).args(&["--trust", wrong]).refused(2, "minisign public key");
    }
    // A shard is not signed.
    let signed = own.sign(shard(&small().file, "0/2", &place.path("x")).args(&["--bundle", "to"]));
    signed.run().failed(2, "a shard", &["--shard", "--sign"]);
}

#[test]
fn minisign_and_bedload_verify_each_other() {
    let place = Place::in_memory();
    if !needs(Command::new("minisign").arg("-v").output().is_ok(), "minisign") {
        return;
    }
    let (db, to) = (imported(&place, small()), place.path("to"));
    let (secret, public) = (place.path("real.key"), place.path("real.pub"));
    let minisign = |args: &[&str]| runs(Command::new("minisign").args(args));
    minisign(&["-G", "-W", "-p", text(&public), "-s", text(&secret)]);
    let publish = || bundle(&db, &to).args(&["--sign", text(&secret)]).succeeds();
    publish();
    let described = to.join(latest(&to)).join("bundle.json");
    minisign(&["-V", "-p", text(&public), "-m", text(&described)]);
    let trusting = |y: &str| seed(&to, &place.path(y)).args(&["--trust", text(&public)]);
    trusting("y").seeds(small());
    std::fs::remove_file(signature(&to)).expect("there");
    trusting("z").refused(3, "the file is missing");
    minisign(&["-S", "-s", text(&secret), "-m", text(&described)]);
    trusting("z").succeeds();
    // A signature by minisign is kept.
    let before = std::fs::read(signature(&to)).expect("a signature");
    publish();
    assert_eq!(std::fs::read(signature(&to)).expect("a signature"), before);
}
