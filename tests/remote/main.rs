//! Snapshots at URLs: requests, faulty servers and hidden secrets. Imports from nginx and from an S3 server, which
//! `scripts/servers` installs, and shards on engines that `scripts/fleet` installs.
//!
//! A test that needs a server that is not there is reported as ignored. Arguments are those of any test binary.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

/// Requirements of a test beyond this repository.
#[derive(Clone, Copy)]
enum Needs {
    Nothing,
    Nginx,
    /// And a quarter of an hour: `BEDLOAD_LONG_TESTS=1`.
    NginxAndTime,
    Moto,
    /// A cluster of its own, as root, and `BEDLOAD_LONG_TESTS=1`.
    SlurmAndTime,
    /// GNU's.
    Parallel,
    /// Those of Kubernetes and AWS.
    Schemas,
    Minisign,
}

struct Test {
    name: &'static str,
    needs: Needs,
    run: fn(),
}

/// Lists a module's tests by what they need.
macro_rules! tests {
    ($($needs:expr => [$($run:ident),+ $(,)?];)+) => {
        pub const TESTS: &[crate::Test] = &[$($(crate::Test {
            name: concat!(module_path!(), "::", stringify!($run)), needs: $needs, run: $run,
        }),+),+];
    };
}

#[path = "../common/mod.rs"]
mod common;
mod servers;

mod bad_bundles;
mod bad_servers;
mod bad_shards;
mod bundle_updates;
mod bundles;
mod comparisons;
mod contradictory_bundles;
mod fleet;
mod logs;
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

/// Runs an import that ends as by `kill -9` when it reaches `point`.
#[track_caller]
fn dies(run: common::run::Import, point: &str) {
    let died = run.env("BEDLOAD_ABORT_AT", point).run();
    assert_eq!(died.code, Some(137), "{}", died.stderr);
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    // Those that wait longest begin first.
    let modules = [
        repeated_kills::TESTS,
        bad_servers::TESTS,
        real_nginx::TESTS,
        real_s3::TESTS,
        bundles::TESTS,
        bad_bundles::TESTS,
        signatures::TESTS,
        bundle_updates::TESTS,
        partial_bundles::TESTS,
        contradictory_bundles::TESTS,
        comparisons::TESTS,
        fleet::TESTS,
        shards::TESTS,
        bad_shards::TESTS,
        urls::TESTS,
        logs::TESTS,
        secrets::TESTS,
        several_sources::TESTS,
        stores::TESTS,
        source_checksums::TESTS,
        store_checksums::TESTS,
        resume::TESTS,
    ];
    let (has_nginx, has_moto) = (servers::has_nginx(), servers::has_moto());
    let (has_slurm, has_parallel, has_schemas) = (fleet::has_slurm(), fleet::has_parallel(), fleet::has_schemas());
    let has_minisign = std::process::Command::new("minisign").arg("-v").output().is_ok();
    let is_long = common::crash::rounds(0, 1) == 1;
    let is_there = |needs| match needs {
        Needs::Nothing => true,
        Needs::Nginx => has_nginx,
        Needs::NginxAndTime => has_nginx && is_long,
        Needs::Moto => has_moto,
        Needs::SlurmAndTime => has_slurm && is_long,
        Needs::Parallel => has_parallel,
        Needs::Schemas => has_schemas,
        Needs::Minisign => has_minisign,
    };
    let trials = modules.into_iter().flatten().map(|test| {
        let run = test.run;
        let name = test.name.trim_start_matches("remote::");
        let passes = move || {
            run();
            Ok(())
        };
        Trial::test(name, passes).with_ignored_flag(!is_there(test.needs))
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
