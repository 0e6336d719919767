//! The command line: help, terminals, pipes, presets.

#[path = "../common/mod.rs"]
mod common;

mod a_terminal_stays_clean;
mod command_line;
mod every_command_stops;
mod help;
mod import_arguments;
mod places_are_checked;
mod presets;
mod readme;
mod reports;
mod sources_and_databases;
mod terminals_are_not_steered;
mod watched_from_outside;
mod what_is_left_is_cleaned;
