//! The operations of Steem and Hive, one row each.
//!
//! Tags and fields as in `steem_operations.hpp` (0.23.1) and `hive_operations.hpp` (1.28) of the nodes, which agree but
//! for tag 16 and the last three. Virtual operations follow these tags; they are never in blocks.

use super::super::Family;
use super::super::field::FieldType::{self, Asset, Bool, Hex, List, Optional, Signed16, Text};
use super::super::field::Operation;
use super::types::*;

/// One operation of any kind.
pub(super) const OPERATION: FieldType = FieldType::Operation(find);

pub(in super::super) fn find(family: Family, tag: u32) -> Option<&'static Operation> {
    let hives = HIVE.iter().find(|operation| family == Family::Hive && operation.tag == tag);
    hives.or_else(|| STEEM.get(usize::try_from(tag).ok()?))
}

macro_rules! operations {
    ($($tag:literal $name:ident { $($field:ident $(/ $hives:ident)?: $type:expr),+ })+) => {
        &[$(Operation {
            tag: $tag,
            name: stringify!($name),
            title: concat!("the operation `", stringify!($name), "`"),
            names: &[$(concat!(stringify!($field) $(, "|", stringify!($hives))?)),+],
            fields: &[$($type),+],
        }),+]
    };
}

/// Operations that only Hive has.
const HIVE: &[Operation] = operations! {
    16 witness_block_approve { witness: NAME, block_id: BLOCK_ID }
    47 update_proposal { proposal_id: U64, creator: NAME, daily_pay: Asset, subject: Text, permlink: Text,
        extensions: PROPOSAL_UPDATES }
    48 collateralized_convert { owner: NAME, requestid: U32, amount: Asset }
    49 recurrent_transfer { from: NAME, to: NAME, amount: Asset, memo: Text, recurrence: U16, executions: U16,
        extensions: RECURRENCES }
};

