//! Refuses options that have no effect, before an import begins.

use crate::error::{Error, Result};
use crate::load::options::{F3Data, ImportOptions, Links, LogOptions, PlanChoice};
use crate::preset::{Loader, Resolved};
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

/// Refuses options that have no effect on a block log, or are impossible with one.
pub(in crate::load) fn check_block_log(options: &ImportOptions) -> Result<()> {
    let log = &options.log;
    refuse_first(&[
        (options.into_existing, "cannot add a block log to an existing database", "import it into a new one"),
        (
            options.key != KeyLayout::Cid || options.column_family != "default",
            "a key layout or column family has no effect on a block log: blocks are stored in `default`, by number",
            "leave them out",
        ),
        (
            options.null_padding != NullPadding::Error || options.max_block_size != DEFAULT_MAX_BLOCK,
            "null padding and a limit of block sizes have no effect on a block log",
            "leave them out",
        ),
        (
            options.filter.is_some(),
            "a filter has no effect on a block log",
            "leave it out; a range of numbers takes a part of a log",
        ),
        (
            options.f3 != F3Data::Store,
            "the choice of F3 data has no effect on a block log: it has no F3 data",
            "leave it out",
        ),
        (
            options.links != Links::Ignore,
            "the check of links has no effect on a block log: a log has no roots, and each block must follow the previous block",
            "leave --links out",
        ),
        (
            options.shard.is_some(),
            "a block log has no shards: its blocks are stored by number, in their order",
            "leave --shard out; --from and --to take a part of a log",
        ),
        (options.plan != PlanChoice::Auto, "a plan has no effect on a block log: nothing is sorted", "leave it out"),
        (
            log.links_only && !options.verify,
            "verifying nothing and verifying links exclude each other",
            "give one of them",
        ),
        (
            log.from.zip(log.to).is_some_and(|(from, to)| from > to),
            "the first block is after the last block",
            "give them the other way round",
        ),
        (
            log.to.is_some() && options.checksum.is_some(),
            "a checksum is of all bytes, and a log with a last block is not read to its end",
            "leave one of them out; --expect-head says what the last block must be",
        ),
    ])?;
    let selected = log.from.unwrap_or(0)..=log.to.unwrap_or(u32::MAX);
    let mut pinned = log.checkpoints.iter().chain(&log.expect_head);
    pinned.find(|(number, _)| !selected.contains(number)).map_or(Ok(()), |(number, _)| {
        let reason = format!("block {number} is expected to have an id, and is outside of the chosen blocks");
        Err(Error::usage(reason, "leave it out, or import a longer range"))
    })
}

/// Refuses the first true condition, with its reason and its hint.
fn refuse_first(rows: &[(bool, &str, &str)]) -> Result<()> {
    let refused = rows.iter().find(|(is_met, ..)| *is_met);
    refused.map_or(Ok(()), |(_, reason, hint)| Err(Error::usage(*reason, *hint)))
}

/// Refuses options of block logs for a valid CAR; a damaged log is never taken for one.
pub(in crate::load) fn check_has_no_log_options(options: &ImportOptions) -> Result<()> {
    refuse_first(&[(
        options.log != LogOptions::default(),
        "the source is a CAR, and options for block logs are given",
        "leave them out, or say --format block-log if it is one",
    )])
}

/// Refuses options that have no effect on a CAR with this loader.
pub(in crate::load) fn check_car(options: &ImportOptions, loader: Loader) -> Result<()> {
    let (is_shard, is_memtable) = (options.shard.is_some(), loader == Loader::Memtable);
    refuse_first(&[
        (
            options.column_family.is_empty(),
            "a column family has a name",
            "leave --column-family out for RocksDB's own, `default`",
        ),
        // Each CAR in the file has metadata of its own.
        (
            options.concatenated && options.f3 != F3Data::Store,
            "F3 data cannot be skipped in CARs that are joined in one file",
            "leave one of --f3 and --concatenated out, or import the CARs as files of their own",
        ),
        (
            is_shard && options.links.are_followed(),
            "the check of links needs all blocks, and a shard has only some",
            "leave --links out, and follow the links in a seeded database: `bedload walk`",
        ),
        (is_shard && options.into_existing, "a shard needs a database of its own", "leave --into-existing out"),
        (
            is_shard && is_memtable,
            "a shard is not possible with the memtable loader: no bundle takes what it writes",
            "choose a preset of the ingest loader, e.g. --preset ingest",
        ),
        (
            is_memtable && options.plan != PlanChoice::Auto,
            "a plan has no effect with the memtable loader: RocksDB sorts",
            "leave it out, or choose a preset of the ingest loader, e.g. --preset ingest",
        ),
    ])
}

/// Checks that files are built that a bundle takes.
pub(super) fn check_published(loader: Loader) -> Result<()> {
    let reason = "a bundle is not possible with the memtable loader: no database ingests the files that RocksDB makes";
    let hint = "give --preset one of those that ingest (`bedload presets list`)";
    refuse_first(&[(loader == Loader::Memtable, reason, hint)])
}
