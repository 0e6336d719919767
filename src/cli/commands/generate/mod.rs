//! `bedload generate`: generates a snapshot for benchmarks and tests.

mod args;
mod car;
mod destination;
mod log;

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use crate::report::shown_in_line;

pub use args::Args;
use args::ProfileArg;

use crate::cli::globals::Globals;
use crate::cli::output::WithSchema;
use crate::cli::render::generate::Generated;
use crate::cli::{output, progress, render, signals};
use crate::progress::Progress;

pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let started = Instant::now();
    signals::cancel_on_signals(&args.stop, || NOTHING_LEFT.into())?;
    let made = progress::show(globals, |observer| {
        let progress = Progress::new(observer);
        let made = progress.sampled(|| match args.profile {
            ProfileArg::Car(profile) => car::generate(args, profile, &progress).map(Generated::Car),
            ProfileArg::Log(family) => log::generate(args, family, &progress).map(Generated::Log),
        });
        // Refused options and a failure leave no line of a phase that did nothing.
        if made.is_ok() {
            progress.end();
        }
        made
    });
    let interrupted = || crate::Error::Interrupted { hint: NOTHING_LEFT.into() }.into();
    let made = made.map_err(|error| if args.stop.is_cancelled() { interrupted() } else { error })?;
    // Standard output may have the snapshot itself.
    if args.file == Path::new("-") {
        return Ok(());
    }
    let file = args.file.display().to_string();
    let file = shown_in_line(&file);
    let text = render::generate::text(&made, started.elapsed().as_secs_f64());
    let hint = "use the file as it is; `bedload inspect` shows what is in it";
    output::report_done(format!("{file} is complete"), hint, || match globals.json {
        true => output::print_json(&WithSchema { schema: crate::generate::SCHEMA, content: &made }),
        false => Ok(writeln!(io::stdout(), "{file}: {text}")?),
    })
}

const NOTHING_LEFT: &str = "no file was written under that name; run it again";
