//! The report of `bedload doctor`.

use crate::report::{DoctorReport, Latency};
use crate::text::size::{human, seconds};

use crate::cli::render::numbers::{phases, took};
use crate::cli::render::rows::{NAMES, Rows};

const UNKNOWN: &str = "unknown";

pub fn text(report: &DoctorReport) -> String {
    let mut rows = Rows::new(NAMES);
    add_disk(&mut rows, report);
    add_machine(&mut rows, report);
    add_forecast(&mut rows, report);
    if report.warnings.is_empty() {
        rows.add("advice", "none: no bottleneck found");
    }
    rows.add_advice(&report.warnings);
    rows.into_text()
}

fn add_disk(rows: &mut Rows, report: &DoctorReport) {
    rows.add("directory", &report.dir);
    let system = &report.file_system;
    let (free, total) = (human(system.free_bytes), human(system.total_bytes));
    rows.add("space", format!("{free} free of {total} ({})", system.kind));
    let Some(disk) = &report.disk else { return };
    rows.add("sync", format!("4 KiB with O_DSYNC {}; fsync {}", latency(disk.sync_write), latency(disk.fsync)));
    let (write, synced) = (rate(disk.write_bytes_per_second), rate(disk.synced_write_bytes_per_second));
    rows.add("write", format!("{write} ({}); {synced} with a sync at the end", disk.past_the_cache));
    let random = disk.random_reads_per_second.map_or_else(|| UNKNOWN.into(), |reads| format!("{reads:.0}"));
    let read = rate(disk.read_bytes_per_second);
    rows.add("read", format!("{read} ({}); {random} reads of 4 KiB a second", disk.past_the_cache));
}

fn add_machine(rows: &mut Rows, report: &DoctorReport) {
    let machine = &report.machine;
    let (one, all) = (human(report.hash.one_core as u64), human(report.hash.all_cores as u64));
    rows.add("cores", machine.cores.to_string());
    rows.add("hashing", format!("{one}/s on one core, {all}/s on all cores"));
    let group = machine.cgroup_bytes.map_or("no cgroup limit".into(), |limit| format!("cgroup {}", human(limit)));
    let [memory, available] = [machine.memory_bytes, machine.available_bytes].map(bytes);
    rows.add("memory", format!("{memory} ({available} available), {group}"));
    let files = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    rows.add(
        "files",
        format!(
            "{} open at once (soft limit), {} (hard limit)",
            files(machine.open_files_soft),
            files(machine.open_files_hard)
        ),
    );
}

fn add_forecast(rows: &mut Rows, report: &DoctorReport) {
    let Some(forecast) = &report.forecast else { return };
    rows.add("snapshot", &forecast.source);
    rows.add("plan", forecast.plan.describe());
    let Some(prediction) = &forecast.prediction else {
        return rows
            .add("forecast", "none: it needs a plain or zstd CAR or block log, the ingest loader and free space");
    };
    let total = prediction.seconds.get("total").copied().unwrap_or_default();
    let (time, phases) = (took(total), phases(&prediction.seconds));
    let (disk, memory) = (bytes(prediction.peak_disk_bytes), human(prediction.memory_bytes));
    let (by, sample) = (&prediction.limited_by, human(prediction.sample_bytes));
    let needs = format!("{disk} of disk at the peak, {memory} of memory");
    rows.add(
        "forecast",
        format!("{time} ({phases}), {needs}; limited by the {by}; measured with a sample of {sample}"),
    );
}

fn bytes(value: Option<u64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), human)
}

fn latency(latency: Option<Latency>) -> String {
    let text = |it: Latency| format!("{} (p99: {})", seconds(it.median_us / 1e6), seconds(it.p99_us / 1e6));
    latency.map_or_else(|| UNKNOWN.into(), text)
}

fn rate(rate: Option<f64>) -> String {
    rate.map_or_else(|| UNKNOWN.into(), |rate| format!("{}/s", human(rate as u64)))
}
