//! Real blocks, and what happens to the answer when they are damaged.

mod headers;
pub(crate) mod logs;
mod transactions;
