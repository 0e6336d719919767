//! Sources: inputs (files, pipes, compression, the network) and the formats inside them.

pub mod block_log;
pub mod car;
pub(crate) mod foreign;
pub mod forest;
pub mod input;
mod problem;
pub mod records;
pub mod remote;

pub(crate) use problem::StatedProblem;
