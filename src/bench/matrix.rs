//! The variants of a comparison: presets, times every combination of the values that vary.

use crate::error::{Error, Result};
use crate::preset::{self, Overrides, Preset, Resolved};
use crate::report::bench::Variant;
use crate::rocks::option_map::Group;
use crate::text::size;

/// The most variants of one comparison.
const MAX_VARIANTS: usize = 256;

/// Arguments of the import that `--set` and `--vary` take, by their names without a dot.
pub const ARGUMENTS: [&str; 7] = ["memory", "threads", "plan", "key", "verify", "column-family", "max-block-size"];

/// RocksDB's default block cache, in bytes.
const DEFAULT_BLOCK_CACHE: u64 = 32 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// `stage.scope.option`, or an argument of the import.
    key: String,
    values: Vec<String>,
}

impl Vary {
    /// Parses `load.cf.write_buffer_size=32M,64M,256M`.
    ///
    /// # Errors
    /// [`Error::Usage`]: it has no name or no value.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || Error::Usage {
            reason: format!("`--vary {text}` names no option or no values"),
            hint: "write it as --vary load.cf.write_buffer_size=32M,64M,256M".into(),
        };
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let values: Vec<String> = values.split(',').map(|value| value.trim().to_owned()).collect();
        if key.trim().is_empty() || values.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// Returns every preset with every combination of the values that vary, and with `set`.
///
/// # Errors
/// [`Error::Usage`]: no variant, too many, the same twice, or an unknown argument; [`Error::Preset`] or [`Error::Io`]: as
/// [`Variant::resolve`].
pub(super) fn variants(presets: &[String], set: &[String], vary: &[Vary]) -> Result<Vec<Variant>> {
    let preset = |name: &String| {
        let mut variant = Variant { name: name.clone(), preset: name.clone(), ..Variant::default() };
        set.iter().try_for_each(|assignment| variant.add(assignment)).map(|()| variant)
    };
    let mut all: Vec<Variant> = presets.iter().map(preset).collect::<Result<_>>()?;
    for Vary { key, values } in vary {
        let pairs = all.iter().flat_map(|variant| values.iter().map(move |value| (variant, value)));
        all = pairs.map(|(variant, value)| variant.with(key, value)).collect::<Result<_>>()?;
        if all.len() > MAX_VARIANTS {
            let hint = format!("compare up to {MAX_VARIANTS} at once: name fewer --presets or --vary fewer values");
            return Err(Error::usage(format!("these are {} variants or more", all.len()), hint));
        }
    }
    for (index, variant) in all.iter().enumerate() {
        if all.iter().take(index).any(|other| other.name == variant.name) {
            let reason = format!("`{}` is given twice", variant.name);
            return Err(Error::usage(reason, "name each preset and each value once"));
        }
    }
    if all.is_empty() {
        let reason = "there is nothing to compare";
        return Err(Error::usage(reason, "name presets: --presets ingest,memtable (`bedload presets list` has all)"));
    }
    for variant in &mut all {
        let resolved = variant.resolve()?;
        (variant.summary, variant.loader) = (resolved.summary, resolved.loader.to_string());
    }
    Ok(all)
}

impl Variant {
    fn add(&mut self, assignment: &str) -> Result<()> {
        let (name, has_value) = assignment.split_once('=').map_or((assignment, false), |(name, _)| (name, true));
        let list = match name.trim() {
            name if name.contains('.') => &mut self.set,
            name if has_value && ARGUMENTS.contains(&name) => &mut self.arguments,
            _ => {
                let reason = format!(
                    "`{assignment}` is neither an option (stage.scope.option=value) nor an argument of the import"
                );
                return Err(Error::usage(reason, format!("without dots there are: {}", ARGUMENTS.join(", "))));
            }
        };
        list.push(assignment.to_owned());
        Ok(())
    }

    /// Returns the variant with one more value, which becomes a part of its name.
    pub(super) fn with(&self, key: &str, value: &str) -> Result<Self> {
        let mut variant = self.clone();
        variant.name = format!("{} {}={value}", self.name, key.rsplit('.').next().unwrap_or(key));
        variant.add(&format!("{key}={value}"))?;
        Ok(variant)
    }

