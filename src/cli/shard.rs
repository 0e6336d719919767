//! `--shard`: a shard of a source, by number or by the task number of an array.

use crate::Error;
use crate::sort::shard::{MAX_SHARDS, Shard};

/// Environment variables with a task number that counts from 0.
const ENGINES: [&str; 3] = ["SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX", "AWS_BATCH_JOB_ARRAY_INDEX"];

/// Variable with the highest task number of a Slurm array.
const SLURM_LAST: &str = "SLURM_ARRAY_TASK_MAX";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardArg {
    Number(Shard),
    /// One of this many shards, chosen by the task number.
    Auto(u32),
}

/// Parses `I/N` or `auto/N`.
pub fn parse(text: &str) -> Result<ShardArg, String> {
    let wrong = || format!("`{text}` is not a shard: write it as 0/16 .. 15/16, or auto/16");
    let (number, of) = text.split_once('/').ok_or_else(wrong)?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let of: u32 = Some(of).filter(|of| digits(of)).and_then(|of| of.parse().ok()).ok_or_else(wrong)?;
    if !(1..=MAX_SHARDS).contains(&of) {
        return Err(format!("there can be 1 to {MAX_SHARDS} shards, and not {of}"));
    }
    if number == "auto" {
        return Ok(ShardArg::Auto(of));
    }
    let number: u32 = Some(number).filter(|it| digits(it)).and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
    let out = || format!("there is no shard {text}: they are counted from 0, so the last one is {}/{of}", of - 1);
    Shard::new(number, of).map(ShardArg::Number).ok_or_else(out)
}

impl ShardArg {
    /// Returns the shard, with the task number of the environment.
    pub fn resolve(self, variable: impl Fn(&str) -> Option<String>) -> Result<Shard, Error> {
        let of = match self {
            Self::Number(shard) => return Ok(shard),
            Self::Auto(of) => of,
        };
        let usage = |reason: String, hint: String| Err(Error::Usage { reason, hint: hint.into() });
        let found: Vec<(&str, String)> = ENGINES.iter().filter_map(|name| Some((*name, variable(name)?))).collect();
        let (name, value) = match found.as_slice() {
            [one] => one,
            [] => {
                let reason = format!("--shard auto/{of} finds no number: none of {} is set", ENGINES.join(", "));
                return usage(reason, format!("run it as a task of an array, or give the number: --shard 0/{of}"));
            }
            [(name, _), ..] => {
                let all: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let reason = format!("--shard auto/{of} finds more than one number: {}", all.join(", "));
                return usage(reason, format!("choose one, as in --shard ${name}/{of}"));
            }
        };
        let number = value.parse().ok().and_then(|number| Shard::new(number, of));
        // In an array from 1 to N, only the last task would fail, and shard 0 would be missing.
        let last = Some(SLURM_LAST).filter(|_| name.starts_with("SLURM")).and_then(variable);
        let fits = last.as_ref().is_none_or(|last| last.parse().is_ok_and(|last| Shard::new(last, of).is_some()));
        number.filter(|_| fits).map_or_else(
            || {
                let (last, end) = (last.map(|last| format!(" ({SLURM_LAST}={last})")).unwrap_or_default(), of - 1);
                let reason =
                    format!("{name}={value}{last} is not one of {of} shards, which are counted from 0 to {end}");
                usage(reason, format!("number the tasks from 0 to {end}, e.g. sbatch --array=0-{end}"))
            },
            Ok,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(of: u32, variables: &[(&str, &str)]) -> Result<Shard, (String, String)> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        ShardArg::Auto(of).resolve(variable).map_err(|error| (error.to_string(), error.hint()))
    }

    #[test]
    fn shards_are_counted_from_0() {
        assert_eq!(parse("0/16"), Ok(ShardArg::Number(Shard { number: 0, of: 16 })));
        assert_eq!(parse("15/16"), Ok(ShardArg::Number(Shard { number: 15, of: 16 })));
        assert_eq!(parse("auto/65536"), Ok(ShardArg::Auto(65536)));
        let last = parse("16/16").expect_err("counted from 0");
        assert!(last.contains("counted from 0, so the last one is 15/16"), "{last}");
        for text in
            ["", "3", "1/", "/4", "a/4", "-1/4", "+1/4", "1/4/8", "0/0", "0/65537", "auto/0", "auto/99999999999"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn engines_number_their_tasks() {
        for name in ENGINES {
            assert_eq!(auto(16, &[(name, "3")]), Ok(Shard { number: 3, of: 16 }), "{name}");
            for wrong in ["16", "", "-1", "three"] {
                let (reason, _) = auto(16, &[(name, wrong)]).expect_err(wrong);
                assert!(reason.contains(&format!("{name}={wrong} is not one of 16 shards")), "{reason}");
            }
        }
        let (reason, _) = auto(16, &[]).expect_err("nothing is set");
        assert!(reason.contains("none of SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX"), "{reason}");
        let two = [("JOB_COMPLETION_INDEX", "1"), ("SLURM_ARRAY_TASK_ID", "2")];
        let (reason, hint) = auto(16, &two).expect_err("two are set");
        assert!(reason.ends_with("SLURM_ARRAY_TASK_ID=2, JOB_COMPLETION_INDEX=1"), "{reason}");
        assert!(hint.contains("--shard $SLURM_ARRAY_TASK_ID/16"), "{hint}");
    }

    #[test]
    fn slurm_array_from_1_is_refused() {
        let task = |last, number| auto(16, &[("SLURM_ARRAY_TASK_ID", number), ("SLURM_ARRAY_TASK_MAX", last)]);
        let (reason, hint) = task("16", "1").expect_err("counted from 1");
        assert!(reason.contains("SLURM_ARRAY_TASK_ID=1 (SLURM_ARRAY_TASK_MAX=16) is not one of 16"), "{reason}");
        assert!(hint.contains("--array=0-15"), "{hint}");
        // A single task that is run again keeps its number.
        assert_eq!(task("5", "5"), Ok(Shard { number: 5, of: 16 }));
    }
}
