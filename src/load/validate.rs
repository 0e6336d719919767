//! Refuses options that have no effect, before an import begins.

use crate::error::{Error, Result};
use crate::load::options::{F3Data, ImportOptions, Links, LogOptions, PlanChoice};
use crate::preset::{Loader, Resolved};
use crate::sort::key::KeyLayout;
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

/// Refuses options that have no effect on a block log, or are impossible with one.
pub(in crate::load) fn check_block_log(options: &ImportOptions) -> Result<()> {
    let usage = |reason: &str, hint: &str| Err(Error::usage(reason, hint));
    let log = &options.log;
    if options.into_existing {
        return usage("cannot add a block log to an existing database", "import it into a new one");
    }
    if options.key != KeyLayout::Cid || options.column_family != "default" {
        return usage(
            "a key layout or column family has no effect on a block log: blocks are stored in `default`, by number",
            "leave them out",
        );
    }
    if options.null_padding != NullPadding::Error || options.max_block_size != DEFAULT_MAX_BLOCK {
        return usage("null padding and a limit of block sizes have no effect on a block log", "leave them out");
    }
    if options.filter.is_some() {
        return usage(
            "a filter has no effect on a block log",
            "leave it out; a range of numbers takes a part of a log",
        );
    }
    if options.f3 != F3Data::Store {
        return usage("the choice of F3 data has no effect on a block log: it has no F3 data", "leave it out");
    }
    if options.links != Links::Ignore {
        return usage(
            "the check of links has no effect on a block log: a log has no roots, and each block must follow the previous block",
            "leave --links out",
        );
    }
    if options.shard.is_some() {
        return usage(
            "a block log has no shards: its blocks are stored by number, in their order",
            "leave --shard out; --from and --to take a part of a log",
        );
    }
    if options.plan != PlanChoice::Auto {
        return usage("a plan has no effect on a block log: nothing is sorted", "leave it out");
    }
    if log.links_only && !options.verify {
        return usage("verifying nothing and verifying links exclude each other", "give one of them");
    }
    if let (Some(from), Some(to)) = (log.from, log.to)
        && from > to
    {
        return usage("the first block is after the last block", "give them the other way round");
    }
    if log.to.is_some() && options.checksum.is_some() {
        return usage(
            "a checksum is of all bytes, and a log with a last block is not read to its end",
            "leave one of them out; --expect-head says what the last block must be",
        );
    }
    let selected = log.from.unwrap_or(0)..=log.to.unwrap_or(u32::MAX);
    let mut pinned = log.checkpoints.iter().chain(&log.expect_head);
    if let Some((number, _)) = pinned.find(|(number, _)| !selected.contains(number)) {
        let reason = format!("block {number} is expected to have an id, and is outside of the chosen blocks");
        return Err(Error::usage(reason, "leave it out, or import a longer range"));
    }
    Ok(())
}

/// Refuses options of block logs for a valid CAR; a damaged log is never taken for one.
pub(in crate::load) fn check_has_no_log_options(options: &ImportOptions) -> Result<()> {
    if options.log == LogOptions::default() {
        return Ok(());
    }
    let hint = "leave them out, or say --format block-log if it is one";
    Err(Error::usage("the source is a CAR, and options for block logs are given", hint))
}

/// Refuses options that have no effect on a CAR with this loader.
pub(in crate::load) fn check_car(options: &ImportOptions, loader: Loader) -> Result<()> {
    if options.column_family.is_empty() {
        let hint = "leave --column-family out for RocksDB's own, `default`";
        return Err(Error::usage("a column family has a name", hint));
    }
    if options.key == KeyLayout::Number {
        return Err(Error::usage("a CAR has no block numbers for keys", "choose the CID, its multihash or its digest"));
    }
    if options.column_family.contains('\0') {
        return Err(Error::usage("the name of a column family cannot contain a NUL byte", "choose another name"));
    }
    let refused = |reason: &str, hint: &str| Err(Error::usage(reason, hint));
    // Each CAR in the file has metadata of its own.
    if options.concatenated && options.f3 != F3Data::Store {
        return refused(
            "F3 data cannot be skipped in CARs that are joined in one file",
            "leave one of --f3 and --concatenated out, or import the CARs as files of their own",
        );
    }
    let is_shard = options.shard.is_some();
    if is_shard && options.links.are_followed() {
        return refused(
            "the check of links needs all blocks, and a shard has only some",
            "leave --links out, and follow the links in a seeded database: `bedload walk`",
        );
    }
    if is_shard && options.into_existing {
        return refused("a shard needs a database of its own", "leave --into-existing out");
    }
    if is_shard && loader == Loader::Memtable {
        return refused(
            "a shard is not possible with the memtable loader: no bundle takes what it writes",
            "choose a preset of the ingest loader, e.g. --preset ingest",
        );
    }
    if loader == Loader::Memtable && options.plan != PlanChoice::Auto {
        return refused(
            "a plan has no effect with the memtable loader: RocksDB sorts",
            "leave it out, or choose a preset of the ingest loader, e.g. --preset ingest",
        );
    }
    Ok(())
}

/// Checks that files are built that a bundle takes.
pub(super) fn check_published(loader: Loader) -> Result<()> {
    if loader == Loader::Ingest {
        return Ok(());
    }
    let reason = "a bundle is not possible with the memtable loader: no database ingests the files that RocksDB makes";
    Err(Error::usage(reason, "give --preset one of those that ingest (`bedload presets list`)"))
}
