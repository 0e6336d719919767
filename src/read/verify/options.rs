use std::path::PathBuf;

use derive_setters::Setters;

use crate::progress::CancellationToken;
use crate::read::access::{Location, Resources};
use crate::source::car::NullPadding;
use crate::source::remote::NetworkOptions;

/// Options of a verification.
#[derive(Debug, Clone, Default, Setters)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
#[setters(strip_option)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// The database.
    #[cfg_attr(feature = "cli", arg(skip))]
    #[setters(into)]
    pub(crate) db: PathBuf,
    /// Check only N records, picked at random, instead of all
    #[cfg_attr(feature = "cli", arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "against"))]
    pub(crate) sample: Option<u64>,
    /// Compare every record with this CAR, this other database, or these streams of records (sorted again beside DB), in both directions
    #[cfg_attr(feature = "cli", arg(long, value_name = "SNAPSHOT"))]
    #[setters(skip)]
    pub(crate) against: Vec<PathBuf>,
    /// The name of the streams of records in `against`, which is a database of them.
    #[cfg_attr(feature = "cli", arg(skip))]
    #[setters(skip)]
    pub(crate) streams: Option<String>,
    /// Accept records that a node has added; then only --against finds missing records
    #[cfg_attr(feature = "cli", arg(long))]
    pub(crate) allow_extra: bool,
    /// Meaning of null padding in the compared snapshot: error or eof; defaults to the import's
    #[cfg_attr(feature = "cli", arg(long, value_name = "MEANING", requires = "against", hide_short_help = true))]
    pub(crate) null_padding: Option<NullPadding>,
    /// Resources of the verification; memory is for the comparison.
    #[cfg_attr(feature = "cli", command(flatten))]
    pub(crate) resources: Resources,
    /// Location of the blocks.
    #[cfg_attr(feature = "cli", command(flatten))]
    pub(crate) location: Location,
    /// Options for a snapshot on the network.
    #[cfg_attr(feature = "cli", arg(skip))]
    pub(crate) network: NetworkOptions,
}

impl VerifyOptions {
    /// Creates a verification of everything in `db`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self { db: db.into(), ..Self::default() }
    }

    /// Compares every record with this CAR, this other database, or this stream of records. Several streams are compared together.
    pub fn against(mut self, source: impl Into<PathBuf>) -> Self {
        self.against.push(source.into());
        self
    }

    /// Sets the token that cancels the verification.
    pub fn stop(mut self, stop: CancellationToken) -> Self {
        self.resources.stop = stop;
        self
    }
}
