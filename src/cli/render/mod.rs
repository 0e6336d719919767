//! The text of every report, for people.

pub mod bench;
pub mod block;
pub mod bundle;
pub mod clean;
pub mod doctor;
pub mod export;
pub mod generate;
pub mod import;
pub mod inspect;
pub mod next_steps;
pub mod numbers;
pub mod presets;
pub mod rows;
pub mod screen;
pub mod stat;
pub mod table;
pub mod verify;
pub mod walk;
