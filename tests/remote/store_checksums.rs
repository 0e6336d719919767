//! Sums that S3 itself has of an object.

use crc_fast::CrcAlgorithm::{self, Crc32Iscsi, Crc32IsoHdlc, Crc64Nvme};
use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest, Sha256};

use crate::common::crash::{forest, plain, small};
use crate::common::run::{Place, import, import_all};
use crate::common::store::Store;
use crate::remote::dies_after;
use crate::remote::several_sources::file;

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

/// The store says that this is the sum of the whole object.
fn says(server: &Store, name: &str, sum: &[u8]) {
    server.says(&[(name, BASE64.encode(sum)), ("type", "FULL_OBJECT".into())]);
}

/// Imports the object with these options, and takes the row of its checksum.
#[track_caller]
fn checksum(server: &Store, args: &[&str]) -> serde_json::Value {
    let done = import(&Place::in_memory(), URL).at(&server.endpoint()).args(args).holds(&plain().blocks);
    done.json["sources"][0].get("checksum").cloned().unwrap_or_default()
}

#[test]
fn store_checksum_is_compared() {
    let server = Store::serving(plain());
    for (number, (name, people, sum)) in sums(&plain().bytes).into_iter().enumerate() {
        says(&server, name, &sum);
        let hex = HEXLOWER.encode(&sum);
        let expected = [name, &hex, &format!("the metadata of {URL}")];
        let found = checksum(&server, &[]);
        assert_eq!(["function", "sum", "from"].map(|field| found[field].as_str().expect("text")), expected);
        assert_eq!(found["compared"], true);

        let other = &sums(b"something else")[number].2;
        says(&server, name, other);
        let done = import(&Place::in_memory(), URL).at(&server.endpoint()).run();
        done.refused(3, None, &format!("its {people} is {hex}"));
        done.says(&[&format!("but the metadata of {URL} declares {}", HEXLOWER.encode(other))]);
    }
}

#[test]
fn part_checksums_are_not_compared() {
    let crc = BASE64.encode(b"four");
    let answers: [(&str, &[(&str, String)]); 7] = [
        ("\"one\"", &[("crc32c", crc.clone()), ("type", "COMPOSITE".into())]),
        ("\"one\"", &[("crc32c", format!("{crc}-3"))]),
        ("\"one\"", &[("crc64nvme", crc.clone())]),
        ("\"one\"", &[("crc32c", "not base64".into())]),
        ("\"one\"", &[("sha1", BASE64.encode(&[7; 20]))]),
        ("\"one\"", &[]),
        // A server that does not say that it is of parts; the tag of the object shows that it has some.
        ("\"one-2\"", &[("crc32c", crc.clone())]),
    ];
    for (etag, answer) in answers {
        let server = Store::new();
        server.replace(plain(), etag);
        server.says(answer);
        assert_eq!(checksum(&server, &[]), serde_json::Value::Null, "{answer:?}");
        assert_eq!(server.heads().len(), 1, "it was asked");
    }
}

#[test]
fn strongest_checksum_is_compared() {
    let [sha, ..] = sums(&plain().bytes);
    let wrong = [("crc32", BASE64.encode(b"four")), ("crc64nvme", BASE64.encode(b"eight---"))];
    let right = [("crc32c", BASE64.encode(b"four")), ("sha256", BASE64.encode(&sha.2))];
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    server.says(&wrong);
    import(&place, URL).at(&server.endpoint()).run().refused(3, None, "its CRC-64/NVME is");
    // A SHA-256 is stronger. A published checksum overrides it, and one given by the caller overrides both.
    server.says(&[wrong.clone(), right].concat());
    assert_eq!(checksum(&server, &[])["function"], "sha256");
    server.says(&wrong);
    let asked = server.heads().len();
    let given = format!("sha256:{}", HEXLOWER.encode(&sha.2));
    assert_eq!(checksum(&server, &["--checksum", &given])["from"], "the checksum option");
    assert_eq!(server.heads().len(), asked, "an unused checksum was requested");
    let line = format!("{}  a.car\n", HEXLOWER.encode(&sha.2));
    let server = server.with("bucket/dir/a.car.sha256sum", line);
    assert_eq!(checksum(&server, &[])["from"], format!("{URL}.sha256sum"));
}

#[test]
fn store_checksum_survives_a_resume() {
    // The sum that the store has, the one that it has when the import resumes, and the right one.
    for (snapshot, before, after) in [(plain(), 1, 1), (forest(), 2, 2), (plain(), 2, 0)] {
        let sums = sums(&snapshot.bytes);
        let (name, people, sum) = &sums[after];
        for is_right in [true, false] {
            let (place, server) = (Place::in_memory(), Store::serving(snapshot));
            let run = || import(&place, URL).at(&server.endpoint()).spilling().args(&["--connections", "2"]);
            let wrong = vec![7; sum.len()];
            says(&server, sums[before].0, if is_right { &sums[before].2 } else { &wrong });
            dies_after(&place, "read:5", (0, 2_000_000), run);
            server.served();
            if !is_right {
                says(&server, name, &wrong);
                run().run().refused(3, None, &format!("its {people} is {}", HEXLOWER.encode(sum)));
                continue;
            }
            says(&server, name, sum);
            let done = run().holds(&snapshot.blocks);
            let served = server.served();
            // With another function all bytes are hashed again.
            assert!(
                before != after || served < snapshot.bytes.len() as u64 - 1_000_000,
                "{served} bytes were requested again"
            );
            let found = [done.text("/sources/0/checksum/function"), done.text("/sources/0/checksum/sum")];
            assert_eq!(found, [*name, &HEXLOWER.encode(sum)]);
            assert_eq!(done.json["resumed"], true);
        }
    }
}

#[test]
fn checksum_request_is_signed_unless_public() {
    let server = Store::serving(plain());
    checksum(&server, &[]);
    let head = &server.heads()[0];
    for words in ["/bucket/dir/a.car?", "X-Amz-Signature=", "SignedHeaders=host%3Bx-amz-checksum-mode", "a-key"] {
        assert!(head.path.contains(words), "{}", head.path);
    }
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let [_, crc, ..] = sums(&plain().bytes);
    says(&server, crc.0, &crc.2);
    let public = import(&place, URL).env("AWS_SKIP_SIGNATURE", "true").args(&["--endpoint", &server.endpoint()]);
    let done = public.holds(&plain().blocks);
    assert_eq!(done.text("/sources/0/checksum/function"), "crc64nvme");
    assert_eq!(server.heads()[0].path, "/bucket/dir/a.car");
    assert!(server.requests().iter().all(|request| !request.headers.contains_key("authorization")));
}

#[test]
fn each_source_has_its_store_checksum() {
    let [_, crc, ..] = sums(&plain().bytes);
    let (place, server) = (Place::in_memory(), Store::serving(plain()));
    let run = || import_all(&place, &[file(small()), URL.to_owned()]).at(&server.endpoint());
    says(&server, crc.0, b"8 bytes!");
    run().refused(3, &format!("read {URL}: its CRC-64/NVME is"));
    says(&server, crc.0, &crc.2);
    let done = run().succeeds();
    assert_eq!(done.text("/sources/1/checksum/sum"), HEXLOWER.encode(&crc.2));
    assert_eq!(done.json.pointer("/sources/0/checksum"), None);
}
