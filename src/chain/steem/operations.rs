//! The operations of Steem and Hive, one row each.
//!
//! Tags and fields as in `steem_operations.hpp` (0.23.1) and `hive_operations.hpp` (1.28) of the nodes, which agree but
//! for tag 16 and the last three. Virtual operations follow these tags; they are never in blocks.

use super::Field::{self, Asset, Bool, List, Optional, SignedHeader, Text};
use super::types::*;
use crate::chain::Family;

/// One kind of operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) tag: u32,
    /// The kind's name with its article, for messages.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
}

macro_rules! row {
    ($tag:literal, $name:literal, $($field:expr),+) => {
        Operation { tag: $tag, name: concat!("the operation `", $name, "`"), fields: &[$($field),+] }
    };
}

/// The operation with this tag.
pub(super) fn find(family: Family, tag: u32) -> Option<&'static Operation> {
    let last = if family == Family::Hive { HIVE } else { STEEM };
    let own = last.iter().find(|operation| operation.tag == tag);
    own.or_else(|| usize::try_from(tag).ok().and_then(|tag| COMMON.get(tag)).filter(|row| row.tag == tag))
}

/// Where the families differ: Steem.
pub(super) const STEEM: &[Operation] = &[row!(16, "report_over_production", NAME, SignedHeader, SignedHeader)];

/// Where the families differ: Hive.
pub(super) const HIVE: &[Operation] = &[
    row!(16, "witness_block_approve", NAME, BLOCK_ID),
    row!(47, "update_proposal", U64, NAME, Asset, Text, Text, PROPOSAL_UPDATES),
    row!(48, "collateralized_convert", NAME, U32, Asset),
    row!(49, "recurrent_transfer", NAME, NAME, Asset, Text, U16, U16, RECURRENCES),
];

/// What both have, in the order of the tags. Tag 16 is a placeholder: each family has its own.
pub(super) const COMMON: &[Operation] = &[
    row!(0, "vote", NAME, NAME, Text, U16),
    row!(1, "comment", NAME, Text, NAME, Text, Text, Text, Text),
    row!(2, "transfer", NAME, NAME, Asset, Text),
    row!(3, "transfer_to_vesting", NAME, NAME, Asset),
    row!(4, "withdraw_vesting", NAME, Asset),
    row!(5, "limit_order_create", NAME, U32, Asset, Asset, Bool, TIME),
    row!(6, "limit_order_cancel", NAME, U32),
    row!(7, "feed_publish", NAME, PRICE),
    row!(8, "convert", NAME, U32, Asset),
    row!(9, "account_create", Asset, NAME, NAME, AUTHORITY, AUTHORITY, AUTHORITY, KEY, Text),
    row!(10, "account_update", NAME, OPTIONAL_AUTHORITY, OPTIONAL_AUTHORITY, OPTIONAL_AUTHORITY, KEY, Text),
    row!(11, "witness_update", NAME, Text, KEY, PROPERTIES, Asset),
    row!(12, "account_witness_vote", NAME, NAME, Bool),
    row!(13, "account_witness_proxy", NAME, NAME),
    row!(14, "pow", NAME, BLOCK_ID, U64, WORK, PROPERTIES),
    row!(15, "custom", NAMES, U16, Text),
    row!(16, "report_over_production", NAME, SignedHeader, SignedHeader),
    row!(17, "delete_comment", NAME, Text),
    row!(18, "custom_json", NAMES, NAMES, Text, Text),
    row!(19, "comment_options", NAME, Text, Asset, U16, Bool, Bool, BENEFICIARIES),
    row!(20, "set_withdraw_vesting_route", NAME, NAME, U16, Bool),
    row!(21, "limit_order_create2", NAME, U32, Asset, PRICE, Bool, TIME),
    row!(22, "claim_account", NAME, Asset, FUTURE),
    row!(23, "create_claimed_account", NAME, NAME, AUTHORITY, AUTHORITY, AUTHORITY, KEY, Text, FUTURE),
    row!(24, "request_account_recovery", NAME, NAME, AUTHORITY, FUTURE),
    row!(25, "recover_account", NAME, AUTHORITY, AUTHORITY, FUTURE),
    row!(26, "change_recovery_account", NAME, NAME, FUTURE),
    row!(27, "escrow_transfer", NAME, NAME, Asset, Asset, U32, NAME, Asset, Text, TIME, TIME),
    row!(28, "escrow_dispute", NAME, NAME, NAME, NAME, U32),
    row!(29, "escrow_release", NAME, NAME, NAME, NAME, NAME, U32, Asset, Asset),
    row!(30, "pow2", WORK_2, Optional(&[KEY]), PROPERTIES),
    row!(31, "escrow_approve", NAME, NAME, NAME, NAME, U32, Bool),
    row!(32, "transfer_to_savings", NAME, NAME, Asset, Text),
    row!(33, "transfer_from_savings", NAME, U32, NAME, Asset, Text),
    row!(34, "cancel_transfer_from_savings", NAME, U32),
    row!(35, "custom_binary", NAMES, NAMES, NAMES, List(&[AUTHORITY]), Text, Text),
    row!(36, "decline_voting_rights", NAME, Bool),
    row!(37, "reset_account", NAME, NAME, AUTHORITY),
    row!(38, "set_reset_account", NAME, NAME, NAME),
    row!(39, "claim_reward_balance", NAME, Asset, Asset, Asset),
    row!(40, "delegate_vesting_shares", NAME, NAME, Asset),
    row!(
        41,
        "account_create_with_delegation",
        Asset,
        Asset,
        NAME,
        NAME,
        AUTHORITY,
        AUTHORITY,
        AUTHORITY,
        KEY,
        Text,
        FUTURE
    ),
    row!(42, "witness_set_properties", NAME, List(&[Text, Text]), FUTURE),
    row!(
        43,
        "account_update2",
        NAME,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        Optional(&[KEY]),
        Text,
        Text,
        FUTURE
    ),
    row!(44, "create_proposal", NAME, NAME, TIME, TIME, Asset, Text, Text, FUTURE),
    row!(45, "update_proposal_votes", NAME, List(&[U64]), Bool, FUTURE),
    row!(46, "remove_proposal", NAME, List(&[U64]), FUTURE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_of_a_family_has_its_own_row() {
        for (family, count) in [(Family::Steem, 47), (Family::Hive, 50)] {
            let mut names = std::collections::HashSet::new();
            for tag in 0..count {
                let row = find(family, tag).expect("a row");
                assert_eq!(row.tag, tag);
                assert!(names.insert(row.name), "{} twice", row.name);
            }
            assert!((count..count + 100).all(|tag| find(family, tag).is_none()), "virtual operations are unknown");
        }
        assert!(find(Family::Steem, u32::MAX).is_none());
    }

    #[test]
    fn the_families_differ_in_tag_16() {
        let name = |family| find(family, 16).map(|row| row.name);
        assert_eq!(name(Family::Steem), Some("the operation `report_over_production`"));
        assert_eq!(name(Family::Hive), Some("the operation `witness_block_approve`"));
    }
}
