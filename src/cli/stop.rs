//! Ctrl-C and SIGTERM: the first asks for a clean stop, the second ends the program at once.

use std::io::Write;

use bedload::progress::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Asks `stop` at the first signal and leaves at the second.
pub fn on_signals(stop: &Stop) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if stop.asked() {
                std::process::exit(130);
            }
            stop.ask();
            let _ = writeln!(std::io::stderr(), "\nstopping; press Ctrl-C again to stop at once");
        }
    });
    Ok(())
}
