//! Ctrl-C, SIGTERM, SIGHUP and SIGQUIT: the first cancels the work, the second ends the program at once.
//!
//! SIGHUP remains ignored if it was ignored at the start, as with `nohup`.
//!
//! Cancelled work may wait for a pipe, a sync or a compaction. Durable work survives any end, so the program ends after a short
//! time.

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::progress::CancellationToken;
use crate::{Error, Exit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::cli::log;
use crate::cli::progress::{bar, monitor};

/// Time for cancelled work to end: users wait two seconds.
const GRACE: Duration = Duration::from_millis(1700);

const CLEANING: Duration = Duration::from_millis(200);

const INTERRUPTED: i32 = Exit::Interrupted as i32;

/// Cancels the work at the first signal and ends the program at the second, or, with `hint`, when the work takes too long
/// to end.
pub fn cancel_on_signals(
    stop: &CancellationToken,
    hint: impl Fn() -> String + Send + Sync + 'static,
) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT])?;
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let (stop, hint) = (stop.clone(), Arc::new(hint));
    let watch = move || {
        for _ in signals.forever() {
            if stop.is_cancelled() {
                end(None);
            }
            // Another thread, because a blocked terminal must not delay the second signal. The message appears before its
            // effects.
            let (over, is_over) = mpsc::channel::<()>();
            let reported = on_thread(move || {
                bar::print_after_signal("stopping; press Ctrl-C again to stop at once");
                drop(over);
                monitor::stopping(GRACE + CLEANING);
            });
            let _ = is_over.recv_timeout(CLEANING);
            stop.cancel();
            let later = Arc::clone(&hint);
            let late = on_thread(move || {
                std::thread::sleep(GRACE);
                end(Some(later()));
            });
            if reported.and(late).is_err() {
                end(Some(hint()));
            }
        }
    };
    Ok(on_thread(watch)?)
}

fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: `sigaction` is plain data; with no new action the call only reads the one that is set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

fn on_thread(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    std::thread::Builder::new().spawn(work).map(drop).map_err(Error::io("start", "a thread"))
}

/// Removes the bar, unless the terminal is blocked, and ends the program.
fn end(hint: Option<String>) -> ! {
    let (over, is_over) = mpsc::channel::<()>();
    let clear = move || {
        bar::clear();
        if let Some(hint) = hint {
            match log::is_json() {
                true => log::error("interrupted", &hint, Exit::Interrupted),
                false => drop(writeln!(std::io::stderr(), "error: interrupted\nhint: {hint}")),
            }
        }
        monitor::end(Exit::Interrupted as u8);
        drop(over);
    };
    // Without a thread the bar stays.
    let _ = on_thread(clear);
    let _ = is_over.recv_timeout(CLEANING);
    low_level::exit(INTERRUPTED);
}
