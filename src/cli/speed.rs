//! What a look at the counters says to people: how much, how fast, and how long it will still take.

use std::collections::VecDeque;

use bedload::progress::{Backlog, Phase, Sample, Writes};
use bedload::size::human;

use super::rates::Stretches;

/// Seconds over which the current speed is taken.
const WINDOW: f64 = 3.0;

/// How important a part is that should always be there, or more.
const NEEDED: u8 = 1;

/// The current speed, from the last few seconds of samples.
#[derive(Default)]
pub struct Speed(VecDeque<Sample>, Stretches);

impl Speed {
    pub fn add(&mut self, sample: Sample) {
        if self.0.back().is_some_and(|last| last.phase != sample.phase) {
            self.0.clear();
        }
        self.0.push_back(sample);
        while self.0.front().is_some_and(|first| sample.seconds - first.seconds > WINDOW) {
            self.0.pop_front();
        }
        self.1.add(sample.stretch_blocks_per_second);
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

    /// `1.2 GiB, 640.0 MiB/s, 655,123 blocks/s, 12 s left, 12 files at level 0, 1.5 GiB pending, writes stopped`, and of a
    /// log `1.2 GiB, 212 k blocks/s, last 100,000 at 208 k, 12 s left`, without what does not fit into `room` columns.
    pub fn describe(&self, room: usize) -> String {
        let mut parts = self.parts();
        loop {
            let text = joined(&parts);
            let least = parts.iter().map(|(rank, _)| *rank).max().unwrap_or_default();
            if text.chars().count() <= room || parts.is_empty() {
                return text;
            }
            parts.retain(|(rank, _)| *rank != least);
        }
    }

    /// The same with the curve of a log's rates, where there is room for it.
    pub fn describe_with_curve(&self, room: usize) -> String {
        let text = self.describe(room);
        let curve = self.1.curve().map(|curve| format!("{text} {curve}"));
        curve.filter(|it| it.chars().count() <= room && text == joined(&self.parts())).unwrap_or(text)
    }

    /// How many columns that takes which should always be there.
    pub fn least_room(&self) -> usize {
        let parts = self.parts().into_iter().filter(|(rank, _)| *rank <= NEEDED);
        joined(&parts.collect::<Vec<_>>()).chars().count()
    }

    /// What there is to say, and how important it is: what is left matters most, then how fast, then the rest.
    fn parts(&self) -> Vec<(u8, String)> {
        let Some(last) = self.0.back() else { return Vec::new() };
        let left = last.seconds_left.map(|seconds| (0, format!("{} left", duration(seconds))));
        let speed = self.now().filter(|_| counts(last.phase));
        let of_log = speed.and_then(|(_, blocks)| self.1.describe(blocks));
        let others = speed.filter(|_| of_log.is_none());
        let parts = [
            counts(last.phase).then(|| (2, human(last.bytes))),
            others.map(|(bytes, _)| (NEEDED, format!("{}/s", human(bytes as u64)))),
            others.map(|(_, blocks)| (4, format!("{} blocks/s", grouped(blocks as u64)))),
            of_log.map(|rates| (NEEDED, rates)),
            left.or_else(|| (!counts(last.phase)).then(|| (0, format!("{:.0} s", last.seconds)))),
            last.backlog.as_ref().map(|backlog| (3, describe_backlog(backlog))),
        ];
        parts.into_iter().flatten().collect()
    }
}

fn joined(parts: &[(u8, String)]) -> String {
    parts.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(", ")
}

/// Whether a phase goes through bytes and blocks, or only takes time.
fn counts(phase: Phase) -> bool {
    match phase {
        Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export => true,
        Phase::Plan | Phase::Ingest | Phase::Settle | Phase::Publish => false,
    }
}

/// `12 files at level 0, 1.5 GiB pending, writes stopped`
fn describe_backlog(backlog: &Backlog) -> String {
    let writes = match backlog.writes {
        Writes::Flow => "",
        Writes::Delayed => ", writes delayed",
        Writes::Stopped => ", writes stopped",
    };
    format!("{} files at level 0, {} pending{writes}", backlog.level0_files, human(backlog.pending_bytes))
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The line that a phase leaves; `None` where it is not worth one.
pub fn done_line(phase: Phase, seconds: f64, bytes: u64, blocks: u64) -> Option<String> {
    let rate = human((bytes as f64 / seconds.max(0.001)) as u64);
    match phase {
        Phase::Plan => None,
        // A log begins to be read when its files have been looked at; what went through nothing has nothing to tell.
        Phase::Read | Phase::Build if (bytes, blocks) == (0, 0) => None,
        Phase::Read | Phase::Build | Phase::Check | Phase::Verify | Phase::Walk | Phase::Export => Some(format!(
            "{:<8} {seconds:>6.1} s  {} blocks, {}, {rate}/s",
            phase.name(),
            grouped(blocks),
            human(bytes)
        )),
        Phase::Ingest | Phase::Settle | Phase::Publish => Some(format!("{:<8} {seconds:>6.1} s", phase.name())),
    }
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
            total: Some(1 << 40),
            blocks: (seconds * 65_512.3) as u64,
            total_blocks: None,
            backlog: Some(backlog),
            stretch_blocks_per_second: None,
            seconds_left,
        }
    }

