//! Block logs of Steem, Hive and Antelope chains: files of consecutive serialized blocks.
//!
//! ```text
//!   Steem    block_log                          block_log.index: u64 position of each block
//!   Hive     block_log, or block_log_part.0001  the same .artifacts: u64 word, id[4..20] of each block
//!            block_log_part.0002 ..
//!   Antelope blocks.log, blocks-1-1000.log ..   blocks.index: u64 position of each block
//! ```
//!
//! Files are cut into ranges that threads read in parallel (`ranges`). A pipe or a compressed log is read from its start
//! (`forward`). `framing` describes the bytes around a block, `links` checks ids.

mod detect;
mod discover;
mod forward;
pub(crate) mod framing;
mod index;
mod layout;
pub(crate) mod links;
mod open;
mod part;
pub(crate) mod preamble;
mod problem;
mod ranges;
mod transactions;
pub(crate) mod unpack;

pub(crate) use detect::{PEEK, is_block_log};
pub(crate) use discover::{has_log_name, is_set, log_in};
pub(crate) use forward::Forward;
pub(crate) use framing::Framing;
pub use index::IndexUse;
pub use layout::{BlockRef, LogLayout, Packings, TornTail};
pub(crate) use layout::{MAX_BLOCK, Packing};
pub(crate) use links::{Chain, Checked, Expectations};
pub(crate) use open::{Log, LogBody, Opened, Sought};
pub use problem::LogProblem;
pub(crate) use ranges::{EntryBatch, LogFiles, Range, RangeReader};
pub(crate) use transactions::TransactionLookup;
pub(crate) use unpack::{Dictionaries, Unpacker};
