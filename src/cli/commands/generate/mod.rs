//! `bedload generate`: makes up a snapshot for benchmarks and tests.

mod args;
mod car;
mod destination;
mod log;

use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use crate::report::shown_in_line;

pub use args::Args;
use args::Kind;

use crate::cli::globals::Globals;
use crate::cli::{output, progress, render, signals};
use crate::progress::Progress;

/// The JSON result.
#[derive(serde::Serialize)]
struct Document<'a, T> {
    schema: &'static str,
    #[serde(flatten)]
    summary: &'a T,
}

/// Generates the snapshot and reports what is in it.
pub fn run(args: &Args, globals: &Globals) -> anyhow::Result<()> {
    let started = Instant::now();
    signals::cancel_on_signals(&args.stop, NOTHING_LEFT)?;
    let stopped = |error| if args.stop.is_cancelled() { interrupted() } else { error };
    let observer = progress::Display::new(globals);
    let progress = Progress::new(&observer);
    // Refused options and a failure leave no line of a phase that did nothing.
    let done = |failed: bool| {
        if !failed {
            progress.end();
        }
        observer.finish();
    };
    match args.profile {
        Kind::Car(profile) => {
            let made = progress.sampled(|| car::generate(args, profile, &progress));
            done(made.is_err());
            let summary = made.map_err(stopped)?;
            report(args, globals, &summary, &render::generate::car(&summary, started.elapsed().as_secs_f64()))
        }
        Kind::Log(family) => {
            let made = progress.sampled(|| log::generate(args, family, &progress));
            done(made.is_err());
            let summary = made.map_err(stopped)?;
            report(args, globals, &summary, &render::generate::log(&summary, started.elapsed().as_secs_f64()))
        }
    }
}

/// Hint after an interruption.
const NOTHING_LEFT: &str = "no file was written under that name; run it again";

fn interrupted() -> anyhow::Error {
    crate::Error::Interrupted { hint: NOTHING_LEFT.into() }.into()
}

/// Reports a snapshot that is complete; standard output may have the snapshot itself.
fn report(args: &Args, globals: &Globals, summary: &impl serde::Serialize, text: &str) -> anyhow::Result<()> {
    if args.file == Path::new("-") {
        return Ok(());
    }
    let file = args.file.display().to_string();
    let file = shown_in_line(&file);
    let hint = "use the file as it is; `bedload inspect` shows what is in it";
    output::report_done(format!("{file} is complete"), hint, || {
        if globals.json {
            return output::print_json(&Document { schema: crate::generate::SCHEMA, summary });
        }
        Ok(writeln!(io::stdout(), "{file}: {text}")?)
    })
}
