//! The current state of the work as text: how much is done, how fast, and how long the rest takes.

use std::collections::VecDeque;

use crate::progress::{Backlog, Network, Phase, Sample, Writes};
use crate::text::size::{counted, human};

use super::curve::IntervalRates;
use super::status::{NEEDED, Status};
use crate::cli::render::numbers::{done_of, duration, grouped};

/// Seconds over which the current rate is measured.
const WINDOW: f64 = 3.0;

/// The current rate, from the samples of the last seconds.
#[derive(Default)]
pub struct Rate(VecDeque<Sample>, IntervalRates);

impl Rate {
    pub fn add(&mut self, sample: Sample) {
        if self.0.back().is_some_and(|last| last.phase != sample.phase) {
            self.0.clear();
        }
        self.0.push_back(sample);
        while self.0.front().is_some_and(|first| sample.seconds - first.seconds > WINDOW) {
            self.0.pop_front();
        }
        self.1.add(sample.interval_blocks_per_second);
    }

    /// Bytes and blocks a second.
    fn now(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let seconds = last.seconds - first.seconds;
        (seconds > 0.0).then(|| {
            let per_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
            (per_second(first.bytes, last.bytes), per_second(first.blocks, last.blocks))
        })
    }

    /// Which of both sides the other waits for, and what the network gives: `network 12.0 MiB/s on 8 connections`.
    fn network(&self) -> Option<[(u8, String); 2]> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let seconds = last.seconds - first.seconds;
        let (Network { received_bytes: before, waited_seconds: waited, .. }, now) = (first.network?, last.network?);
        if seconds <= 0.0 {
            return None;
        }
        let rate = human((now.received_bytes.saturating_sub(before) as f64 / seconds) as u64);
        let is_waited_for = (now.waited_seconds - waited) * 2.0 > seconds;
        let who = if is_waited_for { "waits for the network" } else { "the network waits" };
        let gives = format!("network {rate}/s on {}", counted(now.connections.max(1), "connection", "connections"));
        Some([(2, who.to_owned()), (4, gives)])
    }

    /// The state of the work by the last sample: `0.4 of 1.2 GiB, 640.0 MiB/s, 655,123 blocks/s, 12 s left, 12 files at
    /// level 0, 1.5 GiB pending, writes stopped`, and of a log `0.4 of 1.2 GiB, 212 k blocks/s, last 100,000 at 208 k, 12 s
    /// left`.
    pub fn status(&self) -> Status {
        let Some(last) = self.0.back() else { return Status::default() };
        let speed = self.now().filter(|_| counts(last.phase));
        let of_log = speed.and_then(|(_, blocks)| self.1.describe(blocks));
        let others = speed.filter(|_| of_log.is_none());
        let parts = [
            counts(last.phase).then(|| (3, done_of(last.bytes, last.total))),
            others.map(|(bytes, _)| (NEEDED, format!("{}/s", human(bytes as u64)))),
            others.map(|(_, blocks)| (5, format!("{} blocks/s", grouped(blocks as u64)))),
            of_log.map(|rates| (NEEDED, rates)),
            last.seconds_left.map(|seconds| (0, format!("{} left", duration(seconds)))),
            last.backlog.as_ref().map(|backlog| (4, describe_backlog(backlog))),
        ];
        let network = self.network().into_iter().flatten();
        Status {
            name: last.phase.name(),
            seconds: last.seconds,
            done: last.done(),
            parts: parts.into_iter().flatten().chain(network).collect(),
            curve: self.1.curve(),
        }
    }
}

/// Whether a phase counts bytes and blocks, or only takes time.
fn counts(phase: Phase) -> bool {
    match phase {
        Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export | Phase::Generate => {
            true
        }
        Phase::Plan | Phase::Ingest | Phase::Compact | Phase::Commit | Phase::Measure | Phase::Sample => false,
    }
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

    /// The rate of a log of which 40,000 blocks and 8 MiB were read in the last second.
    fn of_log(intervals: &[f64]) -> Rate {
        let sample = |seconds: f64, bytes: u64, blocks: u64, interval| Sample {
            bytes,
            blocks,
            backlog: None,
            interval_blocks_per_second: interval,
            ..sample(Phase::Read, seconds, Some(12_780.0))
        };
        let mut rate = Rate::default();
        intervals.iter().for_each(|&each| rate.add(sample(9.0, 92 << 20, 160_000, Some(each))));
        rate.add(sample(10.0, 100 << 20, 200_000, intervals.last().copied()));
        rate
    }

    #[test]
    fn the_rate_of_the_last_interval_follows_the_current_one() {
        let narrow = "40 k blocks/s, last 100,000 at 208 k, 3:33 h left";
        let log = of_log(&[104_000.0, 208_000.0]);
        let log = log.status();
        assert_eq!((log.text(50), log.least_room()), (narrow.to_owned(), narrow.len()));
        let whole = format!("100.0 MiB of 1.0 GiB, {narrow}");
        assert_eq!(log.text_with_curve(whole.len() + 2), whole);
        assert_eq!(log.text_with_curve(whole.len() + 3), format!("{whole} ▄█"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_the_least_important_first() {
        let mut rate = Rate::default();
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
    fn of_network_and_import_the_slower_one_is_named() {
        let mut rate = Rate::default();
        let at = |seconds: f64, received: u64, waited: f64| Sample {
            backlog: None,
            network: Some(Network::new(received, 8, waited)),
            ..sample(Phase::Read, seconds, None)
        };
        rate.add(at(10.0, 0, 1.0));
        rate.add(at(12.0, 24 << 20, 2.9));
        let text = rate.status().text(200);
        assert!(text.ends_with("waits for the network, network 12.0 MiB/s on 8 connections"), "{text}");
        assert_eq!(rate.status().text(40), "64.0 MiB/s, waits for the network", "who waits for whom comes first");
        rate.add(at(13.0, 36 << 20, 2.9));
        assert!(rate.status().text(200).contains(", waits for the network"));
        rate.add(at(15.0, 60 << 20, 2.9));
        assert!(rate.status().text(200).ends_with("the network waits, network 12.0 MiB/s on 8 connections"));
    }

    #[test]
    fn a_phase_that_counts_nothing_shows_what_is_left() {
        let mut rate = Rate::default();
        rate.add(Sample { backlog: None, ..sample(Phase::Ingest, 12.0, None) });
        assert_eq!(rate.status().text(80), "");
        rate.add(Sample { backlog: None, ..sample(Phase::Compact, 13.0, Some(0.4)) });
        assert_eq!((rate.status().text(80), rate.status().seconds), ("1 s left".to_owned(), 13.0));
    }
}
