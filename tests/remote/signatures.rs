//! Signatures of bundles: those of `bundle --sign` and of minisign, and `seed --trust`.

use std::path::{Path, PathBuf};
use std::process::Command;

use minisign::KeyPair;

use crate::common::bundle::*;
use crate::common::crash::{plain, small};
use crate::common::run::Place;
use crate::common::store::Store;

/// A key pair in files: the secret one, and the public one.
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

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn signature(to: &Path) -> PathBuf {
    to.join(latest(to)).join("bundle.json.minisig")
}

#[test]
fn seed_accepts_a_trusted_signature() {
    let place = Place::new();
    let (db, to, own) = (imported(&place, plain()), place.path("to"), keys(&place, "own"));
    bundle(&db, &to).arg(&["--sign", text(&own.secret)]).succeeds();
    let other = keys(&place, "other");
    let store = Store::of(&to);
    for from in [to.display().to_string(), store.url("")] {
        for trust in [&[own.text.as_str()][..], &[text(&own.public)], &[&other.text, &own.text], &[]] {
            let y = place.path("y");
            let args: Vec<&str> = trust.iter().flat_map(|key| ["--trust", key]).collect();
            seed(&from, &y).arg(&args).holds(plain());
            std::fs::remove_dir_all(&y).expect("a database");
        }
    }
}

#[test]
fn untrusted_bundle_is_refused_before_fetching() {
    let place = Place::new();
    let (db, to, own) = (imported(&place, small()), place.path("to"), keys(&place, "own"));
    bundle(&db, &to).arg(&["--sign", text(&own.secret)]).succeeds();
    let y = place.path("y");
    let refused = |words: &str, trust: &str| {
        let store = Store::of(&to);
        for from in [to.display().to_string(), store.url("")] {
            let ended = seed(&from, &y).arg(&["--trust", trust]).refused_at_once(3, "bundle.json.minisig is not valid");
            assert!(ended.text("/error").contains(words), "{ended:?}");
        }
        assert!(!store.requests().iter().any(|(_, name)| name.starts_with("files/")), "it fetched files");
    };
    refused("not by a trusted key", &keys(&place, "other").text);
    let path = signature(&to);
    let right = std::fs::read_to_string(&path).expect("a signature");
    // A byte of each line that counts.
    let mut at = 0;
    for (number, line) in right.lines().enumerate() {
        if number > 0 {
            let mut other = right.clone().into_bytes();
            other[at + line.len() / 2] ^= 1;
            std::fs::write(&path, other).expect("written");
            refused("", &own.text);
        }
        at += line.len() + 1;
    }
    // That of another bundle by the same key.
    let elsewhere = Place::new();
    let others = place.path("others");
    bundle(&imported(&elsewhere, plain()), &others).arg(&["--sign", text(&own.secret)]).succeeds();
    std::fs::copy(signature(&others), &path).expect("copied");
    refused("not by a trusted key", &own.text);
    std::fs::write(&path, vec![b'x'; 100 << 10]).expect("written");
    seed(&to, &y).arg(&["--trust", &own.text]).refused_at_once(3, "the limit");
    std::fs::write(&path, b"\xff\xfe").expect("written");
    refused("not of minisign's format", &own.text);
    std::fs::remove_file(&path).expect("there");
    refused("there is none", &own.text);
    // Without --trust nothing is asked.
    seed(&to, &y).succeeds();
    std::fs::write(&path, right).expect("written");
    std::fs::remove_dir_all(&y).expect("a database");
    seed(&to, &y).arg(&["--trust", &own.text]).holds(small());
}

#[test]
fn signature_is_written_once_before_the_pointer() {
    let (place, store) = (Place::new(), Store::new());
    let (db, own) = (imported(&place, small()), keys(&place, "own"));
    let sign = |to: &str, key: &Keys| bundle(&db, to).arg(&["--sign", text(&key.secret)]);
    let publish = |key: &Keys| sign("s3://bucket/main", key).at(&store.endpoint());
    let written = || -> Vec<String> {
        let puts = store.requests().into_iter().filter(|(method, _)| method == "PUT");
        puts.filter_map(|(_, name)| Some(name.rsplit_once('/')?.1.to_owned())).collect()
    };
    publish(&own).succeeds();
    let first = written();
    assert_eq!(first[first.len() - 3..], ["bundle.json", "bundle.json.minisig", "latest"]);
    publish(&own).succeeds();
    assert!(!written().contains(&"bundle.json.minisig".to_owned()), "a valid signature was written again");
    let other = keys(&place, "other");
    publish(&other).succeeds();
    assert!(written().contains(&"bundle.json.minisig".to_owned()));
    let y = place.path("y");
    let trusting = |key: &str| seed("s3://bucket/main", &y).at(&store.endpoint()).arg(&["--trust", key]);
    trusting(&own.text).refused(3, "not by a trusted key");
    trusting(&other.text).succeeds();
    holds(&y, small());
    // A run killed earlier has published no pointer to an unsigned bundle.
    let to = place.path("to");
    for point in ["bundle-described", "bundle-signed"] {
        sign(text(&to), &own).dies_at(point);
        assert!(!to.join("latest").exists());
    }
    sign(text(&to), &own).succeeds();
    names_only_what_is_there(&to);
}

/// A bundle whose first file is another one than its description says: a seed of it has another content.
fn foreign(to: &Path) {
    let (_place, other, _) = bundled(plain());
    assert!(std::process::Command::new("mv").arg(&other).arg(to).status().expect("mv").success());
    let first = files(to).remove(0);
    let mut bytes = std::fs::read(&first).expect("a file");
    bytes[4321] ^= 1;
    put_file(to, 0, &bytes);
    std::fs::remove_file(first).expect("removed");
}

