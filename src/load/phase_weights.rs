//! The proportions of the phases of an import, from which the remaining time is estimated.
//!
//! They were measured with 2 and 4 GiB of blocks of 1.1 KB on two cores, from the page cache. They differ from run to run:
//! blocks in memory took 0.9 to 1.5 times as long to build as to read.

use crate::load::options::ImportOptions;
use crate::progress::{Phase, PhaseWeights};
use crate::report::Plan;
use crate::rocks::{Group, OptionMap};

/// Building over reading, of blocks in memory and of spilled blocks, each from a plain and from a decompressed source.
const BUILD_HELD: [f64; 2] = [1.25, 0.95];
const BUILD_SPILLED: [f64; 2] = [1.25, 1.2];

/// Ingesting and opening once more, over reading.
const INGEST: [(Phase, f64); 3] = [(Phase::Ingest, 0.02), (Phase::Compact, 0.01), (Phase::Commit, 0.005)];

/// The compaction of files that were ingested into a database that holds others, over reading.
const COMPACT_ADDED: f64 = 0.8;

/// The phases after writing through memtables, over writing: the final compaction of everything, or of the rest if RocksDB
/// compacts by itself; and the check.
const COMPACT_ALL: f64 = 0.85;
const COMPACT_REST: f64 = 0.7;
const CHECK: f64 = 0.06;

/// Sorting ids of transactions and building their files, over reading their log.
const TRANSACTIONS: f64 = 0.2;

/// The phases of an import. `plain` sources are files that need no decompression. `compacts` is true if an existing database
/// is compacted at the end.
pub(super) fn of(
    options: &ImportOptions,
    plan: &Plan,
    loading: &OptionMap,
    plain: bool,
    compacts: bool,
) -> PhaseWeights {
    let mut phases = vec![(Phase::Read, 1.0)];
    if plan.log().is_some() && options.log.indexes.transactions {
        phases.push((Phase::Build, TRANSACTIONS));
    }
    if let Some(memtable) = plan.memtable() {
        let never = loading.get(Group::Cf, "disable_auto_compactions") == Some("true");
        let compact = if never { COMPACT_ALL } else { COMPACT_REST };
        phases.extend([(Phase::Compact, if memtable.compact { compact } else { 0.0 }), (Phase::Check, CHECK)]);
    } else {
        if let Some(sort) = plan.sort() {
            let build = if sort.spill { BUILD_SPILLED } else { BUILD_HELD };
            phases.push((Phase::Build, build[usize::from(!plain)]));
        }
        if plan.records().is_some_and(|records| !records.is_sorted) {
            phases.push((Phase::Build, BUILD_HELD[0]));
        }
        phases.extend(INGEST);
        if plan.sort().is_some() && options.into_existing && compacts {
            phases.iter_mut().filter(|(phase, _)| *phase == Phase::Compact).for_each(|row| row.1 = COMPACT_ADDED);
        }
    }
    // If reading also writes, the disk delays later phases as well. A source that is only read may be slow by itself.
    let cores = crate::parallel::cores().min(plan.threads);
    let waits = plan.memtable().is_none() && !(plan.spills() && plain);
    PhaseWeights { phases, busy_threads: waits.then_some(cores as f64) }
}

/// The phases of a seed.
pub(super) fn of_seed() -> PhaseWeights {
    let phases = std::iter::once((Phase::Read, 1.0)).chain(INGEST).collect();
    PhaseWeights { phases, ..PhaseWeights::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::options::PlanChoice;
    use crate::load::planner;
    use crate::report::{MemtablePlan, Method};

    const GIB: u64 = 1 << 30;

    fn plan(choice: PlanChoice) -> Plan {
        planner::choose(choice, Some(2 * GIB), true, 8 * GIB, 2, 1024, 256 << 20)
    }

    fn of(plan: &Plan, plain: bool, loading: &OptionMap) -> PhaseWeights {
        super::of(&ImportOptions::new("a.car", "db"), plan, loading, plain, true)
    }

    fn names(weights: &PhaseWeights) -> Vec<&str> {
        weights.phases.iter().map(|(phase, _)| phase.name()).collect()
    }

    #[test]
    fn every_plan_has_its_phases() {
        let none = OptionMap::default();
        for (choice, plain, build) in [
            (PlanChoice::Memory, true, BUILD_HELD[0]),
            (PlanChoice::Memory, false, BUILD_HELD[1]),
            (PlanChoice::Spill, true, BUILD_SPILLED[0]),
            (PlanChoice::Spill, false, BUILD_SPILLED[1]),
        ] {
            let weights = of(&plan(choice), plain, &none);
            assert_eq!(names(&weights), ["read", "build", "ingest", "compact", "commit"]);
            assert_eq!(weights.phases[1].1, build);
            assert_eq!(weights.busy_threads.is_none(), choice == PlanChoice::Spill && plain);
        }
        let mut log = plan(PlanChoice::Memory);
        planner::for_log(&mut log, false, vec!["default".into()]);
        assert_eq!(names(&of(&log, true, &none)), ["read", "ingest", "compact", "commit"]);
        let mut options = ImportOptions::new("block_log", "db");
        options.log.indexes.transactions = true;
        let weights = super::of(&options, &log, &none, true, true);
        assert_eq!(names(&weights), ["read", "build", "ingest", "compact", "commit"]);
        assert_eq!(weights.phases[1].1, TRANSACTIONS);
    }

    #[test]
    fn first_compaction_has_a_larger_weight() {
        let mut plan = plan(PlanChoice::Memory);
        let memtable = MemtablePlan { write_buffer_bytes: GIB, compact: true, ..MemtablePlan::default() };
        plan.method = Method::CarMemtable { memtable };
        let mut never = OptionMap::default();
        never.set(Group::Cf, "disable_auto_compactions", "true");
        let compact = |weights: &PhaseWeights| weights.phases[1];
        let (own, all) = (of(&plan, true, &OptionMap::default()), of(&plan, true, &never));
        assert_eq!(names(&own), ["read", "compact", "check"]);
        assert_eq!(compact(&own), (Phase::Compact, COMPACT_REST));
        assert_eq!(compact(&all), (Phase::Compact, COMPACT_ALL));
    }
}
