//! Parsers of option values.

use crate::bench::ARGUMENTS;
use crate::blocks::chain::Id;
use crate::load::Indexes;
use crate::os::files::read_regular;
use crate::preset::Preset;
use crate::preset::registry::{ROWS, Scope};
use crate::rocks::options;
use crate::sort::shard::{MAX_SHARDS, Shard};
use clap::builder::{PossibleValue, PossibleValuesParser, RangedI64ValueParser, StringValueParser, TypedValueParser};

pub use crate::text::size::parse as bytes;

pub fn threads() -> RangedI64ValueParser<usize> {
    RangedI64ValueParser::new().range(1..=crate::parallel::MAX_THREADS as i64)
}

/// One of some values, by name.
pub fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.map(|(name, _)| name)).try_map(move |name| {
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
    let of_rocksdb = options::defaults()
        .iter()
        .flat_map(|(group, name, _)| ["load", "node"].map(|stage| format!("{stage}.{}.{name}=", Scope::from(group))));
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

/// Parses a shard as `I/N`.
pub fn shard(text: &str) -> Result<Shard, String> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let shard = text.split_once('/').and_then(|(number, of)| Shard::new(digits(number)?, digits(of)?));
    shard.ok_or_else(|| format!("the shards of 16 are 0/16 to 15/16, and there can be {MAX_SHARDS}"))
}

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
    fn shards_are_counted_from_0() {
        assert_eq!(shard("0/16"), Ok(Shard { number: 0, of: 16 }));
        assert_eq!(shard("15/16"), Ok(Shard { number: 15, of: 16 }));
        let outside = ["16/16", "0/0", "0/65537", "0/99999999999"];
        for text in ["", "3", "1/", "/4", "a/4", "-1/4", "+1/4", "1/4/8", "auto/4"].iter().chain(&outside) {
            assert!(shard(text).expect_err(text).starts_with("the shards of 16 are 0/16 to 15/16"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn block_has_its_number_or_is_refused(text in "[0-9a-f:]{0,80}|.{0,20}") {
            if let Ok((number, id)) = block(&text) {
                prop_assert_eq!(id.number(), number);
            }
        }
    }
}
