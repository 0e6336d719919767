//! Reading option values.

use bedload::size;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A size such as `64M` or `1.5GiB`, in bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    size::parse(text).map_err(|error| error.to_string())
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
