//! One file for each command: its options, and the call of the library.

pub mod bench;
pub mod bench_read;
pub mod bundle;
pub mod clean;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod get;
pub mod import;
pub mod inspect;
pub mod presets;
pub mod seed;
pub mod shell;
pub mod stat;
pub mod verify;
pub mod walk;
