//! Advice about a machine before an import: findings, each with a remedy.

use crate::report::{Advice, DoctorReport};
use crate::text::size::human;

/// Open files that presets with small SST files, and nodes, need.
const FEW_FILES: u64 = 4096;

/// The id, what is said of the directory, and the remedy.
const REMOTE: (&str, &str, &str) =
    ("remote", "on another machine", "import to a local disk, and move the database then");
const OVERLAY: (&str, &str, &str) =
    ("overlay", "in the layers of a container, lost with it", "choose a --db on a volume");

/// All advice, the most important first.
///
/// `budget` is the memory of an import in bytes.
pub(super) fn advise(report: &DoctorReport, budget: u64) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut say =
        |id: &str, finding: String, remedy: &str| all.push(Advice { id: id.into(), finding, remedy: remedy.into() });
    let DoctorReport { dir, file_system, machine, .. } = report;
    let forecast = report.forecast.as_ref();

    if report.disk.is_none() {
        say("unwritable", format!("{dir} cannot be written to"), &format!("check who may: ls -ld {dir}; df -h {dir}"));
    }
    for space in forecast.iter().flat_map(|forecast| &forecast.plan.space) {
        if let Some(needed) = space.needed_bytes.filter(|&needed| needed > space.free_bytes) {
            let (needed, free) = (human(needed), human(space.free_bytes));
            let finding = format!("{} may need {needed} at {}, and {free} are free", space.holds, space.path);
            let remedy = if space.holds == "partitions" {
                "free some space, choose another --work-dir, or give more --memory so that none are needed"
            } else {
                // Partitions beside the database go while it grows, so they hardly add to it.
                "free some space, choose another --db, or a preset that compresses more (bedload presets list)"
            };
            say("space", finding, remedy);
        }
    }
    if let Some(hard) = machine.open_files_hard {
        let needed = forecast.map_or(FEW_FILES, |forecast| forecast.plan.open_files.max(FEW_FILES));
        if hard < needed {
            let remedy = format!("ulimit -Hn {needed}, LimitNOFILE={needed} for systemd, or --ulimit nofile={needed}");
            say("descriptors", format!("a process may have {hard} open files; {needed} are better"), &remedy);
        }
    }
    if let Some(available) = machine.available_bytes.filter(|&available| available < budget) {
        let finding = format!("an import would take {}, and {} are available", human(budget), human(available));
        say("memory", finding, &format!("give --memory {}MiB", available >> 20));
    }
    let place = match file_system.kind.as_str() {
        "nfs" | "smb" | "ceph" | "9p" => Some(REMOTE),
        "overlay" => Some(OVERLAY),
        _ => None,
    };
    if let Some((id, place, remedy)) = place {
        say(id, format!("{dir} is {place}"), remedy);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{PlanChoice, planner};
    use crate::report::{DiskSpeed, FileSystemInfo, Forecast, HashRate, Latency, MachineInfo, Space};

    const GIB: u64 = 1 << 30;

    struct Scene {
        file_system: FileSystemInfo,
        disk: Option<DiskSpeed>,
        machine: MachineInfo,
        forecast: Option<Forecast>,
    }

    impl Scene {
        fn good() -> Self {
            let latency = Some(Latency { median_us: 100.0, p99_us: 900.0, count: 500 });
            Self {
                file_system: FileSystemInfo {
                    kind: "ext4".into(),
                    device: 1,
                    total_bytes: 100 * GIB,
                    free_bytes: 50 * GIB,
                },
                disk: Some(DiskSpeed {
                    sync_write: latency,
                    fsync: latency,
                    write_bytes_per_second: Some(1e9),
                    synced_write_bytes_per_second: Some(1e9),
                    read_bytes_per_second: Some(1e9),
                    random_reads_per_second: Some(1e4),
                    past_the_cache: "direct".into(),
                    file_bytes: 1 << 28,
                }),
                machine: MachineInfo {
                    cores: 4,
                    memory_bytes: Some(16 * GIB),
                    available_bytes: Some(12 * GIB),
                    cgroup_bytes: None,
                    open_files_soft: Some(1024),
                    open_files_hard: Some(1 << 20),
                },
                forecast: None,
            }
        }

        fn ids(&self) -> Vec<String> {
            let Self { file_system, disk, machine, forecast } = self;
            let report = DoctorReport {
                schema: String::new(),
                dir: "/data".into(),
                file_system: file_system.clone(),
                disk: disk.clone(),
                machine: machine.clone(),
                hash: HashRate::default(),
                forecast: forecast.clone(),
                warnings: Vec::new(),
                seconds: 0.0,
            };
            let found = advise(&report, 8 * GIB);
            for advice in &found {
                assert!(!advice.finding.is_empty() && !advice.remedy.is_empty(), "{advice:?}");
            }
            found.into_iter().map(|advice| advice.id).collect()
        }
    }

    #[test]
    fn good_machine_needs_no_advice() {
        assert_eq!(Scene::good().ids(), Vec::<String>::new());
    }

    #[test]
    fn each_weakness_is_named() {
        type Change = fn(&mut Scene);
        let cases: [(&str, Change); 5] = [
            ("unwritable", |scene| scene.disk = None),
            ("descriptors", |scene| scene.machine.open_files_hard = Some(512)),
            ("memory", |scene| scene.machine.available_bytes = Some(4 * GIB)),
            ("remote", |scene| scene.file_system.kind = "nfs".into()),
            ("overlay", |scene| scene.file_system.kind = "overlay".into()),
        ];
        for (id, change) in cases {
            let mut scene = Scene::good();
            change(&mut scene);
            assert_eq!(scene.ids(), [id]);
        }
    }

    #[test]
    fn lack_of_space_is_found() {
        let mut plan = planner::choose(PlanChoice::Spill, Some(4 * GIB), true, GIB, 2, 1024, 256 << 20);
        plan.space = vec![Space {
            path: "/data".into(),
            file_system: "ext4".into(),
            device: 1,
            holds: "database".into(),
            needed_bytes: Some(5 * GIB),
            certain_bytes: 0,
            least_bytes: 0,
            free_bytes: 3 * GIB,
        }];
        let mut scene = Scene::good();
        scene.forecast = Some(Forecast { source: "s".into(), plan, prediction: None });
        assert_eq!(scene.ids(), ["space"]);
        scene.machine.available_bytes = Some(4 * GIB);
        assert_eq!(scene.ids(), ["space", "memory"]);
    }
}
