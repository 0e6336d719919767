//! How fast the first and the last tenth of a source were read: whether an import slows down as it goes on.
//!
//! Samples at fixed intervals are too far apart for that in a short import, so the reader's own steps are noted: the
//! step that crosses a tenth of the source and those from nine tenths on, each at its exact place and time.

use serde::{Deserialize, Serialize};

/// Bytes per second at both ends of a source, as stored on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Throughput {
    /// From the start of reading until a tenth was taken; `None` where the size is not known (a pipe), or the source so
    /// small that it was taken in a few steps.
    pub first_tenth_bytes_per_second: Option<u64>,
    /// From nine tenths until the last byte was taken; `None` as above.
    pub last_tenth_bytes_per_second: Option<u64>,
}

/// How many equal steps a source is cut into.
const STEPS: u64 = 64;

/// A place in the source, and when it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadStep {
    /// Bytes taken, of the source as stored on disk.
    pub bytes: u64,
    /// Seconds since reading began.
    pub seconds: f64,
}

/// A place in the source and the seconds until it was reached.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    bytes: u64,
    seconds: f64,
}

impl Mark {
    fn rate_from(self, from: Self) -> Option<u64> {
        let seconds = self.seconds - from.seconds;
        (seconds > 0.0).then(|| (self.bytes.saturating_sub(from.bytes) as f64 / seconds) as u64)
    }
}

/// The marks that were noted while reading.
#[derive(Debug, Default)]
pub(super) struct SampledThroughput {
    /// The first step at or beyond one tenth.
    tenth: Option<Mark>,
    /// The first step at or beyond nine tenths.
    nine_tenths: Option<Mark>,
    /// The last step that went further than the one before.
    last: Option<Mark>,
    total: u64,
    /// The first mark at or beyond each of the equal steps; a mark beyond several is there once.
    steps: Vec<Mark>,
}

impl SampledThroughput {
    /// Notes that `bytes` of `total` have been taken after `seconds`.
    pub fn reach(&mut self, seconds: f64, bytes: u64, total: u64) {
        let mark = Mark { bytes, seconds };
        self.total = total;
        // In parts of ten, so that no product overflows and an unknown total is never reached.
        let tenth = total / 10;
        if bytes >= tenth {
            self.tenth.get_or_insert(mark);
        }
        if bytes >= total - tenth {
            self.nine_tenths.get_or_insert(mark);
        }
        if self.last.is_none_or(|last| last.bytes < bytes) {
            self.last = Some(mark);
            let step = |bytes: u64| u128::from(bytes) * u128::from(STEPS) / u128::from(total.max(1));
            if total != u64::MAX && step(bytes) > self.steps.last().map_or(0, |mark| step(mark.bytes)) {
                self.steps.push(mark);
            }
        }
    }

    /// When each step had been taken.
    pub fn steps(&self) -> Vec<ReadStep> {
        self.steps.iter().map(|&Mark { bytes, seconds }| ReadStep { bytes, seconds }).collect()
    }

    /// The throughput of both ends; `None` where the steps were not well below a tenth.
    pub fn of_ends(&self) -> Throughput {
        let half_a_tenth = self.total / 20;
        let near = |mark: &Mark, place: u64| mark.bytes <= place + half_a_tenth;
        let tenth = self.tenth.filter(|mark| near(mark, self.total / 10));
        let nine_tenths = self.nine_tenths.filter(|mark| near(mark, self.total - self.total / 10));
        Throughput {
            first_tenth_bytes_per_second: tenth.and_then(|mark| mark.rate_from(Mark::default())),
            last_tenth_bytes_per_second: nine_tenths.and_then(|from| self.last?.rate_from(from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `total` bytes in equal steps: a second each in the first half, two in the second.
    fn slowing_down(total: u64, steps: u64) -> Throughput {
        let mut marks = SampledThroughput::default();
        let mut seconds = 0.0;
        for step in 1..=steps {
            seconds += if step <= steps / 2 { 1.0 } else { 2.0 };
            marks.reach(seconds, total * step / steps, total);
        }
        // The end is noted once more, when there is nothing left to take.
        marks.reach(seconds + 1000.0, total, total);
        marks.of_ends()
    }

    #[test]
    fn a_reader_that_slows_down_is_seen_at_the_end() {
        let half = Throughput { first_tenth_bytes_per_second: Some(10), last_tenth_bytes_per_second: Some(5) };
        assert_eq!(slowing_down(1000, 100), half);
        // Steps that do not hit the tenths: every mark is where its step ended.
        assert_eq!(
            slowing_down(33_000, 33),
            Throughput { first_tenth_bytes_per_second: Some(1000), last_tenth_bytes_per_second: Some(500) }
        );
    }

    #[test]
    fn the_way_through_the_source_is_kept_in_equal_steps() {
        let mut marks = SampledThroughput::default();
        for step in 1..=1000 {
            marks.reach(step as f64, step * 640, 640_000);
        }
        let steps = marks.steps();
        assert_eq!(steps.len(), 64);
        assert_eq!(steps[0], ReadStep { bytes: 10_240, seconds: 16.0 });
        assert_eq!(steps[63], ReadStep { bytes: 640_000, seconds: 1000.0 });
        let mut pipe = SampledThroughput::default();
        pipe.reach(1.0, 5000, u64::MAX);
        assert_eq!(pipe.steps(), [], "without a size there are no steps");
    }

    #[test]
    fn too_few_steps_tell_nothing() {
        assert_eq!(slowing_down(1000, 1), Throughput::default());
        assert_eq!(slowing_down(1000, 4), Throughput::default());
        assert_eq!(SampledThroughput::default().of_ends(), Throughput::default());
    }

    #[test]
    fn a_source_of_unknown_size_has_no_tenths() {
        let mut marks = SampledThroughput::default();
        (1..100).for_each(|step| marks.reach(step as f64, step << 20, u64::MAX));
        assert_eq!(marks.of_ends(), Throughput::default());
    }
}
