//! Options of every command: progress, colours, JSON.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::{ColorChoice, ValueEnum};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Globals {
    /// Print results as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Progress
    #[arg(long, global = true, value_name = "HOW", default_value = "auto", hide_short_help = true)]
    pub progress: ProgressStyle,
    /// Format of standard error
    #[arg(long, global = true, value_name = "HOW", default_value = "text", hide_short_help = true)]
    pub log_format: LogFormat,
    /// Write Prometheus metrics to this file (*.prom) every second
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub metrics: Option<PathBuf>,
    /// Print only results, warnings and errors; --progress still applies
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_short_help = true)]
    pub color: ColorChoice,
    /// Print help: -h lists the common options, --help all options
    #[arg(short, long, global = true, action = clap::ArgAction::HelpShort)]
    pub help: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressStyle {
    /// A bar on a terminal, lines elsewhere.
    Auto,
    /// A bar; lines if it cannot be shown.
    Bar,
    /// A line every few seconds.
    Lines,
    /// One JSON object a line.
    Json,
    /// Nothing but warnings.
    Off,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Globals {
    /// True if this stream gets colours.
    pub fn has_color(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => supports_color(stream),
        }
    }
}

/// True if a stream is a terminal with colours that the environment does not forbid.
pub fn supports_color(stream: &impl IsTerminal) -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    stream.is_terminal() && unset("NO_COLOR") && !is_dumb()
}

/// True if the terminal cannot move its cursor.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
