//! Compares a preset with the same preset where one option has its default, for each option that the preset changes.

use super::comparison::{BenchObserver, compare, prepare};
use super::options::BenchOptions;
use crate::error::{Error, Result};
use crate::preset::{Origin, explain};
use crate::report::bench::{BenchReport, Variant};

/// Compares the first preset of `options` with its ablations.
///
/// # Errors
/// Those of [`super::bench()`]; [`Error::Usage`]: the preset has only defaults.
pub fn ablate(options: &BenchOptions, observer: &dyn BenchObserver) -> Result<BenchReport> {
    let (options, mut variants, mut snapshot) = prepare(options)?;
    variants.truncate(1);
    let (ablations, left_out) = ablations(variants.first().expect("prepare() rejects an empty list"))?;
    if ablations.is_empty() {
        let reason = format!("`{}` has no option that --ablate can set to its default", options.presets.join(","));
        return Err(Error::usage(reason, "name another preset; `bedload presets explain` shows the options of one"));
    }
    variants.extend(ablations);
    let why = "their defaults are rejected with the other options, or change nothing";
    let note = (!left_out.is_empty()).then(|| format!("left out, because {why}: {}", left_out.join(", ")));
    compare(&options, variants, note.into_iter().collect(), &mut snapshot, observer)
}

/// Returns a variant for each option that the preset changes, and the options whose default cannot be compared. The
/// overrides of `--set` are the same in all variants.
fn ablations(preset: &Variant) -> Result<(Vec<Variant>, Vec<String>)> {
    let start = preset.resolve()?;
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    let rows = explain(&start).options.into_iter();
    for row in rows.filter(|row| !matches!(row.from, Origin::Override(_))) {
        let option = row.option.to_string();
        let mut variant = preset.with(&option, &row.default)?;
        // An option of both stages has the same short name twice.
        variant.name = format!("{}, {option}={}", preset.name, row.default);
        match variant.changes(&start) {
            true => found.push(variant),
            false => left_out.push(option),
        }
    }
    Ok((found, left_out))
}

#[cfg(test)]
mod tests {
    use super::super::{comparison::names, matrix::variants};
    use super::*;
    use crate::preset::diff;

    #[test]
    fn ablations_differ_in_one_option() {
        let set = ["node.cf.compression=kNoCompression".to_owned()];
        let preset = variants(&["forest-point-lookup-256".to_owned()], &set, &[]).expect("built in").remove(0);
        let (all, left_out) = ablations(&preset).expect("built in");
        let expected = [
            "load.cf.compaction_style=kCompactionStyleLevel",
            "load.cf.disable_auto_compactions=false",
            "load.write.batch_count=4096",
            "load.compaction.max_subcompactions=0",
            "node.db.max_open_files=-1",
            "node.cf.memtable_prefix_bloom_size_ratio=0.000000",
            "node.cf.memtable_whole_key_filtering=false",
            "node.table.block_cache=33554432",
            "node.table.data_block_index_type=kDataBlockBinarySearch",
            "node.table.filter_policy=nullptr",
        ];
        assert_eq!(names(&all), expected.map(|option| format!("forest-point-lookup-256, {option}")));
        assert_eq!(left_out, [""; 0]);
        let start = preset.resolve().expect("built in");
        for (variant, option) in all.iter().zip(expected) {
            let changed = diff(&start, &variant.resolve().expect("it resolved before"));
            let changed: Vec<String> = changed.iter().map(|it| format!("{}={}", it.option, it.b)).collect();
            assert_eq!(changed, [option]);
        }
    }

    #[test]
    fn rejected_default_is_left_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("partitioned.toml");
        let text = "base = \"ingest\"\nname = \"partitioned\"\n[node.table]\nindex_type = [\"kTwoLevelIndexSearch\", \"a test\"]\n\
                    partition_filters = [true, \"a test\"]\n";
        std::fs::write(&path, text).expect("written");
        let preset = variants(&[path.display().to_string()], &[], &[]).expect("good").remove(0);
        assert_eq!(ablations(&preset).expect("good").1, ["node.table.index_type"]);
    }
}
