//! The budget of an import. A binary of its own: the kernel counts what a process had before it became another program, so
//! these imports must be started by a process that is small.

#[path = "../common/mod.rs"]
mod common;

mod budgets;
mod bundles;
