//! Compares what was found with what the import recorded.
//!
//! Count and digest are sums over all records. A node that goes on with the database adds to both, so they show only
//! together, and only without its records, that nothing of the import is lost: beside records that are not known one by
//! one, a record that was added may stand for one that is gone. The comparison with the snapshot decides that.

use super::job;
use super::problems::Collector;
use super::scan::Totals;
use crate::report::{Against, ProblemKind, Recorded, VerifyReport};
use crate::size::{counted, grouped};

/// Compares the totals of all records with the record of the import; `opened_since`: a node may have written to the
/// database.
pub(super) fn compare(report: &mut VerifyReport, totals: &Totals, opened_since: bool, problems: &Collector<'_>) {
    let Some(recorded) = &mut report.recorded else { return };
    let against = report.against.as_ref();
    if let Some(against) = against {
        name_the_source(against, recorded, problems, &mut report.notes);
    }
    if against.is_some_and(|against| against.imported == Some(true) && against.same == against.distinct) {
        recorded.confirmed = true;
    }
    if !recorded.whole {
        // The records of other writers are not known, but the import's own are among them.
        if totals.records < recorded.records {
            let (found, added) = (counted(totals.records, "record", "records"), grouped(recorded.records));
            let message = format!("{found} can be read, the import added {added}");
            problems.add(ProblemKind::Count, None, message);
        }
        return;
    }
    let more = totals.records.saturating_sub(recorded.records);
    // Damage may have taken as many records as were added.
    let damaged = problems.has_beside(&[ProblemKind::Extra]);
    if more == 0 || damaged || !opened_since {
        let found = (totals.records, totals.digest);
        job::compare("", found, (recorded.records, recorded.digest), problems);
        if found == (recorded.records, recorded.digest) {
            recorded.confirmed = true;
        }
        return;
    }
    recorded.written_since = more;
    if totals.since.records > 0 {
        let own = (totals.records - totals.since.records, totals.digest.without(totals.since.digest));
        job::compare("the import", own, (recorded.records, recorded.digest), problems);
        if own == (recorded.records, recorded.digest) {
            recorded.confirmed = true;
        }
    }
}

/// Says that the source is another than the one of the import: a problem where that explains others.
fn name_the_source(against: &Against, recorded: &Recorded, problems: &Collector<'_>, notes: &mut Vec<String>) {
    if against.imported != Some(false) {
        return;
    }
    let message = format!(
        "the database was imported from {}, digest {}, not from {}, digest {}",
        recorded.source, recorded.digest, against.source, against.digest
    );
    let differ = [ProblemKind::Missing, ProblemKind::Extra, ProblemKind::Differs];
    if differ.iter().any(|kind| problems.has(*kind)) {
        problems.add(ProblemKind::Source, None, message);
    } else {
        notes.push(message);
    }
}