    /// Resolves the preset or OPTIONS file with the options on top of it, and checks them with RocksDB.
    ///
    /// # Errors
    /// [`Error::Preset`], [`Error::Usage`] or [`Error::Io`]: there is no such preset, or RocksDB rejects a value.
    pub(super) fn resolve(&self) -> Result<Resolved> {
        let file = preset::options_file(&self.preset);
        let preset = match &file {
            Some(file) => Preset::for_options_file(file, Some(&Preset::builtin(preset::DEFAULT)?)),
            None => Preset::find(&self.preset)?,
        };
        // Options of one column family are for the import.
        let set = self.set.iter().filter(|set| !set.starts_with("cf.")).cloned().collect();
        let overrides = Overrides { set, options_file: file, keeps_order: true, ..Overrides::default() };
        preset::resolve(&preset, &overrides)
    }

    /// True if the variant resolves, with other options than `start`.
    pub(super) fn changes(&self, start: &Resolved) -> bool {
        self.resolve().is_ok_and(|changed| !preset::diff(start, &changed).is_empty())
    }

    /// Returns the arguments of `bedload import`.
    pub(super) fn words(&self) -> Vec<String> {
        let is_file = preset::options_file(&self.preset).is_some();
        let mut words = vec![if is_file { "--options-file" } else { "--preset" }.to_owned(), self.preset.clone()];
        words.extend(self.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        let arguments = self.arguments.iter().filter_map(|argument| argument.split_once('='));
        words.extend(arguments.flat_map(|(name, value)| [format!("--{}", name.trim()), value.trim().to_owned()]));
        words
    }
}

/// Returns the size of a node's block cache with these options, in bytes.
pub(super) fn block_cache(resolved: &Resolved) -> u64 {
    let map = resolved.node();
    let named = map.get(Group::Table, "block_cache").and_then(|value| size::parse(value).ok());
    named.unwrap_or(DEFAULT_BLOCK_CACHE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_variants(presets: &[&str], set: &[&str], vary: &[&str]) -> Result<Vec<Variant>> {
        let strings = |list: &[&str]| list.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        let vary: Result<Vec<Vary>> = vary.iter().map(|text| Vary::parse(text)).collect();
        variants(&strings(presets), &strings(set), &vary?)
    }

    #[test]
    fn varied_values_multiply_the_variants() {
        let vary = ["node.table.block_size=4K,16K", "memory=1G,2G"];
        let all = try_variants(&["ingest", "memtable"], &["node.cf.num_levels=7"], &vary).expect("good");
        let names: Vec<&str> = all.iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(
            &names[..3],
            ["ingest block_size=4K memory=1G", "ingest block_size=4K memory=2G", "ingest block_size=16K memory=1G"]
        );
        assert_eq!(
            all[7].words().join(" "),
            "--preset memtable --set node.cf.num_levels=7 --set node.table.block_size=16K --memory 2G"
        );
    }

    #[test]
    fn unusable_variants_are_refused() {
        let many = format!("threads={}", (0..300).map(|number| number.to_string()).collect::<Vec<_>>().join(","));
        for (presets, set, vary, message) in [
            (&[][..], &[][..], "", "there is nothing to compare"),
            (&["ingest", "ingest"], &[], "", "`ingest` is given twice"),
            (&["ingest"], &[], "memory=1G,1G", "`ingest memory=1G` is given twice"),
            (&["ingest"], &[], "memory", "`--vary memory` names no option or no values"),
            (&["ingest"], &[], "memory=1G,", "`--vary memory=1G,` names no option or no values"),
            (
                &["ingest"],
                &["colour=red"],
                "",
                "`colour=red` is neither an option (stage.scope.option=value) nor an argument of the import",
            ),
            (&["ingest"], &[], &many, "these are 300 variants or more"),
        ] {
            let vary: Vec<&str> = [vary].into_iter().filter(|vary| !vary.is_empty()).collect();
            assert_eq!(try_variants(presets, set, &vary).expect_err(message).to_string(), message);
        }
    }

    #[test]
    fn block_cache_is_from_the_preset() {
        for (preset, mib) in [("ingest", 32), ("forest-point-lookup-256", 256)] {
            let all = try_variants(&[preset], &[], &[]).expect("one");
            assert_eq!(block_cache(&all[0].resolve().expect("built in")), mib << 20);
        }
    }
}
