//! What the phases of an import are expected to take, for the time that is left.
//!
//! A prediction says it in seconds. Where there is none (nothing is measured, the source is small or was begun by an
//! earlier run, another loader) the proportions between the phases are those of imports that were measured: of 2 GiB
//! of blocks of 1.1 KB on two cores, from the page cache.

use super::options::ImportOptions;
use super::plan::Plan;
use crate::progress::{Outlook, Phase};
use crate::report::Prediction;
use crate::rocks::option_map::{Group, OptionMap};

/// Building over what reading takes: of blocks that are held and of those that were spilled, each from a file as it is
/// and from one that is unpacked.
const BUILD_HELD: [f64; 2] = [1.6, 0.95];
const BUILD_SPILLED: [f64; 2] = [1.25, 1.2];

/// Handing over and opening once more, over what reading takes.
const HAND_OVER: [(Phase, f64); 3] = [(Phase::Ingest, 0.02), (Phase::Settle, 0.01), (Phase::Publish, 0.005)];

/// A compaction of files that were taken over into a database that holds others, over what reading takes.
const COMPACT_ADDED: f64 = 0.8;

/// What follows on writing through memtables, over what that takes: the final compaction, of everything where RocksDB has
/// not compacted by itself and else of what is left; and the check.
const COMPACT_ALL: f64 = 0.85;
const COMPACT_REST: f64 = 0.7;
const CHECK: f64 = 0.06;

/// The share of writing through memtables that is flushing in the end, were everything still in memtables then.
const FLUSH: f64 = 0.5;

/// Ids of transactions that are sorted and built, over what reading their log takes.
const TRANSACTIONS: f64 = 0.2;

/// What is ahead of an import that stands before its first block. `plain` sources are files that need no unpacking.
pub(super) fn of(
    options: &ImportOptions,
    plan: &Plan,
    loading: &OptionMap,
    plain: bool,
    prediction: Option<&Prediction>,
) -> Outlook {
    if let Some(prediction) = prediction {
        let expected = |phase: Phase| Some((phase, prediction.seconds.get(phase.name())?.as_f64()?));
        let phases = [Phase::Read, Phase::Build, Phase::Ingest, Phase::Settle, Phase::Publish];
        let phases: Vec<_> = phases.into_iter().filter_map(expected).collect();
        return Outlook { phases, in_seconds: true, ..Outlook::default() };
    }
    let mut tail = 0.0;
    let mut phases = vec![(Phase::Read, 1.0)];
    let way = usize::from(!plain);
    match (&plan.memtable, &plan.log) {
        (None, Some(_)) => {
            if options.log.index_transactions {
                phases.push((Phase::Build, TRANSACTIONS));
            }
            phases.extend(HAND_OVER);
        }
        (None, None) => {
            phases.push((Phase::Build, if plan.spill { BUILD_SPILLED[way] } else { BUILD_HELD[way] }));
            phases.extend(HAND_OVER);
            if options.into_existing && !options.no_compact {
                phases.iter_mut().filter(|(phase, _)| *phase == Phase::Settle).for_each(|row| row.1 = COMPACT_ADDED);
            }
        }
        (Some(memtable), log) => {
            if log.is_some() && options.log.index_transactions {
                phases.push((Phase::Build, TRANSACTIONS));
            }
            let own = loading.get(Group::Cf, "disable_auto_compactions") != Some("true");
            let compact = if own { COMPACT_REST } else { COMPACT_ALL };
            let bytes = plan.expected_bytes.unwrap_or(u64::MAX).max(1);
            tail = FLUSH * memtable.write_buffer_bytes.min(bytes) as f64 / bytes as f64;
            phases.extend([(Phase::Settle, if memtable.compact { compact } else { 0.0 }), (Phase::Check, CHECK)]);
        }
    }
    // What is written while it is read makes the disk wait, later as well; a source that is only read may be waited for.
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(plan.threads);
    let waits = plan.memtable.is_none() && !(plan.spill && plain);
    Outlook { phases, in_seconds: false, busy_threads: waits.then_some(cores as f64), tail }
}

#[cfg(test)]
mod tests {
    use super::super::options::PlanChoice;
    use super::super::plan::MemtablePlan;
    use super::*;

    const GIB: u64 = 1 << 30;

    fn plan(choice: PlanChoice) -> Plan {
        Plan::choose(choice, Some(2 * GIB), true, 8 * GIB, 2, 1024, 256 << 20)
    }

    fn of(plan: &Plan, plain: bool, loading: &OptionMap) -> Outlook {
        super::of(&ImportOptions::new("a.car", "db"), plan, loading, plain, None)
    }

    fn names(outlook: &Outlook) -> Vec<&str> {
        outlook.phases.iter().map(|(phase, _)| phase.name()).collect()
    }

    #[test]
    fn a_prediction_is_taken_as_it_is() {
        let seconds = [("total", 9.0), ("plan", 0.5), ("read", 4.0), ("build", 3.0), ("ingest", 0.5), ("settle", 0.5)];
        let prediction = Prediction {
            seconds: seconds.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
            peak_disk_bytes: None,
            memory_bytes: 0,
            limited_by: "disk".into(),
            cached_share: 1.0,
            basis: String::new(),
        };
        let options = ImportOptions::new("a.car", "db");
        let loading = OptionMap::default();
        let outlook = super::of(&options, &plan(PlanChoice::Spill), &loading, true, Some(&prediction));
        assert!(outlook.in_seconds && outlook.busy_threads.is_none());
        assert_eq!(outlook.phases.iter().map(|(_, seconds)| seconds).sum::<f64>(), 8.0);
    }

    #[test]
    fn every_way_of_an_import_has_its_phases() {
        let none = OptionMap::default();
        for (choice, plain, build) in [
            (PlanChoice::Memory, true, BUILD_HELD[0]),
            (PlanChoice::Memory, false, BUILD_HELD[1]),
            (PlanChoice::Spill, true, BUILD_SPILLED[0]),
            (PlanChoice::Spill, false, BUILD_SPILLED[1]),
        ] {
            let outlook = of(&plan(choice), plain, &none);
            assert_eq!(names(&outlook), ["read", "build", "ingest", "settle", "publish"]);
            assert_eq!(outlook.phases[1].1, build);
            assert_eq!(outlook.busy_threads.is_none(), choice == PlanChoice::Spill && plain);
        }
        let mut log = plan(PlanChoice::Memory);
        log.for_log(false, vec!["default".into()]);
        assert_eq!(names(&of(&log, true, &none)), ["read", "ingest", "settle", "publish"]);
    }

    #[test]
    fn a_compaction_is_longer_where_rocksdb_has_done_nothing_before() {
        let mut plan = plan(PlanChoice::Memory);
        plan.memtable = Some(MemtablePlan {
            writer_threads: 1,
            batch_bytes: 1 << 20,
            batch_count: 1000,
            write_buffer_bytes: GIB,
            level0_files: None,
            compact: true,
        });
        let mut never = OptionMap::default();
        never.set(Group::Cf, "disable_auto_compactions", "true");
        let settle = |outlook: &Outlook| outlook.phases[1];
        let (own, all) = (of(&plan, true, &OptionMap::default()), of(&plan, true, &never));
        assert_eq!(names(&own), ["read", "settle", "check"]);
        assert_eq!((settle(&own), own.tail), ((Phase::Settle, COMPACT_REST), FLUSH / 2.0));
        assert_eq!((settle(&all), all.tail), ((Phase::Settle, COMPACT_ALL), FLUSH / 2.0));
    }
}
