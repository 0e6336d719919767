//! Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the program at once.
//!
//! A stop may have to wait: for a pipe that brings nothing, for a disk that syncs, for a compaction. Whatever is durable
//! stays so however the program ends, so after a short while it ends by itself.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use bedload::Error;
use bedload::progress::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use super::bar;

/// How long a clean stop may take: people wait two seconds.
const PATIENCE: Duration = Duration::from_millis(1700);

/// How long a terminal may take to be left clean.
const CLEANING: Duration = Duration::from_millis(200);

/// The exit code of an interrupted run.
const INTERRUPTED: i32 = bedload::error::Exit::Interrupted as i32;

/// Asks `stop` at the first signal and leaves at the second, or, with `hint`, when stopping takes too long.
pub fn on_signals(stop: &Stop, hint: &'static str) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    let watch = move || {
        for _ in signals.forever() {
            if stop.asked() {
                end(None);
            }
            stop.ask();
            // Beside this thread: a terminal that takes nothing must not keep the second signal waiting.
            let told = beside(|| bar::say("stopping; press Ctrl-C again to stop at once"));
            let late = beside(move || {
                std::thread::sleep(PATIENCE);
                end(Some(hint));
            });
            if told.and(late).is_err() {
                end(Some(hint));
            }
        }
    };
    Ok(beside(watch)?)
}

/// Starts a thread beside this one.
fn beside(work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    std::thread::Builder::new().spawn(work).map(drop).map_err(Error::io("start", "a thread"))
}

/// Leaves a clean terminal, if that takes next to no time, and ends the program.
fn end(hint: Option<&'static str>) -> ! {
    let (over, is_over) = mpsc::channel::<()>();
    let clear = move || {
        bar::clear();
        if let Some(hint) = hint {
            let _ = writeln!(std::io::stderr(), "error: interrupted\nhint: {hint}");
        }
        drop(over);
    };
    // Without a thread for it the terminal stays as it is.
    let _ = beside(clear);
    let _ = is_over.recv_timeout(CLEANING);
    low_level::exit(INTERRUPTED);
}
