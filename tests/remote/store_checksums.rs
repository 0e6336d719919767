//! Sums that S3 itself has of an object.

use crc_fast::CrcAlgorithm::{self, Crc32Iscsi, Crc32IsoHdlc, Crc64Nvme};
use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest, Sha256};

use crate::common::crash::{Snapshot, forest, plain, small};
use crate::common::run::{Import, Place, import, import_all};
use crate::common::server::Server;

const URL: &str = "s3://bucket/dir/a.car";

fn crc(function: CrcAlgorithm, bytes: &[u8]) -> Vec<u8> {
    let sum = crc_fast::checksum(function, bytes).to_be_bytes();
    if function == Crc64Nvme { sum.to_vec() } else { sum[4..].to_vec() }
}

/// The sums of some bytes: the name in headers, the name for people.
fn sums(bytes: &[u8]) -> [(&'static str, &'static str, Vec<u8>); 4] {
    [
        ("sha256", "SHA-256", Sha256::digest(bytes).to_vec()),
        ("crc64nvme", "CRC-64/NVME", crc(Crc64Nvme, bytes)),
        ("crc32c", "CRC-32C", crc(Crc32Iscsi, bytes)),
        ("crc32", "CRC-32", crc(Crc32IsoHdlc, bytes)),
    ]
}

fn spilling(place: &Place, server: &Server) -> Import {
    import(place, URL).at(&server.endpoint()).spilling().args(&["--connections", "2"])
}

/// A store that says that this is the sum of the whole object.
fn store(snapshot: &Snapshot, name: &str, sum: &[u8]) -> Server {
    let server = Server::new(snapshot);
    says(&server, name, sum);
    server
}

fn says(server: &Server, name: &str, sum: &[u8]) {
    server.says(&[(name, BASE64.encode(sum)), ("type", "FULL_OBJECT".into())]);
}

#[test]
fn store_checksum_is_compared() {
    for (name, people, sum) in sums(&plain().bytes) {
        let (place, server) = (Place::new(), store(plain(), name, &sum));
        let done = import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
        assert_eq!(done.text("/sources/0/checksum/function"), name);
        assert_eq!(done.text("/sources/0/checksum/sum"), HEXLOWER.encode(&sum));
        assert_eq!(done.text("/sources/0/checksum/from"), format!("the metadata of {URL}"));
        assert_eq!(done.json.pointer("/sources/0/checksum/compared"), Some(&true.into()));

        let (_, _, other) = sums(b"something else").into_iter().find(|(other, ..)| *other == name).expect("the same");
        let (place, server) = (Place::new(), store(plain(), name, &other));
        let done = import(&place, URL).at(&server.endpoint()).run();
        done.refused(3, None, &format!("its {people} is {}", HEXLOWER.encode(&sum)));
        let expected = format!("should be {} by the metadata of {URL}", HEXLOWER.encode(&other));
        assert!(done.stderr.contains(&expected), "both sides: {}", done.stderr);
        assert!(!done.db.exists(), "no database");
    }
}

#[test]
fn part_checksums_are_not_compared() {
    let crc = BASE64.encode(b"four");
    let answers: [&[(&str, String)]; 6] = [
        &[("crc32c", crc.clone()), ("type", "COMPOSITE".into())],
        &[("crc32c", format!("{crc}-3"))],
        &[("crc64nvme", crc.clone())],
        &[("crc32c", "not base64".into())],
        &[("sha1", BASE64.encode(&[7; 20]))],
        &[],
    ];
    for answer in answers {
        let (place, server) = (Place::new(), Server::new(plain()));
        server.says(answer);
        let done = import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
        assert_eq!(server.heads().len(), 1, "it was asked");
        assert_eq!(done.json.pointer("/sources/0/checksum"), None, "{answer:?}");
    }
    // A server that does not say that it is of parts; the tag of the object shows that it has some.
    let (place, server) = (Place::new(), Server::new(plain()));
    server.replace(plain(), "\"one-2\"");
    server.says(&[("crc32c", crc)]);
    let done = import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
}

