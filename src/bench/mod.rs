//! Compares presets on this machine for one snapshot. Every run is a process of its own, the rounds are interleaved, and
//! every figure has an interval.
//!
//! [`bench()`] makes the runs and stores them; `figures` computes medians and ratios; `report::bench` formats them. A ratio
//! compares only runs of the same round, and no decision rests on a single run.

mod ablation;
mod cache;
mod child;
mod comparison;
pub mod figures;
pub mod keys;
mod machine;
mod matrix;
mod options;
mod pace;
pub mod reads;
mod recommendation;
mod runner;
mod snapshot;
mod store;
#[cfg(test)]
pub(crate) mod tests;
mod tune;

pub use ablation::ablate;
pub use comparison::{BenchObserver, RunStart, analyse_again, bench};
pub use matrix::{ARGUMENTS, Vary};
pub use options::BenchOptions;
pub use store::load;
pub use tune::tune;
