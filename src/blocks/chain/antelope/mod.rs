//! EOSIO and Antelope.

pub(super) mod header;
pub(super) mod json;
pub(super) mod transactions;
