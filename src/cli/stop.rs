//! Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the program at once.
//!
//! A stop may have to wait: for a pipe that brings nothing, for a disk that syncs, for a compaction. Whatever is durable
//! stays so however the program ends, so after a short while it ends by itself.

use std::io::Write;
use std::time::Duration;

use bedload::progress::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

/// How long a clean stop may take: people wait two seconds.
const PATIENCE: Duration = Duration::from_millis(1700);

/// The exit code of an interrupted run.
const INTERRUPTED: i32 = bedload::error::Exit::Interrupted as i32;

/// Asks `stop` at the first signal and leaves at the second, or, with `hint`, when stopping takes too long.
pub fn on_signals(stop: &Stop, hint: &'static str) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if stop.asked() {
                low_level::exit(INTERRUPTED);
            }
            stop.ask();
            let _ = writeln!(std::io::stderr(), "\nstopping; press Ctrl-C again to stop at once");
            std::thread::spawn(move || {
                std::thread::sleep(PATIENCE);
                let _ = writeln!(std::io::stderr(), "error: interrupted\nhint: {hint}");
                low_level::exit(INTERRUPTED);
            });
        }
    });
    Ok(())
}
