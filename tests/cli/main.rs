//! The command line: help, terminals, pipes, presets.

#[path = "../common/mod.rs"]
mod common;

mod a_terminal_stays_clean;
mod command_line;
mod help;
mod presets;
mod readme;
mod reports;
mod terminals_are_not_steered;
