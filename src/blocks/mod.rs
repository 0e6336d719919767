//! The contents of blocks: links and Filecoin headers in the blocks of a CAR, and blocks of Steem, Hive and Antelope logs.

pub(crate) mod cbor;
pub mod chain;
pub(crate) mod dag;
