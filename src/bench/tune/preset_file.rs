//! The preset that a search found, as a file, with what it was found by.

use std::fmt::Write;

use crate::preset::{Assignment, Preset};
use crate::report::tune::Change;
use crate::report::tune::{Outcome, TuneReport};
use crate::text::size::{counted, human};

/// Changes of a sample that are listed as evidence.
const LISTED: usize = 6;

/// The start with the changes of the winner; `None` where none was confirmed.
pub fn preset_file(start: &Preset, report: &TuneReport) -> Option<String> {
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
    for rung in &report.rungs {
        let mut ranked: Vec<(&str, f64)> =
            rung.ratios.iter().filter_map(|(name, ratio)| Some((name.as_str(), (*ratio)?))).collect();
        ranked.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let best: Vec<String> = ranked.iter().take(LISTED).map(|(name, ratio)| format!("{name}: {ratio:.3}")).collect();
        let _ = writeln!(
            text,
            "# On {}, {}, {} against the start: {}.",
            human(rung.bytes),
            counted(rung.rounds.into(), "round", "rounds"),
            counted(rung.ratios.len() as u64, "candidate", "candidates"),
            best.join("; ")
        );
    }
    for Change { option, value } in &arguments {
        let _ = writeln!(text, "# It was measured with `bedload import --{option} {value}`, which no preset can say.");
    }
    let _ = writeln!(text, "name = {}", quoted(&format!("{}-tuned", start.name)));
    let _ = writeln!(
        text,
        "summary = {}",
        quoted(&format!("{}, tuned by measurement for the least {}", start.name, report.goal.what()))
    );
    let _ = writeln!(text, "loader = {}", quoted(&start.loader.to_string()));

    let mut lines: Vec<Line> = start.all_assignments().iter().map(Line::of_start).collect();
    for Change { option, value } in options {
        let Some((section, name)) = split(option) else { continue };
        let reason = Some(format!("found by measurement, see above; {} has another value", start.name));
        let line = Line { section, name, value: value.clone(), reason };
        match lines.iter_mut().find(|it| (&it.section, &it.name) == (&line.section, &line.name)) {
            Some(known) => *known = line,
            None => lines.push(line),
        }
    }
    let mut sections: Vec<&str> = Vec::new();
    for line in &lines {
        if !sections.contains(&line.section.as_str()) {
            sections.push(&line.section);
        }
    }
    for section in sections {
        let _ = write!(text, "\n[{section}]\n");
        for line in lines.iter().filter(|line| line.section == section) {
            let value = if is_bare(&line.value) { line.value.clone() } else { quoted(&line.value) };
            let _ = match &line.reason {
                Some(reason) => writeln!(text, "{} = [{value}, {}]", line.name, quoted(reason)),
                None => writeln!(text, "{} = {value}", line.name),
            };
        }
    }
    Some(text)
}

struct Line {
    section: String,
    name: String,
    value: String,
    reason: Option<String>,
}

impl Line {
    fn of_start(assignment: &Assignment) -> Self {
        Self {
            section: format!("{}.{}", assignment.key.stage, assignment.key.scope),
            name: assignment.key.name.clone(),
            value: assignment.value.clone(),
            reason: assignment.reason.clone(),
        }
    }
}

/// `node.table.block_size` as section and name.
fn split(option: &str) -> Option<(String, String)> {
    let (stage, rest) = option.split_once('.')?;
    let (scope, name) = rest.split_once('.')?;
    Some((format!("{stage}.{scope}"), name.to_owned()))
}

/// What TOML takes without quotes.
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
                all_better: false,
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
                pairs,
            }),
            outcome,
            preset: None,
        }
    }

    #[test]
    fn the_file_is_a_preset_with_the_changes_and_its_evidence() {
        let start = Preset::builtin("ingest").expect("built in");
        let text = preset_file(&start, &report(Outcome::Better)).expect("a win");
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
            assert_eq!(preset_file(&start, &report(outcome)), None);
        }
    }
}
