//! Steps of a piece, sorted by key.

use std::ops::Range;

use super::super::steps::{StepRef, decode, steps};
use crate::sort::key::KeyLayout;
use crate::source::car::{CidSpan, read_cid};

pub(super) struct KeyedStep<'a> {
    pub step: StepRef<'a>,
    pub span: CidSpan,
    pub key: &'a [u8],
}

/// A piece of a queue and its steps, sorted by key.
pub(super) struct SortedSteps {
    piece: Vec<u8>,
    layout: KeyLayout,
    /// Eight bytes of the key after the common prefix, and the start of the step.
    order: Vec<(u64, u32)>,
}

impl SortedSteps {
    /// Sorts a piece of at most 4 GiB. Steps with unreadable CIDs are omitted: a walk queues none.
    pub fn new(piece: Vec<u8>, layout: KeyLayout) -> Self {
        let mut order = Vec::new();
        let mut prefix: Option<&[u8]> = None;
        for (place, step) in steps(&piece) {
            if let (Some(KeyedStep { key, .. }), Ok(begin)) = (lookup(step, layout), u32::try_from(place.start)) {
                let prefix = prefix.get_or_insert(key);
                let same = prefix.iter().zip(key).take_while(|(a, b)| a == b).count();
                *prefix = prefix.get(..same).unwrap_or_default();
                order.push((0, begin));
            }
        }
        let alike = prefix.map_or(0, <[u8]>::len);
        let sorted = Self { piece, layout, order: Vec::new() };
        for (prefix, begin) in &mut order {
            *prefix = sorted.at(*begin).map_or(0, |lookup| prefix_of(lookup.key.get(alike..).unwrap_or_default()));
        }
        let key = |begin: u32| sorted.at(begin).map(|lookup| lookup.key);
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(&key(b.1))));
        Self { order, ..sorted }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = KeyedStep<'_>> {
        let order = self.order.get(range.start..range.end.min(self.len())).unwrap_or_default();
        order.iter().filter_map(|(_, begin)| self.at(*begin))
    }

    fn at(&self, begin: u32) -> Option<KeyedStep<'_>> {
        let (step, _) = decode(self.piece.get(begin as usize..)?)?;
        lookup(step, self.layout)
    }
}

fn lookup(step: StepRef<'_>, layout: KeyLayout) -> Option<KeyedStep<'_>> {
    let span = read_cid(step.cid).ok().flatten()?;
    Some(KeyedStep { step, span, key: step.cid.get(layout.key_start(&span)..)? })
}

/// Returns the first eight bytes as a number of the same order; shorter keys end in zeros.
fn prefix_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cid(codec: u8, digest: &[u8]) -> Vec<u8> {
        [&[1, codec, 0, digest.len() as u8], digest].concat()
    }

    proptest! {
        #[test]
        fn keys_ascend_and_none_is_lost(
            cids in prop::collection::vec((prop::sample::select(vec![0x55, 0x71]), prop::collection::vec(0_u8..3, 0..12)), 0..60),
            layout in prop::sample::select(vec![KeyLayout::Cid, KeyLayout::Multihash, KeyLayout::Digest]),
        ) {
            let mut piece = Vec::new();
            let cids: Vec<Vec<u8>> = cids.iter().map(|(codec, digest)| cid(*codec, digest)).collect();
            for (cid, tipset) in cids.iter().zip(0..) {
                let step = StepRef { cid, parent: &[], tipset, epoch: None };
                step.encode(&mut piece);
            }
            let sorted = SortedSteps::new(piece, layout);
            let found: Vec<(Vec<u8>, u32)> =
                sorted.range(0..usize::MAX).map(|lookup| (lookup.key.to_vec(), lookup.step.tipset)).collect();
            prop_assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0));
            let key = |cid: &[u8]| read_cid(cid).expect("a CID").map(|span| cid[layout.key_start(&span)..].to_vec());
            let mut expected: Vec<(Vec<u8>, u32)> =
                cids.iter().zip(0..).filter_map(|(cid, number)| Some((key(cid)?, number))).collect();
            let mut found = found;
            expected.sort();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
