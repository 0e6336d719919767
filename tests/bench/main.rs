//! `bedload bench`, `tune` and `doctor`: what measures.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod doctor;
mod tune;
