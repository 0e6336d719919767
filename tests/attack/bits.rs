//! Flips every bit of a small CAR, one at a time. The import refuses the changed file, or no hash covers the bit and the
//! records are those of the changed file.

use super::common::car::{Block, header, rooted, section, sections};
use super::common::crash::{Case, Chance, From, Way};
use super::common::model::Key;
use super::imports::{World, blocks, of_car, snapshot_of};
use super::judge::*;
use super::{Context, Tell};

pub fn flips(_: &World, at: &Context, _: &mut Chance, tell: Tell<'_>) {
    let blocks = blocks(9, 40, 60, true);
    let mut car = rooted(&blocks);
    // Neighbours far apart: a part of the bits is spread over the file.
    let bit = (at.index.wrapping_mul(7_368_787) + at.seed) as usize % (car.len() * 8);
    let (byte, mask) = (bit / 8, 1 << (bit % 8));
    car[byte] ^= mask;
    let file = at.dir.join("source");
    std::fs::write(&file, &car).expect("room");
    let mut case = Case::new(at.dir, snapshot_of(file, 0), Way::Memory, From::File);
    case.args.clear();
    let judge = || {
        let ended = ends(case.start(), &[0, 3])?;
        if ended.code == Some(3) {
            return refused(&case.db);
        }
        if !is_uncovered(&blocks, byte) {
            return fail(Harm::Wrong, "accepted, and a hash covers it");
        }
        let families = of_car(&sections(&car), Key::Cid);
        Wanted::new(at.dir.join("wanted"), &families, &Families::new()).check_database(&case.db)?;
        Ok(Outcome::Uncovered)
    };
    tell(&format!("byte {byte} ^ {mask:#04x}"), judge());
}

/// True for the bytes of the header with its root, and of the codecs of CIDs.
pub fn is_uncovered(blocks: &[Block], byte: usize) -> bool {
    let mut start = header(&[blocks[0].0.clone()]).len();
    let is_of_a_codec = blocks.iter().any(|block| {
        start += section(block).len();
        let (cid, data) = block;
        let version = start - data.len() - cid.len();
        let codec_len = cid[1..].iter().position(|byte| *byte < 0x80).expect("a codec") + 1;
        cid[0] == 1 && (version + 1..=version + codec_len).contains(&byte)
    });
    is_of_a_codec || byte < header(&[blocks[0].0.clone()]).len()
}