/// Operations of Steem, in the order of their tags. Hive has them all but number 16.
const STEEM: &[Operation] = operations! {
    0 vote { voter: NAME, author: NAME, permlink: Text, weight: Signed16 }
    1 comment { parent_author: NAME, parent_permlink: Text, author: NAME, permlink: Text, title: Text, body: Text,
        json_metadata: Text }
    2 transfer { from: NAME, to: NAME, amount: Asset, memo: Text }
    3 transfer_to_vesting { from: NAME, to: NAME, amount: Asset }
    4 withdraw_vesting { account: NAME, vesting_shares: Asset }
    5 limit_order_create { owner: NAME, orderid: U32, amount_to_sell: Asset, min_to_receive: Asset, fill_or_kill: Bool,
        expiration: TIME }
    6 limit_order_cancel { owner: NAME, orderid: U32 }
    7 feed_publish { publisher: NAME, exchange_rate: PRICE }
    8 convert { owner: NAME, requestid: U32, amount: Asset }
    9 account_create { fee: Asset, creator: NAME, new_account_name: NAME, owner: AUTHORITY, active: AUTHORITY,
        posting: AUTHORITY, memo_key: KEY, json_metadata: Text }
    10 account_update { account: NAME, owner: OPTIONAL_AUTHORITY, active: OPTIONAL_AUTHORITY,
        posting: OPTIONAL_AUTHORITY, memo_key: KEY, json_metadata: Text }
    11 witness_update { owner: NAME, url: Text, block_signing_key: KEY, props: PROPERTIES, fee: Asset }
    12 account_witness_vote { account: NAME, witness: NAME, approve: Bool }
    13 account_witness_proxy { account: NAME, proxy: NAME }
    14 pow { worker_account: NAME, block_id: BLOCK_ID, nonce: U64, work: WORK, props: PROPERTIES }
    15 custom { required_auths: NAMES, id: U16, data: Text }
    16 report_over_production { reporter: NAME, first_block: Hex(SIGNED_HEADER), second_block: Hex(SIGNED_HEADER) }
    17 delete_comment { author: NAME, permlink: Text }
    18 custom_json { required_auths: NAMES, required_posting_auths: NAMES, id: Text, json: Text }
    19 comment_options { author: NAME, permlink: Text, max_accepted_payout: Asset,
        percent_steem_dollars / percent_hbd: U16, allow_votes: Bool, allow_curation_rewards: Bool,
        extensions: BENEFICIARIES }
    20 set_withdraw_vesting_route { from_account: NAME, to_account: NAME, percent: U16, auto_vest: Bool }
    21 limit_order_create2 { owner: NAME, orderid: U32, amount_to_sell: Asset, exchange_rate: PRICE, fill_or_kill: Bool,
        expiration: TIME }
    22 claim_account { creator: NAME, fee: Asset, extensions: FUTURE }
    23 create_claimed_account { creator: NAME, new_account_name: NAME, owner: AUTHORITY, active: AUTHORITY,
        posting: AUTHORITY, memo_key: KEY, json_metadata: Text, extensions: FUTURE }
    24 request_account_recovery { recovery_account: NAME, account_to_recover: NAME, new_owner_authority: AUTHORITY,
        extensions: FUTURE }
    25 recover_account { account_to_recover: NAME, new_owner_authority: AUTHORITY, recent_owner_authority: AUTHORITY,
        extensions: FUTURE }
    26 change_recovery_account { account_to_recover: NAME, new_recovery_account: NAME, extensions: FUTURE }
    27 escrow_transfer { from: NAME, to: NAME, sbd_amount / hbd_amount: Asset, steem_amount / hive_amount: Asset,
        escrow_id: U32, agent: NAME, fee: Asset, json_meta: Text, ratification_deadline: TIME, escrow_expiration: TIME }
    28 escrow_dispute { from: NAME, to: NAME, agent: NAME, who: NAME, escrow_id: U32 }
    29 escrow_release { from: NAME, to: NAME, agent: NAME, who: NAME, receiver: NAME, escrow_id: U32,
        sbd_amount / hbd_amount: Asset, steem_amount / hive_amount: Asset }
    30 pow2 { work: WORK_2, new_owner_key: Optional(&[KEY]), props: PROPERTIES }
    31 escrow_approve { from: NAME, to: NAME, agent: NAME, who: NAME, escrow_id: U32, approve: Bool }
    32 transfer_to_savings { from: NAME, to: NAME, amount: Asset, memo: Text }
    33 transfer_from_savings { from: NAME, request_id: U32, to: NAME, amount: Asset, memo: Text }
    34 cancel_transfer_from_savings { from: NAME, request_id: U32 }
    35 custom_binary { required_owner_auths: NAMES, required_active_auths: NAMES, required_posting_auths: NAMES,
        required_auths: List(&[AUTHORITY]), id: Text, data: Text }
    36 decline_voting_rights { account: NAME, decline: Bool }
    37 reset_account { reset_account: NAME, account_to_reset: NAME, new_owner_authority: AUTHORITY }
    38 set_reset_account { account: NAME, current_reset_account: NAME, reset_account: NAME }
    39 claim_reward_balance { account: NAME, reward_steem / reward_hive: Asset, reward_sbd / reward_hbd: Asset,
        reward_vests: Asset }
    40 delegate_vesting_shares { delegator: NAME, delegatee: NAME, vesting_shares: Asset }
    41 account_create_with_delegation { fee: Asset, delegation: Asset, creator: NAME, new_account_name: NAME,
        owner: AUTHORITY, active: AUTHORITY, posting: AUTHORITY, memo_key: KEY, json_metadata: Text,
        extensions: FUTURE }
    42 witness_set_properties { owner: NAME, props: List(&[Text, Text]), extensions: FUTURE }
    43 account_update2 { account: NAME, owner: OPTIONAL_AUTHORITY, active: OPTIONAL_AUTHORITY,
        posting: OPTIONAL_AUTHORITY, memo_key: Optional(&[KEY]), json_metadata: Text, posting_json_metadata: Text,
        extensions: FUTURE }
    44 create_proposal { creator: NAME, receiver: NAME, start_date: TIME, end_date: TIME, daily_pay: Asset,
        subject: Text, permlink: Text, extensions: FUTURE }
    45 update_proposal_votes { voter: NAME, proposal_ids: List(&[U64]), approve: Bool, extensions: FUTURE }
    46 remove_proposal { proposal_owner: NAME, proposal_ids: List(&[U64]), extensions: FUTURE }
};

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::ChainProblem;
    use super::super::super::field::FieldContext;
    use super::super::super::reader::BlockReader;
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
        assert_eq!(name(Family::Steem), Some("report_over_production"));
        assert_eq!(name(Family::Hive), Some("witness_block_approve"));
    }

    /// A base-128 length and the bytes.
    fn text(text: &str) -> Vec<u8> {
        [&[text.len() as u8][..], text.as_bytes()].concat()
    }

    fn read(family: Family, operation_bytes: &[u8]) -> Result<Value, ChainProblem> {
        let context = FieldContext { family, block: 1, inside: "an operation" };
        super::super::super::field::read(&mut BlockReader::new(operation_bytes, 0), context, &OPERATION)
    }

    #[test]
    fn operations_are_written_with_field_names() {
        let vote = [&[0][..], &text("alice"), &text("bob"), &text("a-post"), &(-2500i16).to_le_bytes()].concat();
        assert_eq!(
            read(Family::Steem, &vote),
            Ok(json!({
                "type": "vote",
                "value": { "voter": "alice", "author": "bob", "permlink": "a-post", "weight": -2500 },
            }))
        );
        let amount = [&1_005i64.to_le_bytes()[..], b"\x03STEEM\0\0"].concat();
        let transfer = [&[2][..], &text("alice"), &text("bob"), &amount, &[2, 0xff, 0xfe]].concat();
        assert_eq!(
            read(Family::Steem, &transfer),
            Ok(json!({
                "type": "transfer",
                "value": { "from": "alice", "to": "bob", "amount": "1.005 STEEM", "memo": { "hex": "fffe" } },
            }))
        );
        let nai = [&5i64.to_le_bytes()[..], b"\x23\x20\xbc\xbe"].concat();
        let savings = [&[33][..], &text("a"), &7u32.to_le_bytes(), &text("b"), &nai, &text("")].concat();
        assert_eq!(
            read(Family::Hive, &savings),
            Ok(json!({
                "type": "transfer_from_savings",
                "value": { "from": "a", "request_id": 7, "to": "b", "amount": "0.005 HIVE", "memo": "" },
            }))
        );
        let (steem, hive) = (find(Family::Steem, 39), find(Family::Hive, 39));
        let names = |family, found: Option<&Operation>| found.map(|found| found.names(family).nth(2));
        assert_eq!(names(Family::Steem, steem), Some(Some("reward_sbd")));
        assert_eq!(names(Family::Hive, hive), Some(Some("reward_hbd")));
        for len in 0..savings.len() {
            assert!(read(Family::Hive, &savings[..len]).is_err(), "cut to {len}");
        }
        assert!(matches!(read(Family::Steem, &[0x7f]), Err(ChainProblem::UnknownOperation { tag: 0x7f, .. })));
    }

    #[test]
    fn operation_field_names_are_distinct() {
        for family in [Family::Steem, Family::Hive] {
            for operation in (0..60).filter_map(|tag| find(family, tag)) {
                let names: std::collections::HashSet<&str> = operation.names(family).collect();
                assert_eq!(names.len(), operation.fields.len(), "{}", operation.name);
                assert!(names.iter().all(|name| !name.contains('|')), "{names:?}");
            }
        }
    }
}
