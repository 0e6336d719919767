//! Options of every command: progress, colours, JSON.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::ValueEnum;

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct Globals {
    /// Print results as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// How to show progress: auto, bar, lines, json or off
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub progress: ProgressStyle,
    /// Format of standard error: text, or json lines
    #[arg(
        long,
        global = true,
        value_name = "HOW",
        default_value = "text",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub log_format: LogFormat,
    /// Keep a file of metrics for Prometheus up to date
    #[arg(long, global = true, value_name = "FILE", hide_short_help = true)]
    pub metrics: Option<PathBuf>,
    /// Print only results, warnings, errors; an explicit --progress still counts
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub color: ColorChoice,
    /// Print help; --help lists all options
    #[arg(short, long, global = true, action = clap::ArgAction::HelpShort)]
    pub help: Option<bool>,
}

/// How to show progress.
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

/// Format of the lines on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal that supports them.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Globals {
    /// True if standard error gets colours.
    pub fn color_on_stderr(&self) -> bool {
        self.color_on(&io::stderr())
    }

    /// True if standard output gets colours.
    pub fn color_on_stdout(&self) -> bool {
        self.color_on(&io::stdout())
    }

    fn color_on(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => supports_color(stream),
        }
    }
}

/// True if standard error is a terminal with colours that the environment does not forbid.
pub fn stderr_supports_color() -> bool {
    supports_color(&io::stderr())
}

fn supports_color(stream: &impl IsTerminal) -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    stream.is_terminal() && unset("NO_COLOR") && !is_dumb()
}

/// True if the terminal cannot move its cursor.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