#[test]
fn strongest_checksum_is_compared() {
    let [sha, ..] = sums(&plain().bytes);
    let wrong = [("crc32", BASE64.encode(b"four")), ("crc64nvme", BASE64.encode(b"eight---"))];
    let right = [("crc32c", BASE64.encode(b"four")), ("sha256", BASE64.encode(&sha.2))];
    let (place, server) = (Place::new(), Server::new(plain()));
    server.says(&wrong);
    import(&place, URL).at(&server.endpoint()).run().refused(3, None, "its CRC-64/NVME is");
    // A SHA-256 is stronger. A published checksum overrides it, and one given by the caller overrides both.
    server.says(&[wrong.clone(), right].concat());
    let done = import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/function"), "sha256");
    let (place, line) = (Place::new(), format!("{}  a.car\n", HEXLOWER.encode(&sha.2)));
    let server = Server::new(plain()).with("bucket/dir/a.car.sha256sum", line);
    server.says(&wrong);
    let done = import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/from"), format!("{URL}.sha256sum"));
    let (place, server) = (Place::new(), Server::new(plain()));
    server.says(&wrong);
    let given = format!("sha256:{}", HEXLOWER.encode(&sha.2));
    let done = import(&place, URL).at(&server.endpoint()).args(&["--checksum", &given]).holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/from"), "the command line");
    assert!(server.heads().is_empty(), "nobody asks for what is not used");
}

#[test]
fn store_checksum_survives_a_resume() {
    for (snapshot, function) in [(plain(), 1), (forest(), 2)] {
        let (name, people, sum) = sums(&snapshot.bytes)[function].clone();
        let (place, server) = (Place::new(), store(snapshot, name, &sum));
        spilling(&place, &server).dies_at("read:5");
        server.served();
        let done = spilling(&place, &server).holds(&snapshot.blocks);
        let served = server.served();
        assert!(served < snapshot.bytes.len() as u64 - 1_000_000, "{served} bytes were served again");
        assert_eq!(done.text("/sources/0/checksum/sum"), HEXLOWER.encode(&sum));

        let wrong = vec![7; sum.len()];
        let (place, server) = (Place::new(), store(snapshot, name, &wrong));
        spilling(&place, &server).dies_at("read:5");
        let done = spilling(&place, &server).run();
        done.refused(3, None, &format!("its {people} is {}", HEXLOWER.encode(&sum)));
    }
}

#[test]
fn changed_checksum_function_hashes_all_again() {
    let [sha, _, crc, _] = sums(&plain().bytes);
    let (place, server) = (Place::new(), store(plain(), crc.0, &crc.2));
    spilling(&place, &server).dies_at("read:5");
    says(&server, sha.0, &sha.2);
    let done = spilling(&place, &server).holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/function"), "sha256");
    assert_eq!(done.json.pointer("/resumed"), Some(&true.into()));
}

#[test]
fn checksum_request_is_signed_unless_public() {
    let (place, server) = (Place::new(), Server::new(plain()));
    import(&place, URL).at(&server.endpoint()).holds(&plain().blocks);
    let head = &server.heads()[0];
    for words in ["/bucket/dir/a.car?", "X-Amz-Signature=", "SignedHeaders=host%3Bx-amz-checksum-mode", "a-key"] {
        assert!(head.path.contains(words), "{}", head.path);
    }
    let [_, crc, ..] = sums(&plain().bytes);
    let (place, server) = (Place::new(), store(plain(), crc.0, &crc.2));
    let public = import(&place, URL).env("AWS_SKIP_SIGNATURE", "true").args(&["--endpoint", &server.endpoint()]);
    let done = public.holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/function"), "crc64nvme");
    assert_eq!(server.heads()[0].path, "/bucket/dir/a.car");
    assert!(server.requests().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn each_source_has_its_store_checksum() {
    let file = |snapshot: &Snapshot| snapshot.file.to_str().expect("text").to_owned();
    let [_, crc, ..] = sums(&plain().bytes);
    let (place, server) = (Place::new(), store(plain(), crc.0, &crc.2));
    let sources = [file(small()), URL.to_owned()];
    let done = import_all(&place, &sources).at(&server.endpoint()).run();
    done.succeeded();
    assert_eq!(done.text("/sources/1/checksum/sum"), HEXLOWER.encode(&crc.2));
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
    says(&server, crc.0, b"8 bytes!");
    let place = Place::new();
    let done = import_all(&place, &sources).at(&server.endpoint()).run();
    assert_eq!(done.code, Some(3), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("read {URL}: its CRC-64/NVME is")), "{}", done.stderr);
}
