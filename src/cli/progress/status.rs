//! The state of the work as one line: name, time, share done, and parts with ranks. If there is no room, the least important
//! parts are left out.

use std::collections::VecDeque;

use crate::progress::{Backlog, Network, Phase, Sample, Writes};
use crate::text::size::{counted, human};

use crate::cli::render::numbers::{done_of, duration, short};

/// The lowest rank of the parts that should always be shown.
pub const NEEDED: u8 = 1;

/// Seconds over which the current rate is measured.
const WINDOW: f64 = 3.0;

#[derive(Debug, Default)]
pub struct Status {
    pub name: &'static str,
    /// Seconds since the command began.
    pub seconds: f64,
    /// The share of the work that is done, from 0 to 1, if known.
    pub done: Option<f64>,
    /// The parts of the text with their ranks: 0, the time left, is the most important one.
    pub parts: Vec<(u8, String)>,
}

impl Status {
    /// The parts that fit into `room` columns.
    pub fn text(&self, room: usize) -> String {
        let most = self.parts.iter().map(|(rank, _)| *rank).max().unwrap_or_default();
        let mut texts = (0..=most).rev().map(|rank| self.join(rank));
        texts.find(|text| text.chars().count() <= room).unwrap_or_default()
    }

    /// The columns of the parts that should always be shown.
    pub fn least_room(&self) -> usize {
        self.join(NEEDED).chars().count()
    }

