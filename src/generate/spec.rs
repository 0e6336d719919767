//! The choices for a snapshot.

use super::Profile;
use crate::error::{Error, Result};

/// The largest share of repeated sections, in percent.
pub const DUPLICATES_MAX: u8 = 90;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub(super) profile: Profile,
    pub(super) size: u64,
    pub(super) seed: u64,
    pub(super) duplicates: u8,
    pub(super) format: Format,
}

/// The file format of a generated snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    #[default]
    Car,
    /// A CARv1 within a CARv2, without an index.
    CarV2,
    /// A CARv1 in zstd frames of about 1 MiB of content, with checksums.
    CarZst,
    /// A CARv1 in small zstd frames with an index, as Forest writes it. Takes 16 bytes of memory per block for the
    /// index.
    ForestCarZst,
}

impl Spec {
    /// A CARv1 of `size` bytes, seed 0, no duplicates.
    ///
    /// The CAR's size is within 1 % of `size`, or that of the smallest possible snapshot. For a compressed format
    /// `size` is that of the CAR inside, so that a size means the same blocks in every format.
    pub fn new(profile: Profile, size: u64) -> Self {
        Self { profile, size, seed: 0, duplicates: 0, format: Format::default() }
    }

    /// Another seed gives other blocks. Defaults to 0.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Another compression. Defaults to [`Format::Car`].
    #[must_use]
    pub fn format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The percentage of sections that repeat an earlier one, half of them soon after it and half far away. Only blocks
    /// without links are repeated. Defaults to 0.
    pub fn duplicates(self, percent: u8) -> Result<Self> {
        if percent > DUPLICATES_MAX {
            let hint = format!("give a percentage up to {DUPLICATES_MAX}");
            return Err(Error::usage(format!("{percent} % of the sections cannot be duplicates"), hint));
        }
        Ok(Self { duplicates: percent, ..self })
    }
}

impl Format {
    pub const ALL: [Self; 4] = [Self::Car, Self::CarV2, Self::CarZst, Self::ForestCarZst];

    /// The name on the command line, which is also the usual ending of a file's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::CarV2 => "car-v2",
            Self::CarZst => "car.zst",
            Self::ForestCarZst => "forest.car.zst",
        }
    }
}
