//! The operations of Steem and Hive, one row each.
//!
//! Tags and fields as in `steem_operations.hpp` (0.23.1) and `hive_operations.hpp` (1.28) of the nodes, which agree but
//! for tag 16 and the last three. Virtual operations follow these tags; they are never in blocks.

use super::Field::{self, Asset, Bool, List, Optional, Signed16, SignedHeader, Text};
use super::types::*;
use crate::blocks::chain::Family;

/// One kind of operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) tag: u32,
    /// The kind's name with its article, for messages.
    pub(super) name: &'static str,
    /// The names of its fields, as the nodes reflect them; where the families differ, `Steem's|Hive's`.
    names: &'static str,
    pub(super) fields: &'static [Field],
}

impl Operation {
    /// The names of its fields in a family.
    pub(super) fn names(&self, family: Family) -> impl Iterator<Item = &'static str> {
        self.names.split(' ').map(move |name| match name.split_once('|') {
            Some((_, hives)) if family == Family::Hive => hives,
            Some((steems, _)) => steems,
            None => name,
        })
    }

    /// The kind's name alone.
    pub(super) fn bare_name(&self) -> &'static str {
        self.name.trim_start_matches("the operation `").trim_end_matches('`')
    }
}

macro_rules! row {
    ($tag:literal, $name:literal, $names:literal, $($field:expr),+ $(,)?) => {
        Operation { tag: $tag, name: concat!("the operation `", $name, "`"), names: $names, fields: &[$($field),+] }
    };
}

/// The operation with this tag.
pub(super) fn find(family: Family, tag: u32) -> Option<&'static Operation> {
    let last = if family == Family::Hive { HIVE } else { STEEM };
    let own = last.iter().find(|operation| operation.tag == tag);
    own.or_else(|| usize::try_from(tag).ok().and_then(|tag| COMMON.get(tag)).filter(|row| row.tag == tag))
}

/// Operations of Steem only.
pub(super) const STEEM: &[Operation] =
    &[row!(16, "report_over_production", "reporter first_block second_block", NAME, SignedHeader, SignedHeader)];

/// Operations of Hive only.
pub(super) const HIVE: &[Operation] = &[
    row!(16, "witness_block_approve", "witness block_id", NAME, BLOCK_ID),
    row!(
        47,
        "update_proposal",
        "proposal_id creator daily_pay subject permlink extensions",
        U64,
        NAME,
        Asset,
        Text,
        Text,
        PROPOSAL_UPDATES
    ),
    row!(48, "collateralized_convert", "owner requestid amount", NAME, U32, Asset),
    row!(
        49,
        "recurrent_transfer",
        "from to amount memo recurrence executions extensions",
        NAME,
        NAME,
        Asset,
        Text,
        U16,
        U16,
        RECURRENCES
    ),
];