    /// Joins the parts of rank `most` or lower.
    fn join(&self, most: u8) -> String {
        let parts = self.parts.iter().filter(|(rank, _)| *rank <= most);
        parts.map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Counts records, or blocks.
pub fn counted_units(count: u64, are_records: bool) -> String {
    if are_records { counted(count, "record", "records") } else { counted(count, "block", "blocks") }
}

/// The samples of the last seconds, and the rate of the last 100,000 blocks of a block log.
#[derive(Default)]
pub struct RecentRate {
    samples: VecDeque<Sample>,
    interval: Option<f64>,
    /// True if the command counts records, which are no blocks.
    pub are_records: bool,
}

impl RecentRate {
    pub fn add(&mut self, sample: Sample) {
        if self.samples.back().is_some_and(|last| last.phase != sample.phase) {
            self.samples.clear();
        }
        self.samples.push_back(sample);
        while self.samples.front().is_some_and(|first| sample.seconds - first.seconds > WINDOW) {
            self.samples.pop_front();
        }
        self.interval = sample.interval_blocks_per_second;
    }

    /// The state of the work by the last sample: `0.4 of 1.2 GiB, 640.0 MiB/s, 655,123 blocks/s, 12 s left, 12 files at
    /// level 0, 1.5 GiB pending, writes stopped`, or of a block log `0.4 of 1.2 GiB, 212 k blocks/s, last 100,000 at 208 k,
    /// 12 s left`.
    pub fn status(&self) -> Status {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else { return Status::default() };
        let seconds = last.seconds - first.seconds;
        let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let counts = has_counts(last.phase);
        let mut parts = Vec::new();
        if counts {
            parts.push((3, done_of(last.bytes, last.total)));
        }
        if counts && seconds > 0.0 {
            let blocks = per_second(first.blocks, last.blocks);
            match self.interval {
                Some(rate) => {
                    parts.push((NEEDED, format!("{} blocks/s, last 100,000 at {}", short(blocks), short(rate))));
                }
                None => parts.extend([
                    (NEEDED, format!("{}/s", human(per_second(first.bytes, last.bytes) as u64))),
                    (5, format!("{}/s", counted_units(blocks as u64, self.are_records))),
                ]),
            }
        }
        parts.extend(last.seconds_left.map(|seconds| (0, format!("{} left", duration(seconds)))));
        parts.extend(last.backlog.as_ref().map(|backlog| (4, describe_backlog(backlog))));
        if let (Some(Network { received_bytes, waited_seconds, .. }), Some(now)) = (first.network, last.network)
            && seconds > 0.0
        {
            let is_waited_for = (now.waited_seconds - waited_seconds) * 2.0 > seconds;
            let slower = if is_waited_for { "waits for the network" } else { "the network waits" };
            let rate = human(per_second(received_bytes, now.received_bytes) as u64);
            let connections = counted(now.connections.max(1), "connection", "connections");
            parts.extend([(2, slower.to_owned()), (4, format!("network {rate}/s on {connections}"))]);
        }
        Status { name: last.phase.name(), seconds: last.seconds, done: last.done(), parts }
    }
}

/// True if a phase counts bytes and blocks, and does not only take time.
pub fn has_counts(phase: Phase) -> bool {
    !matches!(phase, Phase::Plan | Phase::Ingest | Phase::Compact | Phase::Commit | Phase::Measure | Phase::Sample)
}

/// `12 files at level 0, 1.5 GiB pending, writes stopped`
fn describe_backlog(backlog: &Backlog) -> String {
    let writes = match backlog.writes {
        Writes::Flow => "",
        Writes::Delayed => ", writes delayed",
        Writes::Stopped => ", writes stopped",
    };
    let files = counted(backlog.level0_files, "file", "files");
    format!("{files} at level 0, {} pending{writes}", human(backlog.pending_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(phase: Phase, seconds: f64, seconds_left: Option<f64>) -> Sample {
        let bytes = (seconds * f64::from(64 << 20)) as u64;
        let backlog = Backlog { level0_files: 12, pending_bytes: 3 << 29, writes: Writes::Stopped };
        Sample {
            seconds,
            phase,
            bytes,
            total: Some(1 << 30),
            blocks: (seconds * 65_512.3) as u64,
            total_blocks: None,
            backlog: Some(backlog),
            network: None,
            interval_blocks_per_second: None,
            seconds_left,
        }
    }

    #[test]
    fn interval_rate_follows_the_current_one() {
        let of_log = |seconds: f64, bytes: u64, blocks: u64| Sample {
            bytes,
            blocks,
            backlog: None,
            interval_blocks_per_second: Some(208_000.0),
            ..sample(Phase::Read, seconds, Some(12_780.0))
        };
        let mut rate = RecentRate::default();
        rate.add(of_log(9.0, 92 << 20, 160_000));
        rate.add(of_log(10.0, 100 << 20, 200_000));
        let narrow = "40 k blocks/s, last 100,000 at 208 k, 3:33 h left";
        let log = rate.status();
        assert_eq!((log.text(50), log.least_room()), (narrow.to_owned(), narrow.len()));
        assert_eq!(log.text(200), format!("100.0 MiB of 1.0 GiB, {narrow}"));
    }

    #[test]
    fn least_important_parts_are_left_out() {
        let mut rate = RecentRate::default();
        rate.add(sample(Phase::Read, 10.0, None));
        rate.add(sample(Phase::Read, 12.0, Some(754.2)));
        let whole = "768.0 MiB of 1.0 GiB, 64.0 MiB/s, 65,512 blocks/s, 12:35 min left, 12 files at level 0, 1.5 GiB pending, \
                     writes stopped";
        for (room, text) in [
            (200, whole),
            (
                105,
                "768.0 MiB of 1.0 GiB, 64.0 MiB/s, 12:35 min left, 12 files at level 0, 1.5 GiB pending, writes stopped",
            ),
            (50, "768.0 MiB of 1.0 GiB, 64.0 MiB/s, 12:35 min left"),
            (30, "64.0 MiB/s, 12:35 min left"),
            (14, "12:35 min left"),
            (5, ""),
        ] {
            assert_eq!(rate.status().text(room), text);
        }
    }

    #[test]
    fn slower_side_is_named() {
        let mut rate = RecentRate::default();
        let at = |seconds: f64, received: u64, waited: f64| Sample {
            backlog: None,
            network: Some(Network::new(received, 8, waited)),
            ..sample(Phase::Read, seconds, None)
        };
        rate.add(at(10.0, 0, 1.0));
        rate.add(at(12.0, 24 << 20, 2.9));
        let text = rate.status().text(200);
        assert!(text.ends_with("waits for the network, network 12.0 MiB/s on 8 connections"), "{text}");
        assert_eq!(rate.status().text(40), "64.0 MiB/s, waits for the network", "the slower side is more important");
        rate.add(at(13.0, 36 << 20, 2.9));
        assert!(rate.status().text(200).contains(", waits for the network"));
        rate.add(at(15.0, 60 << 20, 2.9));
        assert!(rate.status().text(200).ends_with("the network waits, network 12.0 MiB/s on 8 connections"));
    }

    #[test]
    fn phase_without_counts_shows_time_left() {
        let mut rate = RecentRate::default();
        rate.add(Sample { backlog: None, ..sample(Phase::Ingest, 12.0, None) });
        assert_eq!(rate.status().text(80), "");
        rate.add(Sample { backlog: None, ..sample(Phase::Compact, 13.0, Some(0.4)) });
        assert_eq!((rate.status().text(80), rate.status().seconds), ("1 s left".to_owned(), 13.0));
    }
}
