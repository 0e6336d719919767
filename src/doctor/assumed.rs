//! A snapshot that is known only by its size and form.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use super::disk::interrupted;
use super::sample::{self, Sample};
use crate::blocks::chain::Family;
use crate::error::{Error, Result};
use crate::generate::log::{self, LogSpec};
use crate::generate::{self, Format, Profile, Spec};
use crate::progress::{CancellationToken, Progress, Silent};
use crate::report::DiskSpeed;
use crate::text::size::human;

/// Bytes of the generated snapshot before compression.
const GENERATED: u64 = 64 << 20;

/// A snapshot to forecast an import of, without having it. A generated snapshot of the same form takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssumedSnapshot {
    /// Bytes of the snapshot file.
    pub bytes: u64,
    /// The form of the file.
    pub form: Form,
}

/// The form of an assumed snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A CAR of a Filecoin network.
    Car(Format),
    /// The block log of a Steem chain.
    BlockLog,
}

impl Form {
    /// All forms, with the names that the command line has for them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("car", Self::Car(Format::Car)),
        ("car.zst", Self::Car(Format::CarZst)),
        ("forest.car.zst", Self::Car(Format::ForestCarZst)),
        ("block-log", Self::BlockLog),
    ];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }
}

/// The generated snapshot, held in memory.
pub(super) struct Generated {
    file: File,
    bytes: u64,
    assumed: AssumedSnapshot,
}

impl Generated {
    /// Generates a snapshot that is no larger than the assumed one.
    pub fn new(assumed: AssumedSnapshot, stop: &CancellationToken) -> Result<Self> {
        let mut file = sample::file_in_memory("bedload-generated").map_err(Error::io("create a file in", "memory"))?;
        let size = GENERATED.min(assumed.bytes);
        let progress = Progress::new(&Silent);
        let written = match assumed.form {
            Form::Car(format) => {
                generate::write_with(&Spec::new(Profile::Mainnet, size).format(format), &mut file, &progress)
                    .map(|made| made.bytes)
            }
            Form::BlockLog => log::write_with(&LogSpec::new(Family::Steem, size), &mut file, |_| Ok(()), &progress)
                .map(|made| made.bytes),
        };
        if stop.is_cancelled() {
            return Err(interrupted());
        }
        Ok(Self { bytes: written.map_err(Error::io("generate a snapshot in", "memory"))?, file, assumed })
    }

    /// A path that opens the snapshot in this process.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Scales a sample of the generated snapshot to the assumed one, which `disk` would have to read.
    pub fn scale(&self, sample: Sample, disk: &DiskSpeed) -> Sample {
        let times = self.assumed.bytes as f64 / self.bytes.max(1) as f64;
        let from_disk = disk.read_bytes_per_second.map_or(0.0, |rate| self.assumed.bytes as f64 / rate.max(1.0));
        let mut source = sample.source.unwrap_or_default();
        source.seconds = (source.seconds * times).max(from_disk);
        source.cpu_seconds *= times;
        Sample { whole: (sample.whole as f64 * times) as u64, source: Some(source), ..sample }
    }
}

impl std::fmt::Display for AssumedSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} (assumed)", human(self.bytes), self.form.name())
    }
}
