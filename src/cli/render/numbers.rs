//! Numbers, rates and times as text.

use std::collections::BTreeMap;

use crate::report::rfc3339;
use crate::rocks::Level;
use crate::text::size::{self, human};
pub use crate::text::size::{counted, grouped};

/// A phase that is shorter, in seconds, would be shown as 0.0.
pub const SHORT: f64 = 0.05;

/// A longer time, in seconds, is printed in minutes: `60.0 s` is not.
const MINUTE: f64 = 59.95;

/// A rate in at most six characters: `9,999`, `212 k`, `1.2 M`.
pub fn short(rate: f64) -> String {
    let rate = rate.max(0.0);
    match rate {
        0.0..9_999.5 => grouped(rate.round() as u64),
        9_999.5..999_500.0 => format!("{:.0} k", rate / 1e3),
        _ => format!("{:.1} M", rate / 1e6),
    }
}

/// Bytes in a time, as `640.0 MiB/s`.
pub fn throughput(bytes: u64, seconds: f64) -> String {
    format!("{}/s", human((bytes as f64 / seconds.max(0.001)) as u64))
}

/// Whole percent; 100 only when all is done.
pub fn percent(done: f64) -> u64 {
    (done * 100.0) as u64
}

/// A measured time with one digit: `12.3 s`; below [`SHORT`] in a smaller unit, from a minute on as `2:05 min`.
pub fn took(seconds: f64) -> String {
    match seconds {
        _ if seconds < SHORT => size::seconds(seconds),
        _ if seconds < MINUTE => format!("{seconds:.1} s"),
        _ => size::minutes(seconds.round() as u64),
    }
}

/// A time rounded up to whole seconds: `12 s`, `12:35 min` or `3:33 h`.
pub fn duration(seconds: f64) -> String {
    size::minutes(seconds.ceil() as u64)
}

/// `0:12`, `12:35` or `3:33:07`: how long something has run
pub fn elapsed(seconds: f64) -> String {
    let seconds = seconds as u64;
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds % 3600 / 60, seconds % 60),
    }
}

/// `176.4 of 256.0 MiB`, `768.0 MiB of 1.0 GiB`, or without a total `176.4 MiB`
pub fn done_of(bytes: u64, total: Option<u64>) -> String {
    let Some(total) = total else { return human(bytes) };
    let (done, all) = (human(bytes.min(total)), human(total));
    match (done.split_once(' '), all.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} of {all}"),
        _ => format!("{done} of {all}"),
    }
}

/// Seconds since 1970 as a date in UTC.
pub fn date(timestamp: u64) -> String {
    // A timestamp is any number.
    rfc3339(timestamp).map_or_else(|| "after the year 9999".into(), |text| text.replace('T', " ").replace('Z', " UTC"))
}

/// The files of each level: `L0: 3 files, 1.2 MiB; L6: 1 file, 64.0 MiB`.
pub fn levels(levels: &[Level]) -> String {
    let level = |it: &Level| format!("L{}: {}, {}", it.level, counted(it.files, "file", "files"), human(it.bytes));
    let text = levels.iter().map(level).collect::<Vec<_>>().join("; ");
    if text.is_empty() { "empty".into() } else { text }
}

/// The phases of an import that took time: `read 1.9, build 2.9`.
pub fn phases(seconds: &BTreeMap<String, f64>) -> String {
    let phase = |name: &&str| {
        let took = *seconds.get(*name)?;
        let text = if took < MINUTE { format!("{took:.1}") } else { size::seconds(took) };
        (took >= SHORT).then(|| format!("{name} {text}"))
    };
    ["read", "build", "ingest", "compact", "check"].iter().filter_map(phase).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_match_the_calendar() {
        // From `date -u -d @..`.
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_598_306_400), "2020-08-24 22:00:00 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59:59 UTC");
        assert_eq!(date(253_402_300_799), "9999-12-31 23:59:59 UTC");
        assert_eq!(date(253_402_300_800), "after the year 9999");
        assert_eq!(date(u64::MAX), "after the year 9999");
    }

    #[test]
    fn rates_are_short() {
        for (rate, text) in [
            (0.0, "0"),
            (9_999.4, "9,999"),
            (9_999.6, "10 k"),
            (212_345.0, "212 k"),
            (999_499.0, "999 k"),
            (999_501.0, "1.0 M"),
            (12_340_000.0, "12.3 M"),
        ] {
            assert_eq!(short(rate), text);
        }
    }

    #[test]
    fn durations_have_a_suitable_unit() {
        for (seconds, text) in
            [(0.2, "1 s"), (59.0, "59 s"), (60.0, "1:00 min"), (3599.5, "1:00 h"), (7260.0, "2:01 h")]
        {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn times_over_a_minute_are_minutes() {
        for (seconds, text) in [(0.004, "4.00 ms"), (59.94, "59.9 s"), (59.96, "1:00 min"), (3725.0, "1:02 h")] {
            assert_eq!(took(seconds), text);
        }
        let times = [("read".to_owned(), 5.04), ("build".to_owned(), 75.0)];
        assert_eq!(phases(&times.into()), "read 5.0, build 1:15 min");
    }
}
