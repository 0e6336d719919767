//! stand-in
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentDigest(u128);
impl ContentDigest {
    pub fn add_section(&mut self, bytes: &[u8], key_len: usize) {
        self.0 = self.0.wrapping_add(twox_hash::XxHash3_128::oneshot_with_seed(key_len as u64, bytes));
    }
    pub fn merge(&mut self, other: Self) {
        self.0 = self.0.wrapping_add(other.0);
    }
}
impl std::fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}