    /// What is said of a log of which 40,000 blocks and 8 MiB were read in the last second.
    fn of_log(stretches: &[f64]) -> Speed {
        let sample = |seconds: f64, bytes: u64, blocks: u64, stretch| Sample {
            bytes,
            blocks,
            backlog: None,
            stretch_blocks_per_second: stretch,
            ..sample(Phase::Read, seconds, Some(12_780.0))
        };
        let mut speed = Speed::default();
        stretches.iter().for_each(|&rate| speed.add(sample(9.0, 92 << 20, 160_000, Some(rate))));
        speed.add(sample(10.0, 100 << 20, 200_000, stretches.last().copied()));
        speed
    }

    #[test]
    fn a_phase_that_went_through_nothing_leaves_no_line() {
        assert_eq!(done_line(Phase::Read, 0.0, 0, 0), None);
        assert_eq!(done_line(Phase::Build, 0.1, 0, 0), None);
        let line = "read        2.0 s  1,234 blocks, 8.0 MiB, 4.0 MiB/s";
        assert_eq!(done_line(Phase::Read, 2.0, 8 << 20, 1234).as_deref(), Some(line));
    }

    #[test]
    fn the_rate_of_the_last_stretch_stands_beside_that_of_now() {
        let narrow = "40 k blocks/s, last 100,000 at 208 k, 3:33 h left";
        let log = of_log(&[104_000.0, 208_000.0]);
        assert_eq!((log.describe(50), log.least_room()), (narrow.to_owned(), narrow.len()));
        assert_eq!(log.describe_with_curve(61), format!("100.0 MiB, {narrow}"));
        assert_eq!(log.describe_with_curve(63), format!("100.0 MiB, {narrow} ▄█"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_the_least_important_first() {
        let mut speed = Speed::default();
        speed.add(sample(Phase::Read, 10.0, None));
        speed.add(sample(Phase::Read, 12.0, Some(754.2)));
        let whole = "768.0 MiB, 64.0 MiB/s, 65,512 blocks/s, 12:35 min left, 12 files at level 0, 1.5 GiB pending, \
                     writes stopped";
        for (room, text) in [
            (200, whole),
            (100, "768.0 MiB, 64.0 MiB/s, 12:35 min left, 12 files at level 0, 1.5 GiB pending, writes stopped"),
            (50, "768.0 MiB, 64.0 MiB/s, 12:35 min left"),
            (30, "64.0 MiB/s, 12:35 min left"),
            (14, "12:35 min left"),
            (5, ""),
        ] {
            assert_eq!(speed.describe(room), text);
        }
    }

    #[test]
    fn a_phase_that_counts_nothing_tells_the_time() {
        let mut speed = Speed::default();
        speed.add(Sample { backlog: None, ..sample(Phase::Ingest, 12.0, None) });
        assert_eq!(speed.describe(80), "12 s");
        speed.add(Sample { backlog: None, ..sample(Phase::Settle, 13.0, Some(0.4)) });
        assert_eq!(speed.describe(80), "1 s left");
    }

    #[test]
    fn times_are_told_in_the_unit_that_suits() {
        for (seconds, text) in
            [(0.2, "1 s"), (59.0, "59 s"), (60.0, "1:00 min"), (3599.5, "1:00 h"), (7260.0, "2:01 h")]
        {
            assert_eq!(duration(seconds), text);
        }
    }
}
