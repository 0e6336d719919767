//! The types that several operations share.

use super::field::Field::{self, Asset, Fixed, Group, List, Optional, Text, Variant};

pub(super) const NAME: Field = Text;
pub(super) const NAMES: Field = List(&[NAME]);
pub(super) const U8: Field = Fixed(1);
pub(super) const U16: Field = Fixed(2);
pub(super) const U32: Field = Fixed(4);
pub(super) const U64: Field = Fixed(8);
/// Seconds since 1970.
pub(super) const TIME: Field = U32;
/// An identifier of a block: 20 bytes of a hash.
pub(super) const BLOCK_ID: Field = Fixed(20);
pub(super) const SHA256: Field = Fixed(32);
pub(super) const KEY: Field = Fixed(33);
pub(super) const SIGNATURE: Field = Fixed(65);
/// Base and quote.
pub(super) const PRICE: Field = Group(&[Asset, Asset]);
/// Threshold, accounts and keys, each with a weight.
pub(super) const AUTHORITY: Field = Group(&[U32, List(&[NAME, U16]), List(&[KEY, U16])]);
pub(super) const OPTIONAL_AUTHORITY: Field = Optional(&[AUTHORITY]);
/// Extensions for the future. No kind has a body yet.
pub(super) const FUTURE: Field = List(&[Variant(&[&[]])]);
/// The fee for an account, the size of blocks, the rate of interest.
pub(super) const PROPERTIES: Field = Group(&[Asset, U32, U16]);
/// Shares of a reward for others.
pub(super) const BENEFICIARIES: Field = List(&[Variant(&[&[List(&[NAME, U16])]])]);
/// Name, key and the work itself.
pub(super) const WORK: Field = Group(&[KEY, SHA256, SIGNATURE, SHA256]);
/// The account, the block it works on, a nonce.
const WORK_INPUT: Field = Group(&[NAME, BLOCK_ID, U64]);
/// The second kind of work, or an equihash proof.
pub(super) const WORK_2: Field =
    Variant(&[&[WORK_INPUT, U32], &[WORK_INPUT, U32, U32, SHA256, List(&[U32]), BLOCK_ID, U32]]);
/// A new end of a proposal, or nothing.
pub(super) const PROPOSAL_UPDATES: Field = List(&[Variant(&[&[], &[TIME]])]);
/// A number that identifies one of the recurrent transfers between two accounts, or nothing.
pub(super) const RECURRENCES: Field = List(&[Variant(&[&[], &[U8]])]);
