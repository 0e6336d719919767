//! Parsers of option values.

use std::time::Duration;

use crate::bench::ARGUMENTS;
use crate::blocks::chain::Id;
use crate::load::Indexes;
use crate::os::files::read_regular;
use crate::preset::Preset;
use crate::preset::registry::{ROWS, Scope};
use crate::rocks::options;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};

pub use crate::text::size::parse as bytes;

/// A percentage such as `5`, `2.5` or `5%` of more than 0 and at most 100, as a share.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let share = number.ok().filter(|it| *it > 0.0 && *it <= 100.0).map(|it| it / 100.0);
    share.ok_or_else(|| format!("`{text}` is not a percentage above 0 and up to 100: write it as 5 or 2.5"))
}

/// A time of whole seconds, such as `45s`, `90m`, `1h30m` or `2d`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| time.as_secs() > 0 && time.subsec_nanos() == 0);
    time.ok_or_else(|| format!("`{text}` is not a time: write it as 45s, 90m or 1h30m"))
}

/// One of a fixed list of values.
pub fn one_of<T: Copy + Send + Sync + 'static>(
    values: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = values.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| {
        values.iter().find(|(known, _)| *known == name).map(|(_, value)| *value).ok_or("not one of the values")
    })
}

/// Any text; completions offer these names.
#[derive(Clone)]
struct Hinted(fn() -> Vec<String>);

impl TypedValueParser for Hinted {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

/// A preset: a name that completions offer, or a file.
pub fn preset() -> impl TypedValueParser<Value = String> {
    Hinted(|| Preset::builtin_names().map(str::to_owned).collect())
}

/// `--set`: completions offer every option with its scope.
pub fn assignment() -> impl TypedValueParser<Value = String> {
    Hinted(option_names)
}

/// `--set` and `--vary` of a comparison: completions offer the import's own arguments as well.
pub fn of_variant() -> impl TypedValueParser<Value = String> {
    Hinted(|| {
        let arguments = ARGUMENTS.iter().map(|argument| format!("{argument}="));
        option_names().into_iter().chain(arguments).collect()
    })
}

/// Every option that a preset may set, as `node.table.block_size=`.
fn option_names() -> Vec<String> {
    let of_rocksdb = options::defaults().ok().into_iter().flat_map(|all| {
        all.iter().flat_map(|(group, name, _)| {
            ["load", "node"].map(|stage| format!("{stage}.{}.{name}=", Scope::from(group)))
        })
    });
    let own = ROWS.iter().flat_map(|row| {
        let stages = if row.in_node { &["load", "node"][..] } else { &["load"] };
        stages.iter().map(|stage| format!("{stage}.{}.{}=", row.scope, row.name))
    });
    let names: std::collections::BTreeSet<String> = of_rocksdb.chain(own).collect();
    names.into_iter().collect()
}

/// Parses `--indexes`: a list of `ids` and `transactions`, or `none`.
pub fn indexes(text: &str) -> Result<Indexes, String> {
    let mut indexes = Indexes::NONE;
    for name in text.split(',').filter(|_| text != "none") {
        match name {
            "ids" => indexes.ids = true,
            "transactions" => indexes.transactions = true,
            _ => return Err("write ids, transactions, both with a comma between them, or none".into()),
        }
    }
    Ok(indexes)
}

/// The most bytes of a file of checkpoints.
const MAX_CHECKPOINTS: u64 = 64 << 20;

/// Blocks that must have certain ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoints(pub Vec<(u32, Id)>);

/// A block as `NUM:ID`.
pub fn block(text: &str) -> Result<(u32, Id), String> {
    let (number, id) = text.split_once(':').ok_or("give a block as NUM:ID")?;
    let number = number.trim().parse().map_err(|_| format!("`{number}` is not a block number"))?;
    let id: Id = id.trim().parse().map_err(|error| format!("{error}"))?;
    if id.number() != number {
        return Err(format!("this is the id of block {}", id.number()));
    }
    Ok((number, id))
}

/// One block, or the path of a file with one a line; empty lines and lines that begin with `#` are ignored.
pub fn checkpoints(text: &str) -> Result<Checkpoints, String> {
    let path = std::path::Path::new(text);
    if !path.exists() {
        return block(text).map(|block| Checkpoints(vec![block]));
    }
    let bytes = read_regular(path, MAX_CHECKPOINTS).map_err(|error| format!("cannot read {text}: {error}"))?;
    let lines = String::from_utf8(bytes).map_err(|_| format!("{text} is not a text file"))?;
    let lines = lines.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let blocks = lines.map(|(number, line)| block(line).map_err(|error| format!("line {}: {error}", number + 1)));
    blocks.collect::<Result<_, _>>().map(Checkpoints)
}

/// Parses the id of a bundle.
pub fn bundle_id(text: &str) -> Result<String, String> {
    match crate::bundle::is_sum(text) {
        true => Ok(text.to_owned()),
        false => Err("it must be 64 hex digits, as `bedload bundle` prints it".into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in
            [("45s", 45), ("90m", 5400), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400), (" 1h ", 3600)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "45", "m", "1h30", "0s", "-1s", "1500ms", "99999999999999999999s", "9999999999999999999d", "1x"]
        {
            assert!(duration(text).expect_err(text).contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn percentages_are_shares() {
        for (text, share) in [("5", 0.05), ("2.5%", 0.025), ("100", 1.0)] {
            assert_eq!(percent(text), Ok(share), "{text}");
        }
        for text in ["", "0", "-1", "101", "NaN", "inf", "five"] {
            assert!(percent(text).expect_err(text).contains("is not a percentage"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn time_of_whole_seconds_or_refused(text in "[0-9smhd ]{0,30}|[0-9]{1,20}[smhd]|.{0,12}") {
            match duration(&text) {
                Ok(time) => prop_assert!(time.as_secs() > 0 && time.subsec_nanos() == 0),
                Err(why) => prop_assert!(why.contains("is not a time")),
            }
        }

        #[test]
        fn parts_of_a_time_add_up(days in 0u64..1000, hours in 0u64..1000, minutes in 0u64..1000, seconds in 1u64..1000) {
            let time = duration(&format!("{days}d{hours}h{minutes}m{seconds}s"));
            prop_assert_eq!(time, Ok(Duration::from_secs(((days * 24 + hours) * 60 + minutes) * 60 + seconds)));
        }

        #[test]
        fn block_has_its_number_or_is_refused(text in "[0-9a-f:]{0,80}|.{0,20}") {
            if let Ok((number, id)) = block(&text) {
                prop_assert_eq!(id.number(), number);
            }
        }
    }
}
