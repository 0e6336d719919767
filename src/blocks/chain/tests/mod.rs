//! Blocks put together by hand. What is true of every block of a whole log is tested in `tests/fixtures/block_logs.rs`.

#[path = "../../../../tests/common/log_blocks.rs"]
pub(crate) mod logs;
mod transactions;

use crate::blocks::chain::Family;
