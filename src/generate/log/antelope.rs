//! Blocks of EOSIO and Antelope, and the preamble of their log.

use super::super::random::Noise;
use super::bytes::{key, random, varint};
use super::words::Words;
use crate::blocks::chain::{self, Id};
use sha2::{Digest, Sha256};

/// The slot of block 1: half seconds from 2000 to 2018-06-08T08:08:08.5.
const START: u32 = 1_163_894_177;
/// Seconds from 1970 to 2000.
const SLOTS_START: u64 = 946_684_800;
/// The totem between the preamble and the first block, from version 2 on.
const TOTEM: [u8; 8] = [0xff; 8];
/// The schedule version of Savanna blocks.
const SAVANNA: u32 = 1 << 31;
/// One block in this many proposes new producers.
const NEW_PRODUCERS_EVERY: u32 = 1000;
/// Producers of a round, and the blocks that each makes in a row.
const PRODUCERS: u32 = 21;
const IN_A_ROW: u32 = 12;

/// The version of a log in which transactions can be pruned.
pub(super) const PRUNABLE: u32 = 4;

/// The genesis of a chain: its state, and the id that follows from it.
pub(super) struct Genesis {
    state: Vec<u8>,
    pub(super) chain_id: [u8; 32],
}

impl Genesis {
    /// A genesis with the default limits of nodes.
    pub(super) fn new(seed: u64) -> Self {
        let mut state = Vec::with_capacity(110);
        let micros = (SLOTS_START * 1000 + u64::from(START - 1) * 500) * 1000;
        state.extend(micros.to_le_bytes());
        state.push(0);
        key(&mut state, &mut Noise::new(seed, 5));
        state.extend((1u64 << 20).to_le_bytes());
        let limits: [u32; 14] =
            [1000, 1 << 19, 12, 500, 20, 100, 200_000, 1000, 150_000, 100, 3600, 600, 3_888_000, 4096];
        state.extend(limits.iter().flat_map(|limit| limit.to_le_bytes()));
        state.extend([4, 0, 6, 0]);
        let chain_id = Sha256::digest(&state).into();
        Self { state, chain_id }
    }

    pub(super) fn preamble(&self, version: u32, first: u32) -> Vec<u8> {
        let mut preamble = version.to_le_bytes().to_vec();
        if version > 1 {
            preamble.extend(first.to_le_bytes());
        }
        preamble.extend_from_slice(if version < 3 || first == 1 { &self.state } else { &self.chain_id });
        if version > 1 {
            preamble.extend_from_slice(&TOTEM);
        }
        preamble
    }
}

/// Writes the header of a block and its signature; returns its id. `seed` is that of the log.
pub(super) fn header(
    block: u32,
    savanna: bool,
    (previous, root): (Id, Id),
    seed: u64,
    noise: &mut Noise,
    out: &mut Vec<u8>,
) -> Id {
    let start = out.len();
    out.extend(START.wrapping_add(block - 1).to_le_bytes());
    let turn = u64::from(block / IN_A_ROW % PRODUCERS);
    out.extend(producer(turn).to_le_bytes());
    let first_in_a_row = block.is_multiple_of(IN_A_ROW);
    out.extend(if first_in_a_row && !savanna { 240u16 } else { 0 }.to_le_bytes());
    out.extend_from_slice(previous.as_bytes());
    out.extend_from_slice(root.as_bytes());
    // Block 1 has the chain's id instead of the root of its actions.
    match block {
        1 => out.extend(Genesis::new(seed).chain_id),
        _ => random(out, 32, noise),
    }
    out.extend(if savanna { SAVANNA } else { block / NEW_PRODUCERS_EVERY }.to_le_bytes());
    let proposes = block.is_multiple_of(NEW_PRODUCERS_EVERY) && !savanna;
    out.push(proposes.into());
    if proposes {
        out.extend((block / NEW_PRODUCERS_EVERY + 1).to_le_bytes());
        varint(out, PRODUCERS as usize);
        for turn in 0..PRODUCERS {
            out.extend(producer(turn.into()).to_le_bytes());
            out.push(0);
            key(out, noise);
        }
    }
    if savanna {
        // The finality extension: the number of the last certified block, and if it is strong.
        out.extend([1, 2, 0, 7]);
        out.extend((block - 1).to_le_bytes());
        out.extend([1, 0, 0]);
    } else {
        out.push(0);
    }
    let id = chain::antelope_id(&out[start..], block);
    out.push(0);
    super::bytes::signature(out, noise);
    id
}

/// Appends the extensions of a block: in Savanna blocks a certificate.
pub(super) fn extensions(savanna: bool, noise: &mut Noise, out: &mut Vec<u8>) {
    if savanna {
        out.extend([1, 3, 0]);
        varint(out, 200);
        random(out, 200, noise);
    } else {
        out.push(0);
    }
}

pub(super) fn time(block: u64) -> u32 {
    (SLOTS_START + (u64::from(START) + block) / 2) as u32
}

fn producer(turn: u64) -> u64 {
    let mut name = *b"producer1111";
    name[11] = b'a' + turn as u8;
    number(&name)
}

/// The number of a name of up to twelve characters. Characters that names do not have count as dots.
pub(super) fn number(name: &[u8]) -> u64 {
    let value = |character: &u8| match character {
        b'1'..=b'5' => u64::from(character - b'1' + 1),
        b'a'..=b'z' => u64::from(character - b'a' + 6),
        _ => 0,
    };
    name.iter().take(12).zip(0..).fold(0, |number, (character, at)| number | value(character) << (59 - 5 * at))
}

pub(super) fn account(words: &Words, noise: &mut Noise) -> u64 {
    number(words.account(noise).as_bytes())
}
