//! The merge operators of databases: those of RocksDB, which it makes from the text of an OPTIONS file, and those of programs.

use std::path::Path;

use rust_rocksdb::{MergeOperands, Options};

use super::store::build;
use super::{Group, OptionMap, OptionsFile, field_of};
use crate::error::Result;

/// The merge operators of RocksDB, as OPTIONS files name them.
const MERGE_OPERATORS: [&str; 7] = [
    "BytesXOR",
    "MaxOperator",
    "MergeSortOperator",
    "PutOperator",
    "StringAppendOperator",
    "StringAppendTESTOperator",
    "UInt64AddOperator",
];

/// The beginning of the names of operators with a delimiter.
const APPEND: &str = "StringAppend";

/// The name of an operator that merges nothing.
const UNKNOWN: &str = "unknown";

/// Makes reading an operand fail. Without an operator, RocksDB drops the WAL from the first operand on, and reports nothing, or
/// crashes.
pub(super) fn refuse_operands(options: &mut Options) {
    options.set_merge_operator(
        UNKNOWN,
        |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| None,
        |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| None,
    );
}

/// The options that reading the records of a column family needs. Operands of a foreign operator cannot be read. `path` is
/// named in errors.
pub(super) fn reading_options(path: &Path, comparator: Option<&str>, operator: Option<&str>) -> Result<Options> {
    let (mut map, operator) = (OptionMap::default(), operator.filter(|operator| is_readable(operator)));
    comparator.iter().for_each(|name| map.set(Group::Cf, "comparator", *name));
    operator.iter().for_each(|operator| map.set(Group::Cf, "merge_operator", *operator));
    let mut options = build(path, &map)?;
    if operator.is_none() {
        refuse_operands(&mut options);
    }
    Ok(options)
}

/// True if the OPTIONS file names an operator that RocksDB does not make.
pub(super) fn is_foreign(file: &OptionsFile, family: &str) -> bool {
    let lines = file.family(family).map(|family| family.cf.as_slice()).unwrap_or_default();
    let operator = lines.iter().rfind(|line| line.name == "merge_operator").map(|line| line.value.as_str());
    operator.is_some_and(|operator| !["nullptr", ""].contains(&operator) && !is_readable(operator))
}

/// True if RocksDB has an operator of this name.
pub(super) fn is_of_rocksdb(operator: &str) -> bool {
    MERGE_OPERATORS.contains(&id_of(operator).as_str())
}

/// Returns the id of an object: OPTIONS files have `name`, or `{id=name;option=value;}`.
pub(super) fn id_of(text: &str) -> String {
    field_of(text, "id").unwrap_or(text).to_owned()
}

/// True if RocksDB makes the operator from the text of an OPTIONS file. The text has special characters of a delimiter in several
/// forms, and no spaces at its end.
pub(super) fn is_readable(operator: &str) -> bool {
    let name = id_of(operator);
    let is_plain = |delimiter: &str| {
        delimiter.bytes().all(|byte| byte.is_ascii_graphic() && !b";:\\{}=#".contains(&byte))
            && operator.contains(&format!("delimiter={delimiter};"))
    };
    let delimiter = || field_of(operator, "delimiter").filter(|delimiter| !delimiter.is_empty());
    is_of_rocksdb(operator) && (!name.starts_with(APPEND) || delimiter().is_some_and(is_plain))
}
