//! Reports every claim that fails, not only the first.

use crate::hash::{Checker, Claim, Failure};

/// Checks all claims and passes each failed one with its number.
pub(super) fn each_failure(checker: &mut Checker, claims: &[Claim<'_>], mut failed: impl FnMut(usize, &Failure)) {
    let mut from = 0;
    while let Err(failure) = checker.check(claims.get(from..).unwrap_or_default()) {
        failed(from + failure.index, &failure);
        from += failure.index + 1;
    }
}
