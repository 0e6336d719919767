//! Pieces of work shared out among threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;
use crate::threads;

/// Does `work` for each of `items` numbers on up to `threads` threads, each with a worker of its own, and hands the
/// workers back. The first failure ends it.
pub(super) fn share<W: Send>(
    threads: usize,
    items: usize,
    make: impl Fn() -> W + Sync,
    work: impl Fn(&mut W, usize) -> Result<()> + Sync,
) -> Result<Vec<W>> {
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let outcome: Mutex<Result<Vec<W>>> = Mutex::new(Ok(Vec::new()));
    let run = || {
        let mut worker = make();
        let mut result = Ok(());
        while result.is_ok() && !failed.load(Ordering::Relaxed) {
            let item = next.fetch_add(1, Ordering::Relaxed);
            if item >= items {
                break;
            }
            result = work(&mut worker, item);
        }
        let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
        match (result, &mut *outcome) {
            (Ok(()), Ok(workers)) => workers.push(worker),
            (Err(error), Ok(_)) => {
                failed.store(true, Ordering::Relaxed);
                *outcome = Err(error);
            }
            (_, Err(_)) => {}
        }
    };
    if threads.min(items) <= 1 {
        // Not worth a thread.
        run();
    } else {
        threads::run(threads.min(items), run, |error| {
            failed.store(true, Ordering::Relaxed);
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(error);
        });
    }
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn every_item_is_done_once_by_somebody() {
        for threads in [1, 4] {
            let work = |sum: &mut usize, item: usize| {
                *sum += item;
                Ok(())
            };
            let sums = share(threads, 1000, || 0, work).expect("work");
            assert_eq!(sums.iter().sum::<usize>(), 999 * 1000 / 2);
        }
    }

    #[test]
    fn a_failure_is_handed_back() {
        let work = |(): &mut (), item: usize| match item {
            7 => Err(Error::Interrupted { hint: "seven".into() }),
            _ => Ok(()),
        };
        assert_eq!(share(3, 100, || (), work).expect_err("a failure").hint(), "seven");
    }
}
