//! The preset that a search found, as a file, with what it was found by.

use std::fmt::Write;
use std::path::Path;

use crate::bench::snapshot::absolute;
use crate::preset::Preset;
use crate::report::tune::Change;
use crate::report::tune::{Outcome, TuneReport};
use crate::text::size::{counted, human};

/// Returns a preset that is based on the start, which the user named `word`, and has the changes of the winner; `None` if
/// no winner was confirmed.
pub fn preset_file(start: &Preset, word: &str, report: &TuneReport) -> Option<String> {
    let confirmation = report.confirmation.as_ref().filter(|_| report.outcome == Outcome::Better)?;
    let (options, arguments): (Vec<&Change>, Vec<&Change>) =
        report.changes.iter().partition(|change| change.option.contains('.'));
    let mut text = String::new();
    let machine = &report.machine;
    let _ = writeln!(text, "# Found by `bedload tune` around `{}`, for the least {}.", start.name, report.goal.what());
    let _ = writeln!(
        text,
        "# Snapshot: {} of {}. Machine: {} of {}, {}.",
        report.snapshot.path.rsplit('/').next().unwrap_or_default(),
        human(report.snapshot.bytes),
        counted(machine.cores as u64, "core", "cores"),
        machine.cpu.as_deref().unwrap_or("an unknown processor"),
        machine.file_system.as_deref().unwrap_or("an unknown file system"),
    );
    let _ = writeln!(text, "# bedload {}, RocksDB {}.", machine.versions.bedload, machine.versions.rocksdb);
    let ratio = &confirmation.ratio;
    let interval = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!(" (95 % interval {low:.3} to {high:.3})"),
        _ => String::new(),
    };
    let _ = writeln!(
        text,
        "# On the whole snapshot, in {} interleaved pairs: {:.3} times the start's {}{interval}; {:.3} times its time.",
        ratio.pairs,
        ratio.ratio,
        report.goal.what(),
        confirmation.time.ratio
    );
    for Change { option, value } in &arguments {
        let _ = writeln!(text, "# It was measured with `bedload import --{option} {value}`, which no preset can say.");
    }
    let _ = writeln!(text, "name = {}", quoted(&format!("{}-tuned", start.name)));
    let _ = writeln!(
        text,
        "summary = {}",
        quoted(&format!("{}, tuned by measurement for the least {}", start.name, report.goal.what()))
    );
    let is_file = word.contains('/') || word.ends_with(".toml");
    let base = if is_file { absolute(Path::new(word)) } else { word.to_owned() };
    let _ = writeln!(text, "base = {}", quoted(&base));
    // Sorted by option, and so by section.
    let mut last = String::new();
    for Change { option, value } in options {
        let Some((section, name)) = option.rsplit_once('.') else { continue };
        if section != last {
            let _ = write!(text, "\n[{section}]\n");
            section.clone_into(&mut last);
        }
        let value = if is_bare(value) { value.clone() } else { quoted(value) };
        let _ = writeln!(text, "{name} = {value}");
    }
    Some(text)
}

/// True if TOML takes the value without quotes.
fn is_bare(value: &str) -> bool {
    value == "true" || value == "false" || value.parse::<i64>().is_ok_and(|number| number.to_string() == value)
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preset::{Overrides, resolve};
    use crate::report::Versions;
    use crate::report::bench::{BenchMachine, SnapshotInfo};
    use crate::report::statistics::ratio;
    use crate::report::tune::{Confirmation, Goal, RungReport, TUNE_SCHEMA};

    fn report(outcome: Outcome) -> TuneReport {
        let change = |option: &str, value: &str| Change { option: option.into(), value: value.into() };
        let pairs = vec![(0.90, 1.0), (0.91, 1.0), (0.89, 1.0)];
        TuneReport {
            schema: TUNE_SCHEMA.into(),
            machine: BenchMachine {
                cpu: Some("A Processor".into()),
                cores: 4,
                memory_bytes: Some(16 << 30),
                kernel: None,
                system: None,
                file_system: Some("ext4".into()),
                device: None,
                dir: "/data".into(),
                versions: Versions { bedload: "0.1.0".into(), rocksdb: "11.12.0".into() },
            },
            snapshot: SnapshotInfo { path: "/data/a.car".into(), bytes: 4 << 30, blocks: None, payload_bytes: None },
            goal: Goal::Total,
            start: "ingest".into(),
            tried: 20,
            rungs: vec![RungReport {
                bytes: 64 << 20,
                rounds: 2,
                ratios: vec![
                    ("block_size=4K".into(), Some(1.1)),
                    ("sst_size=64M".into(), Some(0.95)),
                    ("x=1".into(), None),
                ],
            }],
            winner: Some("memory=1G, sst_size=64M, block_size=32K".into()),
            changes: vec![
                change("memory", "1G"),
                change("load.ingest.sst_size", "64M"),
                change("node.table.block_size", "32K"),
                change("node.table.data_block_index_type", "kDataBlockBinaryAndHash"),
            ],
            confirmation: Some(Confirmation {
                ratio: ratio(&pairs).expect("pairs"),
                time: ratio(&pairs).expect("pairs"),
            }),
            outcome,
            preset: None,
        }
    }

    #[test]
    fn the_file_is_a_preset_with_the_changes_and_its_evidence() {
        let start = Preset::builtin("ingest").expect("built in");
        let text = preset_file(&start, "ingest", &report(Outcome::Better)).expect("a win");
        insta::assert_snapshot!("preset_file", text);
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, &text).expect("room");
        let tuned =
            resolve(&Preset::from_file(&path).expect("a preset"), &Overrides::default()).expect("RocksDB takes it");
        let before = resolve(&start, &Overrides::default()).expect("RocksDB takes it");
        let changed: Vec<String> =
            crate::preset::diff(&before, &tuned).iter().map(|it| format!("{}={}", it.option, it.b)).collect();
        assert_eq!(
            changed,
            [
                "load.ingest.sst_size=67108864",
                "node.table.block_size=32768",
                "node.table.data_block_index_type=kDataBlockBinaryAndHash"
            ]
        );
    }

    #[test]
    fn what_is_not_confirmed_is_not_written() {
        let start = Preset::builtin("ingest").expect("built in");
        for outcome in [
            Outcome::WithinNoise,
            Outcome::NotDecided { more_pairs: 3 },
            Outcome::NothingBetter,
            Outcome::OutOfTime,
            Outcome::TooSlow,
        ] {
            assert_eq!(preset_file(&start, "ingest", &report(outcome)), None);
        }
    }
}
