//! The options of a comparison.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::matrix::Vary;
use crate::progress::CancellationToken;
use crate::source::remote::NetworkOptions;

/// The default share by which a variant may be slower than another one and still be recommended.
const DEFAULT_MARGIN: f64 = 0.05;

#[derive(Debug, Clone, clap::Args)]
pub struct BenchOptions {
    #[arg(skip)]
    pub source: PathBuf,
    #[arg(skip)]
    pub network: NetworkOptions,
    /// The command of the user, for the report.
    #[arg(skip)]
    pub command: Option<String>,
    /// The program whose `import`, `walk` and `bench-read` are run.
    #[arg(skip)]
    pub program: PathBuf,
    /// Presets, by name or path.
    #[arg(skip)]
    pub presets: Vec<String>,
    /// Options and arguments of all variants.
    #[arg(skip)]
    pub set: Vec<String>,
    /// Lists of values; the variants are all combinations.
    #[arg(skip)]
    pub vary: Vec<Vary>,
    /// The variant that the others are compared with; `None` for the first.
    #[arg(skip)]
    pub reference: Option<String>,
    /// Percent by which a recommended preset may be slower than another [default: 5]
    ///
    /// The whole 95 % interval of the ratio must lie below; a smaller margin needs more rounds.
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Variants", hide_short_help = true)]
    pub margin: Option<f64>,

    /// Rounds that count
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Measurement")]
    pub runs: u32,
    /// Warm-up rounds
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Measurement", hide_short_help = true)]
    pub warmup: u32,
    /// Seed of the order in each round and of the choice of keys
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Measurement", hide_short_help = true)]
    pub seed: u64,
    /// Empty the page cache before each import; without --cold the snapshot is read once beforehand
    #[arg(long, help_heading = "Measurement")]
    pub cold: bool,
    /// Start no run that is expected to end after this time, e.g. 90m
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Measurement")]
    pub budget: Option<Duration>,
    /// Lookups of each kind in each finished database; 0 for none
    #[arg(long, value_name = "N", default_value_t = 2000, help_heading = "Measurement", hide_short_help = true)]
    pub lookups: u64,
    /// Of a database, import only ranges of about this size, spread over its keys; estimates the size of the whole copy
    #[arg(long, value_name = "SIZE", value_parser = crate::text::size::parse, help_heading = "Measurement")]
    pub sample: Option<u64>,
    /// Look up these keys instead of drawn ones: a file with one key a line, in hex
    #[arg(long, value_name = "FILE", help_heading = "Measurement", hide_short_help = true)]
    pub keys: Option<PathBuf>,
    /// Skip the scan of each finished database
    #[arg(long, help_heading = "Measurement", hide_short_help = true)]
    pub no_scan: bool,

    /// Directory of the temporary databases; its file system affects the results
    #[arg(long, value_name = "DIR", help_heading = "Directories and results")]
    pub dir: Option<PathBuf>,
    /// Directory of the results: results.json, runs.ndjson, report.md
    #[arg(long, value_name = "DIR", default_value = "bedload-bench", help_heading = "Directories and results")]
    pub out: PathBuf,
    /// Cancelled by the caller to end the comparison.
    #[arg(skip)]
    pub stop: CancellationToken,
}

impl BenchOptions {
    /// Returns the directory of the temporary databases.
    pub(super) fn work_dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(&self.out)
    }

    /// True if nothing is read before an import. A sample is not worth reading a whole database.
    pub(super) fn is_cold(&self) -> bool {
        self.cold || self.sample.is_some()
    }

    pub(super) fn margin(&self) -> f64 {
        self.margin.unwrap_or(DEFAULT_MARGIN)
    }
}

/// Parses a percentage such as `5`, `2.5` or `5%` of more than 0 and at most 100, as a share.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let share = number.ok().filter(|it| *it > 0.0 && *it <= 100.0).map(|it| it / 100.0);
    share.ok_or_else(|| format!("`{text}` is not a percentage above 0 and up to 100: write it as 5 or 2.5"))
}

/// Parses a time of whole seconds, such as `45s`, `90m`, `1h30m` or `2d`.
fn duration(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).ok().filter(|time| time.as_secs() > 0 && time.subsec_nanos() == 0);
    time.ok_or_else(|| format!("`{text}` is not a time: write it as 45s, 90m or 1h30m"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in
            [("45s", 45), ("90m", 5400), ("1h30m", 5400), ("2d", 172_800), ("1.5h", 5400), (" 1h ", 3600)]
        {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in
            ["", "45", "m", "1h30", "0s", "-1s", "1500ms", "99999999999999999999s", "9999999999999999999d", "1x"]
        {
            assert!(duration(text).expect_err(text).contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn percentages_are_shares() {
        for (text, share) in [("5", 0.05), ("2.5%", 0.025), ("100", 1.0)] {
            assert_eq!(percent(text), Ok(share), "{text}");
        }
        for text in ["", "0", "-1", "101", "NaN", "inf", "five"] {
            assert!(percent(text).expect_err(text).contains("is not a percentage"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn time_of_whole_seconds_or_refused(text in "[0-9smhd ]{0,30}|[0-9]{1,20}[smhd]|.{0,12}") {
            match duration(&text) {
                Ok(time) => prop_assert!(time.as_secs() > 0 && time.subsec_nanos() == 0),
                Err(why) => prop_assert!(why.contains("is not a time")),
            }
        }

        #[test]
        fn parts_of_a_time_add_up(days in 0u64..1000, hours in 0u64..1000, minutes in 0u64..1000, seconds in 1u64..1000) {
            let time = duration(&format!("{days}d{hours}h{minutes}m{seconds}s"));
            prop_assert_eq!(time, Ok(Duration::from_secs(((days * 24 + hours) * 60 + minutes) * 60 + seconds)));
        }
    }
}
