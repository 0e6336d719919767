//! Hashes of blocks that are read in pieces.

use sha2::Digest as _;

use super::function::Function;

/// The state of a hash. The block is never in memory as a whole.
pub(crate) enum Streaming {
    Blake2b(Box<blake2b_simd::State>),
    Sha2_256(Box<sha2::Sha256>),
    Blake3(Box<blake3::Hasher>),
}

impl Streaming {
    /// Begins a hash by its multicodec. `None` if the function is not computed in pieces.
    pub fn new(code: u64) -> Option<Self> {
        match Function::from_code(code)? {
            Function::Blake2b(size) => {
                Some(Self::Blake2b(Box::new(blake2b_simd::Params::new().hash_length(size.into()).to_state())))
            }
            Function::Sha2_256 => Some(Self::Sha2_256(Box::default())),
            Function::Blake3 => Some(Self::Blake3(Box::default())),
            _ => None,
        }
    }

    pub fn update(&mut self, piece: &[u8]) {
        match self {
            Self::Blake2b(state) => _ = state.update(piece),
            Self::Sha2_256(hasher) => hasher.update(piece),
            Self::Blake3(hasher) => _ = hasher.update(piece),
        }
    }

    /// Returns the whole digest; for blake3, `length` bytes.
    pub fn finish(self, length: usize) -> Vec<u8> {
        match self {
            Self::Blake2b(state) => state.finalize().as_bytes().to_vec(),
            Self::Sha2_256(hasher) => hasher.finalize().to_vec(),
            Self::Blake3(hasher) => {
                let mut digest = vec![0; length];
                hasher.finalize_xof().fill(&mut digest);
                digest
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_the_digest_of_the_whole() {
        let data: Vec<u8> = (0..100_000u32).map(|at| (at * 31) as u8).collect();
        for code in [0xb220, 0xb240, 0xb205, 0x12, 0x1e] {
            let mut hash = Streaming::new(code).expect("it comes in pieces");
            data.chunks(777).for_each(|piece| hash.update(piece));
            assert_eq!(hash.finish(32), Function::from_code(code).expect("known").digest(&data), "0x{code:x}");
        }
        assert!(Streaming::new(0).is_none() && Streaming::new(0xffff).is_none());
    }
}
