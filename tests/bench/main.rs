//! `bedload bench`, `tune` and `doctor`: what measures.

#[path = "../common/mod.rs"]
mod common;

mod bench_compares_presets;
mod doctor_measures_before_the_start;
mod tune_finds_options;