#[test]
fn signed_bundle_reuses_no_unsigned_files() {
    let place = Place::new();
    let (to, own, other) = (place.path("to"), keys(&place, "own"), keys(&place, "other"));
    let (work, y) = (place.path("work"), place.path("y"));
    std::fs::create_dir(&work).expect("a folder");
    let sign = |to: &Path| import_to(plain(), to, None, &work).arg(&["--sign", text(&own.secret)]).succeeds();
    let seeds = |to: &Path, key: &Keys| {
        seed(to, &y).arg(&["--trust", &key.text]).holds(plain());
        std::fs::remove_dir_all(&y).expect("a database");
    };
    foreign(&to);
    let done = sign(&to);
    assert_eq!(done.number("/bundle/uploaded_files"), done.number("/bundle/files"), "others are not looked at");
    assert!(done.stderr.contains("the newest bundle cannot be reused"), "{}", done.stderr);
    seeds(&to, &own);
    // Its own it does name.
    let twice = sign(&to);
    assert_eq!((twice.text("/bundle/id"), twice.number("/bundle/uploaded_files")), (done.text("/bundle/id"), 0));
    // Nor does it take over what an unsigned run has named that was killed.
    let to = place.path("killed");
    foreign(&to);
    import_to(plain(), &to, None, &work).dies_at("published:3");
    let done = sign(&to);
    assert_eq!(done.number("/bundle/uploaded_files"), done.number("/bundle/files"));
    seeds(&to, &own);
    // So it is with a database.
    let to = place.path("elsewhere");
    foreign(&to);
    bundle(&imported(&place, plain()), &to).arg(&["--sign", text(&other.secret)]).succeeds();
    seeds(&to, &other);
}

#[test]
fn signing_a_shard_is_refused() {
    let place = Place::new();
    let own = keys(&place, "own");
    let signed = shard(&small().file, "0/2", &place.path("x")).arg(&["--bundle", "to", "--sign", text(&own.secret)]);
    let ended = signed.run();
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--shard") && ended.stderr.contains("--sign"), "{}", ended.stderr);
}

#[test]
fn password_is_read_from_environment_or_file() {
    let place = Place::new();
    let (db, to) = (imported(&place, small()), place.path("to"));
    let pair = KeyPair::generate_encrypted_keypair(Some("a word".into())).expect("random bytes");
    let secret = place.file("own.key", pair.sk.to_box(None).expect("a key").into_string().as_bytes());
    let key = pair.pk.to_base64();
    let publish = || bundle(&db, &to).arg(&["--sign", text(&secret)]);
    publish().refused(2, "needs its password");
    publish().env("BEDLOAD_SIGN_PASSWORD", "another word").refused(2, "cannot be decrypted");
    assert!(!to.exists());
    publish().env("BEDLOAD_SIGN_PASSWORD", "a word").succeeds();
    std::fs::remove_file(signature(&to)).expect("there");
    let file = place.file("password", b"a word\n");
    let done = publish().env("BEDLOAD_SIGN_PASSWORD_FILE", text(&file)).succeeds();
    assert!(!format!("{}{}", done.json, done.stderr).contains("a word"));
    seed(&to, &place.path("y")).arg(&["--trust", &key]).succeeds();
}

#[test]
fn invalid_key_is_refused_before_reading() {
    let place = Place::new();
    let own = keys(&place, "own");
    let nothing = place.file("nothing", b"no key\nat all\n");
    for wrong in [&nothing, &own.public, &place.path("missing")] {
        bundle(&place.path("none"), place.path("to")).arg(&["--sign", text(wrong)]).refused(2, "");
    }
    for wrong in ["RWQ", text(&nothing), text(&own.secret), "/dev/null"] {
        seed(place.path("none"), &place.path("y")).arg(&["--trust", wrong]).refused(2, "minisign public key");
    }
}

#[test]
fn minisign_and_bedload_verify_each_other() {
    let place = Place::new();
    if !crate::needs(Command::new("minisign").arg("-v").output().is_ok(), "minisign") {
        return;
    }
    let (db, to) = (imported(&place, small()), place.path("to"));
    let (secret, public) = (place.path("real.key"), place.path("real.pub"));
    let runs = |args: &[&str]| {
        let output = Command::new("minisign").args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    runs(&["-G", "-W", "-p", text(&public), "-s", text(&secret)]);
    bundle(&db, &to).arg(&["--sign", text(&secret)]).succeeds();
    let described = to.join(latest(&to)).join("bundle.json");
    runs(&["-V", "-p", text(&public), "-m", text(&described)]);
    let y = place.path("y");
    seed(&to, &y).arg(&["--trust", text(&public)]).holds(small());
    std::fs::remove_file(signature(&to)).expect("there");
    seed(&to, &place.path("z")).arg(&["--trust", text(&public)]).refused(3, "there is none");
    runs(&["-S", "-s", text(&secret), "-m", text(&described)]);
    seed(&to, &place.path("z")).arg(&["--trust", text(&public)]).succeeds();
    // A signature by minisign is kept.
    let before = std::fs::read(signature(&to)).expect("a signature");
    bundle(&db, &to).arg(&["--sign", text(&secret)]).succeeds();
    assert_eq!(std::fs::read(signature(&to)).expect("a signature"), before);
}
