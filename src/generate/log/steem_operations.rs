//! Operations of Steem and Hive in about the shares that people send: mostly votes and custom JSON, then comments, transfers
//! and claims, and few of the others.

use super::super::random::{MILLION, Noise};
use super::bytes::{key, random, signature, text, varint};
use super::words::Words;
use OperationPart::*;
use Symbol::*;

/// Posts that people talk about at one time.
const POSTS: u64 = 2000;

/// Symbols in the legacy packing and in the newer one of Hive.
#[derive(Debug, Clone, Copy)]
enum Symbol {
    Liquid,
    Dollar,
    Vests,
}

#[derive(Debug, Clone, Copy)]
enum OperationPart {
    Account,
    Post,
    Random(usize),
    /// A time in 27 days.
    Time,
    Flag,
    Asset(u64, Symbol),
    Amount(Symbol),
    /// A small random amount.
    Reward(Symbol),
    Key,
    Signature,
    Authority,
    Text(&'static str),
    Bytes(&'static [u8]),
    /// The number of a pair of recurrent transfers, or none.
    Pair,
}

type Operation = (usize, &'static [OperationPart]);

const CLAIM_REWARDS: Operation = (39, &[Account, Reward(Liquid), Reward(Dollar), Reward(Vests)]);

/// Rare operations. Those that only Hive has are the last ones.
const RARE: &[Operation] = &[
    (5, &[Account, Random(4), Amount(Liquid), Amount(Dollar), Bytes(&[0]), Time]),
    (6, &[Account, Random(4)]),
    (7, &[Account, Amount(Dollar), Asset(1000, Liquid)]),
    (3, &[Account, Account, Amount(Liquid)]),
    (12, &[Account, Account, Flag]),
    (40, &[Account, Account, Amount(Vests)]),
    (10, &[Account, Bytes(&[0, 0, 1]), Authority, Key, Text(r#"{"profile":{"name":"somebody","about":"somewhere"}}"#)]),
    (41, &[Amount(Liquid), Amount(Vests), Account, Account, Authority, Authority, Authority, Key, Bytes(&[0, 0])]),
    (
        27,
        &[Account, Account, Amount(Dollar), Amount(Liquid), Random(4), Account, Amount(Liquid), Text("{}"), Time, Time],
    ),
    (17, &[Post]),
    WORK[0],
    (49, &[Account, Account, Amount(Liquid), Text("rent"), Bytes(&[24, 0, 12, 0]), Pair]),
    (48, &[Account, Random(4), Amount(Liquid)]),
    (45, &[Account, Bytes(&[2, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 0])]),
];

const RARE_OF_STEEM: usize = 11;

const WORK: [Operation; 2] = [
    (14, &[Account, Random(28), Key, Random(32), Signature, Random(32), Asset(1000, Liquid), Bytes(PROPERTIES)]),
    (30, &[Bytes(&[0]), Account, Random(32), Bytes(&[0]), Asset(1000, Liquid), Bytes(PROPERTIES)]),
];

/// The size of blocks, 65,536, and the rate of interest, 1,000.
const PROPERTIES: &[u8] = &[0, 0, 1, 0, 0xe8, 3];

pub(super) struct Operations<'a> {
    pub(super) words: &'a Words,
    pub(super) out: &'a mut Vec<u8>,
    pub(super) noise: &'a mut Noise,
    /// True if operations that only Hive has may be written.
    pub(super) hive: bool,
    /// True if assets are written in the newer packing.
    pub(super) nai: bool,
    pub(super) block: u64,
    pub(super) time: u32,
}

impl Operations<'_> {
    pub(super) fn write(&mut self) {
        const VOTE: u64 = 400_000;
        const CUSTOM_JSON: u64 = VOTE + 300_000;
        const COMMENT: u64 = CUSTOM_JSON + 120_000;
        const TRANSFER: u64 = COMMENT + 90_000;
        const CLAIM: u64 = TRANSFER + 50_000;
        let with_options = self.noise.below(4) == 0;
        let kind = self.noise.below(MILLION);
        let two = (CUSTOM_JSON..COMMENT).contains(&kind) && with_options;
        varint(self.out, 1 + usize::from(two));
        match kind {
            0..VOTE => self.vote(),
            VOTE..CUSTOM_JSON => self.custom_json(),
            CUSTOM_JSON..COMMENT => self.comment(with_options),
            COMMENT..TRANSFER => self.transfer(),
            TRANSFER..CLAIM => self.operation(CLAIM_REWARDS),
            _ => self.rare(),
        }
    }

    fn vote(&mut self) {
        self.operation((0, &[Account, Post]));
        let weight = [10_000i16, 10_000, 10_000, 5_000, 100, -10_000][self.noise.below(6) as usize];
        self.out.extend(weight.to_le_bytes());
    }

    fn custom_json(&mut self) {
        self.operation((18, &[Bytes(&[0, 1])]));
        let sender = self.words.account(self.noise);
        text(self.out, sender);
        let other = self.words.account(self.noise);
        let (id, json) = match self.noise.below(4) {
            0 => ("follow", format!(r#"["follow",{{"follower":"{sender}","following":"{other}","what":["blog"]}}]"#)),
            1 => {
                let link = String::from_utf8_lossy(self.words.link(self.a_post())).into_owned();
                let json = format!(r#"["reblog",{{"account":"{sender}","author":"{other}","permlink":"{link}"}}]"#);
                ("follow", json)
            }
            2 => {
                let (to, n) = (self.noise.next(), self.noise.below(5000));
                ("sm_find_match", format!(r#"{{"match_type":"Ranked","app":"game/0.{n}","n":"{to:x}"}}"#))
            }
            _ => {
                let cards: Vec<String> = (0..6)
                    .map(|_| format!(r#""C1-{}-{:X}""#, self.noise.below(400), self.noise.next() >> 24))
                    .collect();
                let hash = self.noise.next();
                let json =
                    format!(r#"{{"trx_id":"{hash:016x}","team":[{}],"secret":"{:x}"}}"#, cards.join(","), hash >> 8);
                ("sm_submit_team", json)
            }
        };
        text(self.out, id);
        text(self.out, json);
    }

    fn comment(&mut self, is_post: bool) {
        const LENGTHS: &[(u64, u64)] =
            &[(300_000, 80), (600_000, 300), (800_000, 1500), (950_000, 5000), (997_000, 12_000), (MILLION, 50_000)];
        self.operation((1, if is_post { &[Text(""), Text("life")] } else { &[Post] }));
        let author = self.words.account(self.noise);
        text(self.out, author);
        let link = [b"re-", self.words.link(self.noise.next())].concat();
        text(self.out, &link);
        let title = if is_post { 20 + self.noise.below(50) as usize } else { 0 };
        self.prose(title);
        let body = self.noise.draw(LENGTHS) as usize;
        self.prose(body);
        let link = String::from_utf8_lossy(&link);
        let image =
            if is_post { format!(r#","image":["https://images.example/{author}/{link}.jpg"]"#) } else { String::new() };
        text(
            self.out,
            format!(r#"{{"tags":["life","photography","story"],"app":"steemit/0.1","format":"markdown"{image}}}"#),
        );
        if is_post {
            varint(self.out, 19);
            text(self.out, author);
            text(self.out, link.as_bytes());
            self.asset(1_000_000_000, Dollar);
            self.out.extend(10_000u16.to_le_bytes());
            self.out.extend([1, 1]);
            let beneficiaries = self.noise.below(2);
            varint(self.out, beneficiaries as usize);
            for _ in 0..beneficiaries {
                self.out.extend([0, 1]);
                text(self.out, self.words.account(self.noise));
                self.out.extend(500u16.to_le_bytes());
            }
        }
    }

    fn transfer(&mut self) {
        self.operation((2, &[Account, Account]));
        let digits = self.noise.below(24);
        let amount = self.noise.below(16 << digits);
        let symbol = if self.noise.below(2) == 0 { Liquid } else { Dollar };
        self.asset(amount, symbol);
        let memo = if self.noise.below(3) == 0 { 0 } else { self.noise.below(120) as usize };
        self.prose(memo);
    }

    fn rare(&mut self) {
        let rare = if self.hive { RARE.len() } else { RARE_OF_STEEM };
        let mut operation = RARE[self.noise.below(rare as u64) as usize];
        if operation.0 == WORK[0].0 {
            operation = WORK[self.noise.below(2) as usize];
        }
        self.operation(operation);
    }

    fn operation(&mut self, (tag, parts): Operation) {
        varint(self.out, tag);
        for part in parts {
            match *part {
                Account => text(self.out, self.words.account(self.noise)),
                Post => {
                    let post = self.a_post();
                    text(self.out, self.words.account(&mut Noise::new(post, 3)));
                    text(self.out, self.words.link(post));
                }
                Random(len) => random(self.out, len, self.noise),
                Time => self.out.extend(self.time.wrapping_add(86_400 * 27).to_le_bytes()),
                Flag => self.out.push(self.noise.below(2) as u8),
                Asset(amount, symbol) => self.asset(amount, symbol),
                Amount(symbol) => self.random_asset(1 << 30, symbol),
                Reward(symbol) => self.random_asset(1 << 20, symbol),
                Key => key(self.out, self.noise),
                Signature => signature(self.out, self.noise),
                Authority => {
                    self.out.extend([1, 0, 0, 0, 0, 1]);
                    key(self.out, self.noise);
                    self.out.extend([1, 0]);
                }
                Text(content) => text(self.out, content),
                Bytes(bytes) => self.out.extend_from_slice(bytes),
                Pair => match self.noise.below(2) {
                    0 => self.out.push(0),
                    _ => self.out.extend([1, 1, 7]),
                },
            }
        }
    }

    fn prose(&mut self, len: usize) {
        self.words.prose(len, self.noise, self.out);
    }

    /// A post that people talk about these days.
    fn a_post(&mut self) -> u64 {
        let fresh = self.noise.below(POSTS) * self.noise.below(POSTS) / POSTS;
        (self.block + POSTS).saturating_sub(fresh)
    }

    fn random_asset(&mut self, limit: u64, symbol: Symbol) {
        let amount = self.noise.below(limit);
        self.asset(amount, symbol);
    }

    fn asset(&mut self, amount: u64, symbol: Symbol) {
        self.out.extend(amount.to_le_bytes());
        self.out.extend_from_slice(match (symbol, self.nai) {
            (Liquid, false) => b"\x03STEEM\0\0",
            (Dollar, false) => b"\x03SBD\0\0\0\0",
            (Vests, false) => b"\x06VESTS\0\0",
            (Dollar, true) => b"\x03\x20\xbc\xbe",
            (Liquid, true) => b"\x23\x20\xbc\xbe",
            (Vests, true) => b"\x46\x20\xbc\xbe",
        });
    }
}
