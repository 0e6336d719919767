//! Searches for a faster variant of one preset.
//!
//! The first comparison has the preset and variants that change one option each. The values that are shown to be faster are
//! combined, and a second comparison has the preset and the combination. Only that one decides, because the best of many
//! values are partly lucky ones.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::comparison::{BenchObserver, compare, prepare, text_digest};
use super::options::BenchOptions;
use super::snapshot::absolute;
use crate::error::{Error, Result};
use crate::parallel;
use crate::preset::Loader;
use crate::report::bench::{BenchReport, Variant, total_key};
use crate::report::statistics::{Ratio, is_below};
use crate::text::size::{counted, human};

/// The share of the budget for the first comparison.
const SEARCH_SHARE: f64 = 0.6;

/// Values that are tried with every loader: options of the finished database.
const DATABASE: &[(&str, &[&str])] = &[
    ("node.table.block_size", &["4K", "8K", "16K", "32K", "64K"]),
    ("node.table.filter_policy", &["bloom:10", "bloom:14", "ribbon:10", "null"]),
    ("node.cf.compression", &["kNoCompression", "kLZ4Compression", "kZSTD"]),
    ("node.table.data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
];

const INGEST: &[(&str, &[&str])] = &[("load.ingest.sst_size", &["32M", "64M", "128M", "256M", "512M"])];

const MEMTABLE: &[(&str, &[&str])] = &[
    ("load.cf.write_buffer_size", &["32M", "64M", "128M", "256M", "512M"]),
    ("load.cf.max_write_buffer_number", &["2", "4", "6", "8"]),
    ("load.cf.memtable_factory", &["skip_list", "vector"]),
    ("load.cf.disable_auto_compactions", &["true", "false"]),
    ("load.cf.target_file_size_base", &["64M", "256M"]),
    ("load.write.batch_bytes", &["256K", "1M", "4M"]),
    ("load.write.disable_wal", &["true"]),
];

/// Searches around the only preset of `options`. Returns the report of the last comparison, and a preset file if it shows
/// that the combination is faster.
///
/// # Errors
/// As [`super::bench()`]; also [`Error::Usage`]: there are several presets.
pub fn tune(options: &BenchOptions, observer: &dyn BenchObserver) -> Result<(BenchReport, Option<String>)> {
    let (options, variants, mut snapshot) = prepare(options)?;
    let [preset] = &variants[..] else {
        let reason = format!("--tune needs exactly one preset, but there are {}", variants.len());
        return Err(Error::usage(reason, "name one: --presets ingest"));
    };
    let start = std::time::Instant::now();
    let budget = options.budget.map(|budget| budget.mul_f64(SEARCH_SHARE));
    let all = std::iter::once(preset.clone()).chain(candidates(preset)?).collect();
    let mut search = compare(&BenchOptions { budget, ..options.clone() }, all, Vec::new(), &mut snapshot, observer)?;
    let Some(combined) = combine(preset, &search) else {
        search.setup.notes.push(format!("no value is shown to be faster than `{}`", preset.name));
        return Ok((search, None));
    };
    observer.note(&format!("faster values are combined: {}", combined.name));
    let second = BenchOptions {
        budget: options.budget.map(|budget| budget.saturating_sub(start.elapsed())),
        dir: Some(options.work_dir().to_owned()),
        out: options.out.join(text_digest(&combined.name)),
        ..options
    };
    let both = vec![preset.clone(), combined.clone()];
    let mut report = compare(&second, both, Vec::new(), &mut snapshot, observer)?;
    let text = faster(&report, &combined.name).map(|ratio| preset_text(preset, &combined, &ratio, &report));
    if text.is_none() {
        let note = format!("`{}` is not shown to be faster than `{}`", combined.name, preset.name);
        report.setup.notes.push(note);
    }
    Ok((report, text))
}

/// Returns the variants with one changed option. Values that RocksDB rejects, or that change nothing, are left out.
fn candidates(preset: &Variant) -> Result<Vec<Variant>> {
    let start = preset.resolve()?;
    let cores = parallel::cores();
    let threads = [cores / 2, cores, cores * 2].map(|threads| threads.to_string());
    let threads: Vec<&str> = threads.iter().map(String::as_str).filter(|threads| *threads != "0").collect();
    let (of_loader, of_threads) = match start.loader {
        Loader::Ingest => (INGEST, &["load.ingest.threads"][..]),
        Loader::Memtable => (MEMTABLE, &["load.write.writer_threads", "load.compaction.max_subcompactions"][..]),
    };
    let of_threads = of_threads.iter().map(|option| (*option, &threads[..]));
    let mut found = Vec::new();
    for (option, values) in DATABASE.iter().chain(of_loader).copied().chain(of_threads) {
        for value in values {
            let variant = preset.with(option, value)?;
            if variant.changes(&start) {
                found.push(variant);
            }
        }
    }
    Ok(found)
}

/// Combines the fastest values of each option; `None` if none is shown to be faster. A value that RocksDB rejects together
/// with faster ones is left out.
fn combine(preset: &Variant, search: &BenchReport) -> Option<Variant> {
    let mut values: Vec<(f64, &str, &str)> = search
        .variants
        .iter()
        .filter_map(|variant| {
            let (option, value) = variant.set.last()?.split_once('=')?;
            Some((faster(search, &variant.name)?.ratio, option, value))
        })
        .collect();
    values.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut combined = preset.clone();
    let mut changed = Vec::new();
    for (_, option, value) in values {
        if !changed.contains(&option)
            && let Some(variant) = combined.with(option, value).ok().filter(|variant| variant.resolve().is_ok())
        {
            combined = variant;
            changed.push(option);
        }
    }
    (!changed.is_empty()).then_some(combined)
}

/// Returns the ratio of the variant's total time to the preset's if its whole interval is below one.
fn faster(report: &BenchReport, variant: &str) -> Option<Ratio> {
    let figures = report.figures.of(variant).filter(|figures| figures.failed == 0)?;
    let ratio = figures.to_reference.as_ref()?.ratios.get(total_key(report))?;
    is_below(ratio, 1.0).then(|| ratio.clone())
}

/// Returns a preset file that is based on the preset and has the options of the combination.
fn preset_text(preset: &Variant, combined: &Variant, ratio: &Ratio, report: &BenchReport) -> String {
    let machine = &report.machine;
    let interval = ratio.low.zip(ratio.high).map_or(String::new(), |(low, high)| format!("{low:.3} to {high:.3}"));
    let is_file = preset.preset.contains('/') || preset.preset.ends_with(".toml");
    let base = if is_file { absolute(Path::new(&preset.preset)) } else { preset.preset.clone() };
    let mut text = format!(
        "# Found by `bedload bench --tune`: {:.3} times the total time of `{}` (95 % interval {interval}), in {}.\n\
         # Snapshot: {} of {}. Machine: {} of {}, {}.\n# bedload {}, RocksDB {}.\n",
        ratio.ratio,
        preset.name,
        counted(ratio.pairs as u64, "round", "rounds"),
        report.snapshot.path.rsplit('/').next().unwrap_or_default(),
        human(report.snapshot.bytes),
        counted(machine.cores as u64, "core", "cores"),
        machine.cpu.as_deref().unwrap_or("an unknown processor"),
        machine.file_system.as_deref().unwrap_or("an unknown file system"),
        machine.versions.bedload,
        machine.versions.rocksdb,
    );
    for argument in &combined.arguments {
        let _ = writeln!(text, "# Measured with `bedload import --{argument}`, which a preset cannot set.");
    }
    let stem = Path::new(&base).file_stem().unwrap_or_default().to_string_lossy();
    for (key, value) in [
        ("name", format!("{stem}-tuned")),
        ("summary", format!("{stem}, tuned by measurement")),
        ("base", base.clone()),
    ] {
        let _ = writeln!(text, "{key} = {}", quoted(&value));
    }
    let options: BTreeMap<&str, &str> = combined.set.iter().filter_map(|set| set.split_once('=')).collect();
    let mut last = "";
    for (option, value) in options {
        let Some((section, name)) = option.trim().rsplit_once('.') else { continue };
        if section != last {
            let _ = write!(text, "\n[{section}]\n");
            last = section;
        }
        let is_bare = value.parse::<bool>().is_ok() || value.parse::<i64>().is_ok_and(|it| it.to_string() == value);
        let _ = writeln!(text, "{name} = {}", if is_bare { value.to_owned() } else { quoted(value) });
    }
    text
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::matrix::variants;
    use super::super::{comparison::names, figures::figures, tests::run};
    use super::*;
    use crate::preset::{Overrides, Preset, diff, resolve};

    fn preset(name: &str) -> Variant {
        variants(&[name.to_owned()], &[], &[]).expect("built in").remove(0)
    }

    /// Three rounds of `ingest` and the variants, with their shares of its time.
    fn report(variants: &[(Variant, f64)]) -> BenchReport {
        let mut report = crate::report::bench::tests::report();
        let all = std::iter::once((preset("ingest"), 1.0)).chain(variants.iter().cloned());
        report.variants = all.clone().map(|(variant, _)| variant).collect();
        report.runs = [8.0, 8.1, 7.9]
            .iter()
            .zip(0..)
            .flat_map(|(seconds, round)| {
                all.clone().map(move |(variant, share)| run(&variant.name, round, seconds * share, 1.0))
            })
            .collect();
        report.figures = figures(&names(&report.variants), "ingest", 0.05, &report.runs);
        report
    }

    #[test]
    fn candidates_change_the_preset() {
        for (name, some, none) in [
            ("ingest", ["ingest block_size=4K", "ingest sst_size=64M"], ["ingest block_size=16K", "write_buffer"]),
            ("memtable", ["memtable block_size=4K", "memtable write_buffer_size=64M"], ["sst_size", "ingest.threads"]),
        ] {
            let names: Vec<String> =
                candidates(&preset(name)).expect("built in").into_iter().map(|variant| variant.name).collect();
            assert!(some.iter().all(|wanted| names.contains(&(*wanted).to_owned())), "{names:?}");
            assert!(!names.iter().any(|name| none.iter().any(|part| name.contains(part))), "{names:?}");
        }
    }

    #[test]
    fn fastest_values_are_combined() {
        let start = preset("ingest");
        let with = |option: &str, value: &str, share: f64| (start.with(option, value).expect("an option"), share);
        let all = [
            with("node.table.block_size", "32K", 0.9),
            with("node.table.block_size", "64K", 0.8),
            with("load.ingest.sst_size", "64M", 0.85),
            with("load.ingest.threads", "2", 1.1),
            with("node.cf.compression", "kZSTD", 0.999),
        ];
        let mut search = report(&all);
        search.runs.iter_mut().filter(|run| run.variant.ends_with("kZSTD") && run.round == 0).for_each(|run| {
            run.process.as_mut().expect("ran").seconds *= 1.2;
        });
        search.figures = figures(&names(&search.variants), "ingest", 0.05, &search.runs);
        let combined = combine(&start, &search).expect("three are faster");
        assert_eq!(combined.name, "ingest block_size=64K sst_size=64M");
        assert_eq!(combine(&start, &report(&all[3..4])), None);
    }

    #[test]
    fn preset_file_has_the_combined_options() {
        let start = preset("ingest");
        let combined = [
            ("load.ingest.sst_size", "64M"),
            ("node.table.block_size", "32K"),
            ("node.table.data_block_index_type", "kDataBlockBinaryAndHash"),
        ]
        .iter()
        .fold(start.clone(), |variant, (option, value)| variant.with(option, value).expect("an option"));
        let report = report(&[(combined.clone(), 0.9)]);
        let ratio = faster(&report, &combined.name).expect("shown");
        let text = preset_text(&start, &combined, &ratio, &report);
        insta::assert_snapshot!("preset_file", text);
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mine.toml");
        std::fs::write(&path, &text).expect("room");
        let tuned = resolve(&Preset::from_file(&path).expect("a preset"), &Overrides::default()).expect("valid");
        let changed: Vec<String> = diff(&start.resolve().expect("built in"), &tuned)
            .iter()
            .map(|it| format!("{}={}", it.option, it.b))
            .collect();
        assert_eq!(
            changed,
            [
                "load.ingest.sst_size=67108864",
                "node.table.block_size=32768",
                "node.table.data_block_index_type=kDataBlockBinaryAndHash"
            ]
        );
    }
}
