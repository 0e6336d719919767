//! Refuses options that have no effect, before an import begins.

use std::path::Path;

use crate::error::{Error, Result, StateKind};
use crate::load::options::{Duplicates, F3Data, Format, ImportOptions, Links, LogOptions, PlanChoice};
use crate::os::file_system::FileSystem;
use crate::os::files::{check_parent, resolved};
use crate::preset::{Loader, Resolved};
use crate::rocks::is_database;
use crate::sort::KeyLayout;
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding};

/// Refuses to leave out the final compaction where there is none.
pub(in crate::load) fn check_final_compaction(options: &ImportOptions, preset: &Resolved) -> Result<()> {
    if preset.loader == Loader::Memtable || options.into_existing || preset.final_compaction() {
        return Ok(());
    }
    let reason = format!(
        "`load.compaction.final` = `false` has no effect: preset `{}` compacts nothing, its files arrive at the last level",
        preset.preset
    );
    Err(Error::usage(reason, "leave it out, or choose a preset of the memtable loader, e.g. --preset memtable"))
}

fn refuse(reason: &str, is_met: bool, hint: &str) -> Result<()> {
    if is_met { Err(Error::usage(reason, hint)) } else { Ok(()) }
}

/// Refuses options that have no effect on a block log, or are impossible with one.
pub(in crate::load) fn check_block_log(options: &ImportOptions) -> Result<()> {
    check_has_no_record_options(options, "a block log")?;
    let log = &options.log;
    refuse("cannot add a block log to an existing database", options.into_existing, "import it into a new one")?;
    refuse(
        "a key layout or column family has no effect on a block log: blocks are stored in `default`, by number",
        options.given_key.is_some() || options.key != KeyLayout::Cid || options.column_family != "default",
        "leave them out",
    )?;
    refuse(
        "null padding and a limit of block sizes have no effect on a block log",
        options.null_padding != NullPadding::Error || options.max_block_size != DEFAULT_MAX_BLOCK,
        "leave them out",
    )?;
    let hint = "leave it out; a range of numbers takes a part of a log";
    refuse("a filter has no effect on a block log", options.filter.is_some(), hint)?;
    let is_chosen = options.f3 != F3Data::Store;
    refuse("the choice of F3 data has no effect on a block log: it has no F3 data", is_chosen, "leave it out")?;
    refuse(
        "the check of links has no effect on a block log: a log has no roots, and each block must follow the previous block",
        options.links != Links::Ignore,
        "leave --links out",
    )?;
    let hint = "leave --shard out; --from and --to take a part of a log";
    let reason = "a block log has no shards: its blocks are stored by number, in their order";
    refuse(reason, options.shard.is_some(), hint)?;
    let is_chosen = options.plan != PlanChoice::Auto;
    refuse("a plan has no effect on a block log: nothing is sorted", is_chosen, "leave it out")?;
    let both = log.links_only && !options.verify;
    refuse("verifying nothing and verifying links exclude each other", both, "give one of them")?;
    let is_reversed = log.from.zip(log.to).is_some_and(|(from, to)| from > to);
    refuse("the first block is after the last block", is_reversed, "swap the two values")?;
    refuse(
        "a checksum is of all bytes, and a log with a last block is not read to its end",
        log.to.is_some() && options.checksum.is_some(),
        "leave one of them out; --expect-head says what the last block must be",
    )?;
    let selected = log.from.unwrap_or(0)..=log.to.unwrap_or(u32::MAX);
    let mut pinned = log.checkpoints.iter().chain(&log.expect_head);
    pinned.find(|(number, _)| !selected.contains(number)).map_or(Ok(()), |(number, _)| {
        let reason = format!("block {number} is expected to have an id, and is outside of the chosen blocks");
        Err(Error::usage(reason, "leave it out, or import a longer range"))
    })
}

/// Refuses options that only a RocksDB database as the source has.
pub(in crate::load) fn check_has_no_database_options(options: &ImportOptions) -> Result<()> {
    if options.families.len() > 1 || !options.skipped_families.is_empty() || options.sample.is_some() {
        let reason = "only RocksDB databases have samples, and families to choose or to skip";
        return Err(Error::usage(reason, "name at most one column family, and skip none"));
    }
    Ok(())
}

/// Checks the place of a replaced database that is kept.
pub(in crate::load) fn check_keep_old(options: &ImportOptions, db: &Path) -> Result<()> {
    let Some(place) = &options.keep_old else { return Ok(()) };
    if !options.replace {
        return Err(Error::usage("only a replaced database can be kept", "add --replace, or leave --keep-old out"));
    }
    let found = resolved(place);
    let is_reserved = found.iter().any(|name| name.as_encoded_bytes().ends_with(b".partial"));
    if is_reserved || found.ancestors().skip(1).any(is_database) {
        let reason = format!("{} is in a database, or of an unfinished import (.partial)", place.display());
        return Err(Error::usage(reason, "give --keep-old a directory outside of all databases"));
    }
    check_parent(place)?;
    if place.symlink_metadata().is_ok() {
        return Err(Error::state(place, StateKind::Exists, "already exists", "give --keep-old another name"));
    }
    if FileSystem::of(place)?.device != FileSystem::of(db)?.device {
        let reason = format!("{} is on another file system than the database", place.display());
        return Err(Error::usage(reason, "give --keep-old a name on the same file system"));
    }
    Ok(())
}