/// Operations of both, in the order of their tags. Tag 16 is a placeholder: each family has its own.
pub(super) const COMMON: &[Operation] = &[
    row!(0, "vote", "voter author permlink weight", NAME, NAME, Text, Signed16),
    row!(
        1,
        "comment",
        "parent_author parent_permlink author permlink title body json_metadata",
        NAME,
        Text,
        NAME,
        Text,
        Text,
        Text,
        Text
    ),
    row!(2, "transfer", "from to amount memo", NAME, NAME, Asset, Text),
    row!(3, "transfer_to_vesting", "from to amount", NAME, NAME, Asset),
    row!(4, "withdraw_vesting", "account vesting_shares", NAME, Asset),
    row!(
        5,
        "limit_order_create",
        "owner orderid amount_to_sell min_to_receive fill_or_kill expiration",
        NAME,
        U32,
        Asset,
        Asset,
        Bool,
        TIME
    ),
    row!(6, "limit_order_cancel", "owner orderid", NAME, U32),
    row!(7, "feed_publish", "publisher exchange_rate", NAME, PRICE),
    row!(8, "convert", "owner requestid amount", NAME, U32, Asset),
    row!(
        9,
        "account_create",
        "fee creator new_account_name owner active posting memo_key json_metadata",
        Asset,
        NAME,
        NAME,
        AUTHORITY,
        AUTHORITY,
        AUTHORITY,
        KEY,
        Text
    ),
    row!(
        10,
        "account_update",
        "account owner active posting memo_key json_metadata",
        NAME,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        KEY,
        Text
    ),
    row!(11, "witness_update", "owner url block_signing_key props fee", NAME, Text, KEY, PROPERTIES, Asset),
    row!(12, "account_witness_vote", "account witness approve", NAME, NAME, Bool),
    row!(13, "account_witness_proxy", "account proxy", NAME, NAME),
    row!(14, "pow", "worker_account block_id nonce work props", NAME, BLOCK_ID, U64, WORK, PROPERTIES),
    row!(15, "custom", "required_auths id data", NAMES, U16, Text),
    row!(16, "report_over_production", "reporter first_block second_block", NAME, SignedHeader, SignedHeader),
    row!(17, "delete_comment", "author permlink", NAME, Text),
    row!(18, "custom_json", "required_auths required_posting_auths id json", NAMES, NAMES, Text, Text),
    row!(
        19,
        "comment_options",
        "author permlink max_accepted_payout percent_steem_dollars|percent_hbd allow_votes allow_curation_rewards extensions",
        NAME,
        Text,
        Asset,
        U16,
        Bool,
        Bool,
        BENEFICIARIES
    ),
    row!(20, "set_withdraw_vesting_route", "from_account to_account percent auto_vest", NAME, NAME, U16, Bool),
    row!(
        21,
        "limit_order_create2",
        "owner orderid amount_to_sell exchange_rate fill_or_kill expiration",
        NAME,
        U32,
        Asset,
        PRICE,
        Bool,
        TIME
    ),
    row!(22, "claim_account", "creator fee extensions", NAME, Asset, FUTURE),
    row!(
        23,
        "create_claimed_account",
        "creator new_account_name owner active posting memo_key json_metadata extensions",
        NAME,
        NAME,
        AUTHORITY,
        AUTHORITY,
        AUTHORITY,
        KEY,
        Text,
        FUTURE
    ),
    row!(
        24,
        "request_account_recovery",
        "recovery_account account_to_recover new_owner_authority extensions",
        NAME,
        NAME,
        AUTHORITY,
        FUTURE
    ),
    row!(
        25,
        "recover_account",
        "account_to_recover new_owner_authority recent_owner_authority extensions",
        NAME,
        AUTHORITY,
        AUTHORITY,
        FUTURE
    ),
    row!(26, "change_recovery_account", "account_to_recover new_recovery_account extensions", NAME, NAME, FUTURE),
    row!(
        27,
        "escrow_transfer",
        "from to sbd_amount|hbd_amount steem_amount|hive_amount escrow_id agent fee json_meta ratification_deadline escrow_expiration",
        NAME,
        NAME,
        Asset,
        Asset,
        U32,
        NAME,
        Asset,
        Text,
        TIME,
        TIME
    ),
    row!(28, "escrow_dispute", "from to agent who escrow_id", NAME, NAME, NAME, NAME, U32),
    row!(
        29,
        "escrow_release",
        "from to agent who receiver escrow_id sbd_amount|hbd_amount steem_amount|hive_amount",
        NAME,
        NAME,
        NAME,
        NAME,
        NAME,
        U32,
        Asset,
        Asset
    ),
    row!(30, "pow2", "work new_owner_key props", WORK_2, Optional(&[KEY]), PROPERTIES),
    row!(31, "escrow_approve", "from to agent who escrow_id approve", NAME, NAME, NAME, NAME, U32, Bool),
    row!(32, "transfer_to_savings", "from to amount memo", NAME, NAME, Asset, Text),
    row!(33, "transfer_from_savings", "from request_id to amount memo", NAME, U32, NAME, Asset, Text),
    row!(34, "cancel_transfer_from_savings", "from request_id", NAME, U32),
    row!(
        35,
        "custom_binary",
        "required_owner_auths required_active_auths required_posting_auths required_auths id data",
        NAMES,
        NAMES,
        NAMES,
        List(&[AUTHORITY]),
        Text,
        Text
    ),
    row!(36, "decline_voting_rights", "account decline", NAME, Bool),
    row!(37, "reset_account", "reset_account account_to_reset new_owner_authority", NAME, NAME, AUTHORITY),
    row!(38, "set_reset_account", "account current_reset_account reset_account", NAME, NAME, NAME),
    row!(
        39,
        "claim_reward_balance",
        "account reward_steem|reward_hive reward_sbd|reward_hbd reward_vests",
        NAME,
        Asset,
        Asset,
        Asset
    ),
    row!(40, "delegate_vesting_shares", "delegator delegatee vesting_shares", NAME, NAME, Asset),
    row!(
        41,
        "account_create_with_delegation",
        "fee delegation creator new_account_name owner active posting memo_key json_metadata extensions",
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
    row!(42, "witness_set_properties", "owner props extensions", NAME, List(&[Text, Text]), FUTURE),
    row!(
        43,
        "account_update2",
        "account owner active posting memo_key json_metadata posting_json_metadata extensions",
        NAME,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        OPTIONAL_AUTHORITY,
        Optional(&[KEY]),
        Text,
        Text,
        FUTURE
    ),
    row!(
        44,
        "create_proposal",
        "creator receiver start_date end_date daily_pay subject permlink extensions",
        NAME,
        NAME,
        TIME,
        TIME,
        Asset,
        Text,
        Text,
        FUTURE
    ),
    row!(45, "update_proposal_votes", "voter proposal_ids approve extensions", NAME, List(&[U64]), Bool, FUTURE),
    row!(46, "remove_proposal", "proposal_owner proposal_ids extensions", NAME, List(&[U64]), FUTURE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_tags_are_unique_per_family() {
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
