//! The types that several operations share.

use super::super::field::FieldType::{self, Asset, Fixed, Group, List, Optional, Text, Variant};

pub(super) const NAME: FieldType = Text;
pub(super) const NAMES: FieldType = List(&[NAME]);
pub(super) const U8: FieldType = Fixed(1);
pub(super) const U16: FieldType = Fixed(2);
pub(super) const U32: FieldType = Fixed(4);
pub(super) const U64: FieldType = Fixed(8);
/// Seconds since 1970.
pub(super) const TIME: FieldType = U32;
/// An identifier of a block: 20 bytes of a hash.
pub(super) const BLOCK_ID: FieldType = Fixed(20);
pub(super) const SHA256: FieldType = Fixed(32);
pub(super) const KEY: FieldType = Fixed(33);
pub(super) const SIGNATURE: FieldType = Fixed(65);
/// A header of a block with its signature.
pub(super) const SIGNED_HEADER: &[FieldType] =
    &[BLOCK_ID, TIME, NAME, BLOCK_ID, List(&[Variant(&[&[], &[U32], &[U32, TIME]])]), SIGNATURE];
pub(super) const PRICE: FieldType = Group(&[Asset, Asset]);
/// Threshold, accounts and keys, each with a weight.
pub(super) const AUTHORITY: FieldType = Group(&[U32, List(&[NAME, U16]), List(&[KEY, U16])]);
pub(super) const OPTIONAL_AUTHORITY: FieldType = Optional(&[AUTHORITY]);
/// Extensions for the future. No kind has a body yet.
pub(super) const FUTURE: FieldType = List(&[Variant(&[&[]])]);
/// The fee for an account, the size of blocks, the rate of interest.
pub(super) const PROPERTIES: FieldType = Group(&[Asset, U32, U16]);
/// Shares of a reward for others.
pub(super) const BENEFICIARIES: FieldType = List(&[Variant(&[&[List(&[NAME, U16])]])]);
/// Name, key and the work itself.
pub(super) const WORK: FieldType = Group(&[KEY, SHA256, SIGNATURE, SHA256]);
/// The account, the block it works on, a nonce.
const WORK_INPUT: FieldType = Group(&[NAME, BLOCK_ID, U64]);
/// The second kind of work, or an equihash proof.
pub(super) const WORK_2: FieldType =
    Variant(&[&[WORK_INPUT, U32], &[WORK_INPUT, U32, U32, SHA256, List(&[U32]), BLOCK_ID, U32]]);
/// A new end of a proposal, or nothing.
pub(super) const PROPOSAL_UPDATES: FieldType = List(&[Variant(&[&[], &[TIME]])]);
/// A number that identifies one of the recurrent transfers between two accounts, or nothing.
pub(super) const RECURRENCES: FieldType = List(&[Variant(&[&[], &[U8]])]);