/// Refuses options that have no effect on a database that is copied.
pub(in crate::load) fn check_database(options: &ImportOptions) -> Result<()> {
    check_keeps_records(options, "a RocksDB database")?;
    let is_met =
        options.format != Format::Auto || options.max_block_size != DEFAULT_MAX_BLOCK || options.checksum.is_some();
    let reason = "a format, a limit of block sizes or a checksum has no effect on a RocksDB database";
    refuse(reason, is_met, "leave it out: a database is copied with the keys and values that it has")?;
    check_has_no_record_options(options, "a RocksDB database")
}

/// Refuses options that have no effect on streams of records, or are impossible with them.
pub(in crate::load) fn check_records(options: &ImportOptions, preset: &Resolved) -> Result<()> {
    check_keeps_records(options, "a stream of records")?;
    let hint = "give --preset one of those that ingest (`bedload presets`)";
    refuse("streams of records are not written through memtables", preset.loader != Loader::Ingest, hint)?;
    refuse("a column family has a name", options.column_family.is_empty(), "name the column family of the dump")
}

/// Refuses options that have no effect on records whose keys and values are kept.
fn check_keeps_records(options: &ImportOptions, source: &str) -> Result<()> {
    let hint = "leave it out: keys and values are stored as they are";
    let useless = |option: &str, is_met: bool| refuse(&format!("{option} has no effect on {source}"), is_met, hint);
    useless("a key layout", options.given_key.is_some())?;
    useless("the choice of what is verified", !options.verify || options.log.links_only)?;
    useless("null padding", options.null_padding != NullPadding::Error || options.concatenated)?;
    useless("a filter", options.filter.is_some())?;
    useless("the choice of F3 data", options.f3 != F3Data::Store)?;
    useless("the check of links", options.links != Links::Ignore)?;
    useless("a shard", options.shard.is_some())?;
    useless("a plan or a work directory", options.plan != PlanChoice::Auto || options.work_dir.is_some())?;
    useless("an option of block logs", options.log != LogOptions::default())?;
    let hint = "import it into a new one; streams can be imported together, also the `ldb --hex dump` of a database";
    refuse(&format!("cannot add {source} to an existing database"), options.into_existing, hint)
}

/// Refuses options of streams of records.
fn check_has_no_record_options(options: &ImportOptions, source: &str) -> Result<()> {
    let reason = format!("the treatment of duplicates and trailers has no effect on {source}");
    let is_met = options.duplicates != Duplicates::Same || options.allow_no_trailer;
    refuse(&reason, is_met, "leave --duplicates and --allow-no-trailer out")
}

/// Refuses options of block logs for a valid CAR; a damaged log is never taken for one.
pub(in crate::load) fn check_has_no_log_options(options: &ImportOptions) -> Result<()> {
    let hint = "omit them, or pass --format block-log if the source is a block log";
    let refused = || Error::usage("the source is a CAR, but options for block logs are given", hint);
    if options.log == LogOptions::default() { Ok(()) } else { Err(refused()) }
}

/// Refuses options that have no effect on a CAR with this loader.
pub(in crate::load) fn check_car(options: &ImportOptions, loader: Loader) -> Result<()> {
    check_has_no_record_options(options, "a CAR")?;
    let (is_shard, is_memtable) = (options.shard.is_some(), loader == Loader::Memtable);
    let hint = "leave --column-family out for RocksDB's own, `default`";
    refuse("a column family has a name", options.column_family.is_empty(), hint)?;
    let is_foreign = matches!(options.key, KeyLayout::Number | KeyLayout::Any);
    refuse("a CAR has no such keys", is_foreign, "choose the CID, its multihash or its digest")?;
    let has_nul = options.column_family.contains('\0');
    refuse("the name of a column family cannot contain a NUL byte", has_nul, "choose another name")?;
    // Each CAR in the file has metadata of its own.
    refuse(
        "F3 data cannot be skipped in CARs that are joined in one file",
        options.concatenated && options.f3 != F3Data::Store,
        "leave one of --f3 and --concatenated out, or import the CARs as files of their own",
    )?;
    refuse(
        "the check of links needs all blocks, and a shard has only some",
        is_shard && options.links.are_followed(),
        "leave --links out, and follow the links in a seeded database: `bedload walk`",
    )?;
    let both = is_shard && options.into_existing;
    refuse("a shard needs a database of its own", both, "leave --into-existing out")?;
    refuse(
        "a shard is not possible with the memtable loader: no bundle takes what it writes",
        is_shard && is_memtable,
        "choose a preset of the ingest loader, e.g. --preset ingest",
    )?;
    refuse(
        "a plan has no effect with the memtable loader: RocksDB sorts",
        is_memtable && options.plan != PlanChoice::Auto,
        "leave it out, or choose a preset of the ingest loader, e.g. --preset ingest",
    )
}

/// Checks that files are built that a bundle takes.
pub(super) fn check_published(loader: Loader) -> Result<()> {
    let reason = "a bundle is not possible with the memtable loader: no database ingests the files that RocksDB makes";
    let hint = "give --preset one of those that ingest (`bedload presets list`)";
    if loader == Loader::Ingest { Ok(()) } else { Err(Error::usage(reason, hint)) }
}
