//! The size and form of the snapshot that is forecast, and a small generated snapshot of the same form.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::disk::interrupted;
use crate::blocks::chain::Family;
use crate::error::{Error, Result};
use crate::generate::log::{self, LogSpec};
use crate::generate::{self, Format, Profile, Spec};
use crate::load::ImportOptions;
use crate::progress::{CancellationToken, Progress, Silent};
use crate::read::inspect::{InspectOptions, inspect};
use crate::source::input::Packed;
use crate::source::remote::is_remote;
use crate::text::size::human;

/// Time for measuring how fast a source is read.
const TIME: Duration = Duration::from_secs(2);

/// Pieces of a file that are read to measure it, and the bytes of each.
const PIECES: u64 = 24;
const PIECE: usize = 4 << 20;

/// Memory for bytes from the network.
const NETWORK_MEMORY: u64 = 64 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizedForm {
    /// Bytes of the snapshot file.
    pub bytes: u64,
    pub form: SnapshotForm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotForm {
    Car(Format),
    BlockLog(Family),
}

impl SnapshotForm {
    /// The forms that the command line offers, with their names.
    pub const NAMED: [(&'static str, Self); 4] = [
        ("car", Self::Car(Format::Car)),
        ("car.zst", Self::Car(Format::CarZst)),
        ("forest.car.zst", Self::Car(Format::ForestCarZst)),
        ("block-log", Self::BlockLog(Family::Steem)),
    ];

    fn name(self) -> &'static str {
        Self::NAMED.into_iter().find(|(_, form)| *form == self).map_or("", |(name, _)| name)
    }
}

impl std::fmt::Display for SizedForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} (assumed)", human(self.bytes), self.form.name())
    }
}

/// Returns the size and form of a source; `None` if a sample of that form cannot be generated.
pub(super) fn probe(import: &ImportOptions, is_log: bool) -> Result<Option<SizedForm>> {
    let source = import.source();
    let is_on_network = is_remote(source);
    // Inspecting a pipe would consume it. A block log on the network would be read to its end.
    if if is_on_network { is_log } else { !is_log && !source.is_file() } {
        return Ok(None);
    }
    let report = inspect(&InspectOptions { network: import.network.clone(), ..InspectOptions::new(source) }, &Silent)?;
    let form = match (&report.log, report.compression.as_str()) {
        (Some(log), "none") => match log.family.as_str() {
            "hive" => SnapshotForm::BlockLog(Family::Hive),
            "antelope" => SnapshotForm::BlockLog(Family::Antelope),
            _ => SnapshotForm::BlockLog(Family::Steem),
        },
        (None, "none") => SnapshotForm::Car(Format::Car),
        (None, "zstd") => SnapshotForm::Car(Format::CarZst),
        (None, "forest-zstd") => SnapshotForm::Car(Format::ForestCarZst),
        _ => return Ok(None),
    };
    Ok(report.bytes.map(|bytes| SizedForm { bytes, form }))
}

/// Measures how many bytes of the source arrive in a second; `None` if it is several files or cannot be read.
pub(super) fn read_rate(import: &ImportOptions) -> Option<f64> {
    let (path, started) = (import.source(), Instant::now());
    let bytes = if is_remote(path) {
        let mut reader = Packed::open(path, &import.network).ok()?.read(NETWORK_MEMORY);
        let (mut buffer, mut bytes) = (vec![0; PIECE], 0);
        while started.elapsed() < TIME && !import.stop.is_cancelled() {
            match reader.read(&mut buffer).ok()? {
                0 => break,
                count => bytes += count,
            }
        }
        bytes
    } else {
        read_pieces(path, started).ok()?
    };
    (bytes > 0).then(|| bytes as f64 / started.elapsed().as_secs_f64())
}

/// Reads pieces that are spread over a file. If part of the file is in the page cache, so is that part of the pieces.
fn read_pieces(path: &Path, started: Instant) -> std::io::Result<usize> {
    let file = File::open(path)?;
    let distance = file.metadata()?.len() / PIECES;
    let mut buffer = vec![0; PIECE.min(usize::try_from(distance).unwrap_or(PIECE))];
    let mut bytes = 0;
    for piece in 0..PIECES {
        bytes += file.read_at(&mut buffer, distance * piece)?;
        if started.elapsed() > TIME {
            break;
        }
    }
    Ok(bytes)
}

pub(super) struct SampleSnapshot {
    file: File,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes after decompression.
    content: u64,
    /// Bytes of the snapshot that is forecast.
    pub forecast_bytes: u64,
    /// `forecast_bytes` over `bytes`.
    pub times: f64,
}

impl SampleSnapshot {
    /// Generates a snapshot of at most `limit` bytes, and no more than the forecast one has.
    pub fn new(forecast: SizedForm, limit: u64, stop: &CancellationToken) -> Result<Self> {
        let memory = |error| Error::io("generate a snapshot in", "memory")(error);
        let file = rustix::fs::memfd_create("bedload-doctor", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = File::from(file.map_err(|error| memory(error.into()))?);
        let (size, progress) = (limit.min(forecast.bytes), Progress::new(&Silent));
        let written = match forecast.form {
            SnapshotForm::Car(format) => {
                generate::write_with(&Spec::new(Profile::Mainnet, size).format(format), &mut file, &progress)
                    .map(|made| (made.bytes, made.car_bytes))
            }
            SnapshotForm::BlockLog(family) => {
                log::write_with(&LogSpec::new(family, size), &mut file, |_| Ok(()), &progress)
                    .map(|made| (made.bytes, made.raw_bytes))
            }
        };
        stop.check(interrupted)?;
        let (bytes, content) = written.map_err(memory)?;
        let times = forecast.bytes as f64 / bytes.max(1) as f64;
        Ok(Self { file, bytes, content, forecast_bytes: forecast.bytes, times })
    }

    /// Bytes of the snapshot that is forecast after decompression, if it compresses as well as this one.
    pub fn whole(&self) -> u64 {
        (self.content as f64 * self.times) as u64
    }

    /// A path that opens the snapshot in this process.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }
}
