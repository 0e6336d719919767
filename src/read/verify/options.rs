//! Options of a verification.

use std::path::PathBuf;

use derive_setters::Setters;

use crate::read::access::{Location, Resources};
use crate::source::car::NullPadding;
use crate::source::remote::NetworkOptions;

/// Options of a verification.
#[derive(Debug, Clone, Setters)]
#[setters(into, strip_option)]
#[non_exhaustive]
pub struct VerifyOptions {
    /// The database.
    pub(crate) db: PathBuf,
    /// Number of records to check, picked at random. Defaults to every record.
    pub(crate) sample: Option<u64>,
    /// Snapshot to compare with, record by record.
    pub(crate) against: Option<PathBuf>,
    /// True if the database may have records that the snapshot lacks, such as those of a node.
    /// Defaults to `false`.
    pub(crate) allow_extra: bool,
    /// Meaning of null padding in that snapshot. Defaults to the import's choice.
    pub(crate) null_padding: Option<NullPadding>,
    /// Options for a snapshot on the network.
    pub(crate) network: NetworkOptions,
    /// Resources of the verification; memory is for the comparison.
    pub(crate) resources: Resources,
    /// Location of the blocks.
    pub(crate) location: Location,
}

impl VerifyOptions {
    /// Creates a verification of everything in `db`.
    pub fn new(db: impl Into<PathBuf>) -> Self {
        Self {
            db: db.into(),
            sample: None,
            against: None,
            allow_extra: false,
            null_padding: None,
            network: NetworkOptions::default(),
            resources: Resources::default(),
            location: Location::default(),
        }
    }
}
