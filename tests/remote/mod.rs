//! Snapshots at URLs: requests, faulty servers and hidden secrets. Imports from nginx and from an S3 server, which
//! `scripts/servers` installs, and shards on engines that `scripts/fleet` installs.

mod servers;

mod bad_bundles;
mod bad_servers;
mod bad_shards;
mod bundle_updates;
mod bundles;
mod comparisons;
mod contradictory_bundles;
mod example_node;
mod fleet;
mod library_bundles;
mod partial_bundles;
mod real_nginx;
mod real_s3;
mod repeated_kills;
mod resume;
mod secrets;
mod several_sources;
mod shards;
mod signatures;
mod source_checksums;
mod store_checksums;
mod stores;
mod urls;

use crate::common::run::{Place, Run};

/// Runs a command, expects that it succeeds, and takes its output.
#[track_caller]
fn runs(command: &mut std::process::Command) -> String {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Skips the test unless `is_there`.
fn needs(is_there: bool, what: &str) -> bool {
    if !is_there {
        crate::common::skipped(format!("it needs {what}"));
    }
    is_there
}

/// The SHA-256 of some bytes, in hexadecimal.
fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(bytes))
}

/// The newest durable place in the journal: the source, and its bytes before that place.
#[track_caller]
fn durable(place: &Place) -> (u64, u64) {
    let text = std::fs::read_to_string(place.path("db.partial/journal")).expect("a journal");
    let mut entries = text.lines().rev().filter_map(|line| serde_json::from_str::<serde_json::Value>(&line[17..]).ok());
    let checkpoint = entries.find_map(|entry| entry.get("checkpoint").cloned()).expect("a durable place");
    (checkpoint["source"].as_u64().unwrap_or(0), checkpoint["restart"]["packed"].as_u64().unwrap_or(0))
}

/// Kills an import at `point`, and then at checkpoints until `least` is durable: those of a URL are made by time as well. Returns
/// the newest durable place.
#[track_caller]
fn dies_after(place: &Place, point: &str, least: (u64, u64), run: impl Fn() -> Run) -> (u64, u64) {
    run().dies_at(point);
    while durable(place) < least {
        run().dies_at("read");
    }
    durable(place)
}
