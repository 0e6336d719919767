//! The command line: help, terminals, pipes, presets.

#[path = "../common/mod.rs"]
mod common;

mod clean;
mod command_line;
mod escaped_text;
mod help;
mod import_arguments;
mod monitoring;
mod paths;
mod presets;
mod readme;
mod reports;
mod signals;
mod sources_and_databases;
mod terminal_output;
