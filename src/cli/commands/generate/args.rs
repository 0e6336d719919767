//! The options of `bedload generate`.

use std::path::PathBuf;

use crate::Error;
use crate::blocks::chain::Family;
use crate::generate::{DUPLICATES_MAX, Format, Profile};

use crate::cli::values;
use crate::progress::CancellationToken;

/// Generate a snapshot of any size
///
/// The blocks have the sizes of a real network, valid hashes, and links from the roots to every block. The same
/// profile, size, seed and options generate the same bytes on any machine (compressed formats: with the same version of
/// bedload).
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload generate test.forest.car.zst --size 4GiB --duplicates 3")]
pub struct Args {
    /// File to write, or `-` for standard output
    ///
    /// A pipe takes twice the work: the roots come first in the file but are known last.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Network to imitate: a CAR of Filecoin, or the block log of another chain
    ///
    /// mainnet: CAR, mean block 1,015 B, most between 1 and 2 KiB. small: CAR, mean about 440 B.
    /// steem, hive, antelope: block log, mean block about 5.5 KiB; hive's are compressed one by one, antelope's is of
    /// version 3.
    #[arg(long, value_name = "NAME", default_value = Profile::Mainnet.name(), value_parser = values::named(profiles()))]
    pub profile: ProfileArg,

    /// Size of the CAR or log before compression, e.g. 500MiB or 4GiB; K, M, G and T are also powers of 1024
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub size: u64,

    /// Seed: each number generates different blocks
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// Percentage of sections that repeat an earlier section, up to 90
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=i64::from(DUPLICATES_MAX)))]
    pub duplicates: u8,

    /// Format of the CAR; by default the suffix of FILE decides, without one it is car
    #[arg(long, value_name = "FORMAT", value_parser = values::named(Format::ALL.map(|format| (format.name(), format))))]
    pub format: Option<Format>,

    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub log: LogArgs,

    /// Cancelled by a signal.
    #[arg(skip)]
    pub stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileArg {
    /// A CAR.
    Car(Profile),
    /// A block log.
    Log(Family),
}

/// Options of block logs.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Block logs")]
pub struct LogArgs {
    /// Version of an antelope log, 1 to 4 [default: 3]
    ///
    /// In version 3 blocks from 10,001 on are Savanna blocks. In version 4 some transactions are pruned.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4))]
    pub log_version: Option<u32>,

    /// Number of the first block: a partial antelope log, or a later part of a split hive log [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub first_block: Option<u32>,

    /// Directory with dictionaries (000M.dict.zst ..) for half of the compressed blocks of a hive log
    #[arg(long, value_name = "DIR")]
    pub dictionaries: Option<PathBuf>,

    /// Also write the index beside the log
    ///
    /// FILE.index for steem, FILE.artifacts for hive; for antelope the name of the file with the ending .index.
    #[arg(long)]
    pub index: bool,
}

impl LogArgs {
    /// Fails if one of them is given for a CAR.
    pub fn refuse(&self) -> crate::Result<()> {
        let given = [
            (self.log_version.is_some(), "--log-version"),
            (self.first_block.is_some(), "--first-block"),
            (self.dictionaries.is_some(), "--dictionaries"),
            (self.index, "--index"),
        ];
        match given.into_iter().find(|(given, _)| *given) {
            None => Ok(()),
            Some((_, option)) => Err(Error::Usage {
                reason: format!("{option} is for block logs"),
                hint: format!("leave out {option}, or choose --profile steem, hive or antelope").into(),
            }),
        }
    }
}

fn profiles() -> [(&'static str, ProfileArg); 5] {
    let [mainnet, small] = Profile::ALL.map(|profile| (profile.name(), ProfileArg::Car(profile)));
    let [steem, hive, antelope] =
        [Family::Steem, Family::Hive, Family::Antelope].map(|family| (family.name(), ProfileArg::Log(family)));
    [mainnet, small, steem, hive, antelope]
}
