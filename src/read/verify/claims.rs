//! Claims of a key about its value, by key layout.

use crate::hash::{Claim, Function};
use crate::read::keys::read_multihash;
use crate::sort::key::KeyLayout;
use crate::source::car::read_cid;

/// Hash functions to try for a bare digest without a record: the most common first.
const LIKELY: [u64; 9] = [0xb220, 0x12, 0x1e, 0x1b, 0x16, 0xb240, 0x13, 0x11, 0x00];

#[derive(Debug, Clone)]
pub(super) struct KeyReader {
    pub layout: KeyLayout,
    functions: Vec<u64>,
}

impl KeyReader {
    pub fn new(layout: KeyLayout, recorded: Option<&[u64]>) -> Self {
        let functions = recorded.filter(|codes| !codes.is_empty()).map_or_else(|| LIKELY.to_vec(), <[u64]>::to_vec);
        Self { layout, functions }
    }

    pub fn claim<'a>(&self, key: &'a [u8], data: &'a [u8]) -> Result<Claim<'a>, String> {
        let (code, digest) = match self.layout {
            KeyLayout::Cid => {
                let span = read_cid(key).map_err(|problem| format!("the key is not a CID: {problem}"))?;
                let span = span.filter(|span| span.len as usize == key.len());
                let span = span.ok_or("the key is not a CID: its length does not match its header")?;
                (span.hash, key.get(span.digest as usize..).unwrap_or_default())
            }
            KeyLayout::Multihash => read_multihash(key).ok_or("the key is not a multihash")?,
            KeyLayout::Number => return Err("the key is the number of a block".into()),
            KeyLayout::Any => return Err("the key has no hash".into()),
            KeyLayout::Digest => (self.fitting(key).next().unwrap_or(LIKELY[0]), key),
        };
        Ok(Claim { code, digest, data })
    }

    /// True if a failed claim holds with another hash function: a bare digest does not name its function.
    pub fn matches_another_function(&self, claim: &Claim<'_>) -> bool {
        self.layout == KeyLayout::Digest
            && self.fitting(claim.digest).skip(1).filter_map(Function::from_code).any(|function| match function {
                Function::Identity => claim.digest == claim.data,
                _ => function.digest(claim.data).starts_with(claim.digest),
            })
    }

    fn fitting<'s>(&'s self, digest: &'s [u8]) -> impl Iterator<Item = u64> + 's {
        self.functions.iter().copied().filter(|&code| {
            Function::from_code(code).is_some_and(|function| function.digest_lengths().contains(&digest.len()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Checker;

    fn holds(reader: &KeyReader, key: &[u8], value: &[u8]) -> Result<bool, String> {
        let claim = reader.claim(key, value)?;
        Ok(Checker::new().check(&[claim]).is_ok() || reader.matches_another_function(&claim))
    }

    #[test]
    fn each_layout_checks_its_own_keys() {
        let digest = Function::Blake2b(32).digest(b"block");
        let multihash = [&[0xa0, 0xe4, 0x02, 32][..], &digest].concat();
        let cid = [&[1, 0x71][..], &multihash].concat();
        for (layout, key) in [(KeyLayout::Cid, &cid), (KeyLayout::Multihash, &multihash), (KeyLayout::Digest, &digest)]
        {
            let reader = KeyReader::new(layout, None);
            assert_eq!(holds(&reader, key, b"block"), Ok(true), "{layout:?}");
            assert_eq!(holds(&reader, key, b"b1ock"), Ok(false), "{layout:?}");
        }
        let reader = KeyReader::new(KeyLayout::Cid, None);
        assert!(reader.claim(&cid[..37], b"block").unwrap_err().contains("its length does not match its header"));
        assert!(reader.claim(&digest, b"block").unwrap_err().starts_with("the key is not a CID: "));
        let reader = KeyReader::new(KeyLayout::Multihash, None);
        assert_eq!(reader.claim(&cid, b"block").unwrap_err(), "the key is not a multihash");
    }

    #[test]
    fn a_bare_digest_may_be_of_any_recorded_function() {
        let sha = Function::Sha2_256.digest(b"block");
        assert_eq!(holds(&KeyReader::new(KeyLayout::Digest, None), &sha, b"block"), Ok(true));
        assert_eq!(holds(&KeyReader::new(KeyLayout::Digest, Some(&[0xb220, 0x12])), &sha, b"block"), Ok(true));
        assert_eq!(holds(&KeyReader::new(KeyLayout::Digest, Some(&[0xb220])), &sha, b"block"), Ok(false));
        assert_eq!(holds(&KeyReader::new(KeyLayout::Digest, None), b"same", b"same"), Ok(true));
    }
}
