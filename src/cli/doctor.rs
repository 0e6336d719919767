//! `bedload doctor`: what this machine can do, before an import finds out.

use std::path::PathBuf;

use bedload::doctor::{DoctorOptions, examine};
use bedload::load::PlanChoice;
use bedload::report::{DoctorReport, Latency, Prediction};
use bedload::size::human;

use super::shared::advice;
use super::{Globals, import, screen, values};

/// Measure what decides an import: disk, cores, limits; and what could be better
///
/// Takes some seconds. With a snapshot, a sample of it is imported into a directory in DIR, which tells how long all of it
/// will take. Nothing that is written stays.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: bedload doctor --dir /data snapshot.forest.car.zst")]
pub struct Args {
    /// A snapshot to choose a plan for and to predict the import of
    #[arg(value_name = "SNAPSHOT")]
    pub source: Option<PathBuf>,
    /// Where the database would stand, or stands
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Memory that the import may use; the default is half of what the machine or its cgroup has
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub memory: Option<u64>,
    /// Threads of the import, instead of as many as the preset says or the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Where the import would put partitions; the default is beside the database
    #[arg(long, value_name = "DIR")]
    pub work_dir: Option<PathBuf>,
    /// Whether blocks go through memory or through files; auto takes what fits the budget
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = import::plan_choice())]
    pub plan: PlanChoice,
    /// Preset of the import: a name (`bedload presets list`) or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub preset: Option<String>,
    /// Set one option on top of the preset; may be repeated
    #[arg(long, value_name = "MOMENT.SCOPE.OPTION=VALUE")]
    pub set: Vec<String>,
}

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let mut options = DoctorOptions::new(&args.dir, args.source.clone());
    bedload::raise_open_files();
    options.import.memory = args.memory;
    options.import.threads = args.threads.map(usize::from);
    options.import.work_dir.clone_from(&args.work_dir);
    options.import.plan = args.plan;
    options.import.preset.clone_from(&args.preset);
    options.import.overrides =
        bedload::preset::Overrides { set: args.set.clone(), ..bedload::preset::Overrides::from_environment() };
    super::stop::on_signals(&options.stop, "nothing is left over; run the same command again")?;
    let report = examine(&options)?;
    if globals.json {
        return super::print_json(&report);
    }
    screen::print(&summary(&report), 10)?;
    Ok(())
}

/// The result for people.
fn summary(report: &DoctorReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&screen::row(name, 9, &value));
    line("directory", report.dir.clone());
    let system = &report.file_system;
    let turns = match system.rotational {
        Some(true) => ", rotational by its own word",
        Some(false) => ", not rotational",
        None => "",
    };
    line(
        "space",
        format!("{} free of {} ({}{turns})", human(system.free_bytes), human(system.total_bytes), system.kind),
    );
    if let Some(disk) = &report.disk {
        line("sync", format!("4 KiB with O_DSYNC {}; fsync {}", latency(disk.sync_write), latency(disk.fsync)));
        line(
            "write",
            format!(
                "{} ({}); {} with a sync at the end",
                rate(disk.write_bytes_per_second),
                disk.past_the_cache,
                rate(disk.synced_write_bytes_per_second)
            ),
        );
        let random = disk.random_reads_per_second.map_or_else(|| "unknown".into(), |reads| format!("{reads:.0}"));
        line(
            "read",
            format!("{} ({}); {random} reads of 4 KiB a second", rate(disk.read_bytes_per_second), disk.past_the_cache),
        );
    }
    let machine = &report.machine;
    line("cores", machine.cores.to_string());
    let hash = report.hash;
    line(
        "hashing",
        format!("{}/s on one core, {}/s on all", human(hash.one_core as u64), human(hash.all_cores as u64)),
    );
    let bytes = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), human);
    let group =
        machine.cgroup_bytes.map_or_else(|| "no limit of a cgroup".into(), |limit| format!("cgroup {}", human(limit)));
    line(
        "memory",
        format!(
            "{} ({} available), {group}, swap {}",
            bytes(machine.memory_bytes),
            bytes(machine.available_bytes),
            bytes(machine.swap_bytes)
        ),
    );
    let files = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    line("files", format!("{} soft, {} hard", files(machine.open_files_soft), files(machine.open_files_hard)));
    if let Some(forecast) = &report.forecast {
        line("snapshot", forecast.source.clone());
        line("plan", forecast.plan.describe());
        line(
            "forecast",
            match &forecast.prediction {
                Some(prediction) => format!(
                    "{}, {} of disk at the peak, {} of memory; limited by the {}; from a sample of {}",
                    seconds(prediction),
                    bytes(prediction.peak_disk_bytes),
                    human(prediction.memory_bytes),
                    prediction.limited_by,
                    human(prediction.sample_bytes)
                ),
                None => "only for files, the ingest loader, and a directory with room for a sample".into(),
            },
        );
    }
    if report.warnings.is_empty() {
        line("advice", "none: nothing here holds an import back".into());
    }
    text.push_str(&advice(&report.warnings));
    text
}

/// `4.9 s (read 1.9, build 2.9)`
fn seconds(prediction: &Prediction) -> String {
    let number = |name: &str| prediction.seconds.get(name).and_then(serde_json::Value::as_f64);
    let phases: Vec<String> = ["read", "build", "ingest", "settle", "check"]
        .into_iter()
        .filter_map(|phase| Some(format!("{phase} {:.1}", number(phase)?)))
        .collect();
    format!("{:.1} s ({})", number("total").unwrap_or_default(), phases.join(", "))
}

fn latency(latency: Option<Latency>) -> String {
    latency.map_or_else(
        || "unknown".into(),
        |Latency { median_us, p99_us, .. }| format!("{:.2} ms (99 %: {:.2} ms)", median_us / 1000.0, p99_us / 1000.0),
    )
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| "unknown".into(), |rate| format!("{}/s", human(rate as u64)))
}
