//! The sum of a source's bytes as they pass by, and the one that its publisher gives.
//!
//! The state of the sum is kept at places behind it, so that an import that goes on in the middle of a file goes on with
//! its sum there.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::digest::generic_array::GenericArray;

use super::CompressionProblem;
use crate::error::Error;

/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;
/// Bytes between two places whose states are kept, and how many of them are: more than readers are ahead of what is
/// durable.
const EVERY: u64 = 1 << 20;
const KEPT: usize = 4096;
/// Blocks that are summed at once.
const BATCH: usize = 64;
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// A function that sums the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SumFunction {
    /// SHA-256.
    Sha256,
    /// CRC-64/NVME, which S3 makes of every object unless its writer wants another one.
    Crc64Nvme,
    /// CRC-32C.
    Crc32c,
    /// CRC-32, as of gzip.
    Crc32,
}

impl SumFunction {
    /// All of them, those first that are harder to meet by chance.
    pub(super) const ALL: [Self; 4] = [Self::Sha256, Self::Crc64Nvme, Self::Crc32c, Self::Crc32];

    /// Its name in headers of S3.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Crc64Nvme => "crc64nvme",
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
        }
    }

    /// Bytes of a sum.
    pub(super) fn width(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Crc64Nvme => 8,
            Self::Crc32c | Self::Crc32 => 4,
        }
    }

    fn start(self) -> State {
        match self.crc() {
            Some(crc) => State::Crc(self, Digest::new(crc).get_state()),
            None => State::Sha256(START),
        }
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Sha256 => None,
            Self::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
        }
    }
}

impl std::fmt::Display for SumFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "SHA-256",
            Self::Crc64Nvme => "CRC-64/NVME",
            Self::Crc32c => "CRC-32C",
            Self::Crc32 => "CRC-32",
        })
    }
}

/// The sum of the first `at` bytes, which are whole blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HashState {
    pub at: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum State {
    Sha256([u32; 8]),
    Crc(SumFunction, u64),
}

impl HashState {
    /// The function that it is a state of.
    pub fn function(&self) -> SumFunction {
        match self.state {
            State::Sha256(_) => SumFunction::Sha256,
            State::Crc(function, _) => function,
        }
    }
}

/// The sum that a source should have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub function: SumFunction,
    /// In hex.
    pub sum: String,
    /// Where it is from, for people.
    pub from: String,
}

impl Expected {
    /// A sum by its bytes.
    pub fn new(function: SumFunction, sum: &[u8], from: impl Into<String>) -> Self {
        Self { function, sum: HEXLOWER.encode(sum), from: from.into() }
    }
}

/// The states that are kept.
pub(super) type States = Arc<Mutex<VecDeque<HashState>>>;

/// The last state at or before `offset`.
pub(super) fn state_before(states: &States, offset: u64) -> Option<HashState> {
    let mut states = states.lock();
    while states.get(1).is_some_and(|next| next.at <= offset) {
        states.pop_front();
    }
    states.front().copied().filter(|state| state.at <= offset)
}

struct Running {
    now: HashState,
    /// Bytes that are no whole block yet.
    rest: Vec<u8>,
    states: States,
}

impl Running {
    fn update(&mut self, mut bytes: &[u8]) {
        if !self.rest.is_empty() {
            let take = bytes.len().min(BLOCK - self.rest.len());
            self.rest.extend_from_slice(bytes.get(..take).unwrap_or_default());
            bytes = bytes.get(take..).unwrap_or_default();
            if self.rest.len() < BLOCK {
                return;
            }
            let rest = std::mem::take(&mut self.rest);
            self.blocks(&rest);
        }
        let whole = bytes.len() / BLOCK * BLOCK;
        let (whole, rest) = bytes.split_at(whole);
        self.rest.extend_from_slice(rest);
        whole.chunks(BATCH * BLOCK).for_each(|batch| self.blocks(batch));
    }

    /// Sums whole blocks, of which there are at most [`BATCH`].
    fn blocks(&mut self, bytes: &[u8]) {
        match &mut self.now.state {
            State::Sha256(state) => {
                let mut blocks = [GenericArray::default(); BATCH];
                let count = bytes.len() / BLOCK;
                for (block, bytes) in blocks.iter_mut().zip(bytes.chunks_exact(BLOCK)) {
                    block.copy_from_slice(bytes);
                }
                sha2::compress256(state, blocks.get(..count).unwrap_or_default());
            }
            State::Crc(function, state) => *state = after(*function, *state, bytes).get_state(),
        }
        let before = self.now.at;
        self.now.at += bytes.len() as u64;
        if before / EVERY != self.now.at / EVERY {
            let mut states = self.states.lock();
            states.push_back(self.now);
            if states.len() > KEPT {
                states.pop_front();
            }
        }
    }

    /// The sum, in hex.
    fn finish(mut self) -> String {
        let mut last = std::mem::take(&mut self.rest);
        if let State::Crc(function, state) = self.now.state {
            let sum = after(function, state, &last).finalize().to_be_bytes();
            return HEXLOWER.encode(sum.get(sum.len() - function.width()..).unwrap_or_default());
        }
        let bits = (self.now.at + last.len() as u64).wrapping_mul(8);
        last.push(0x80);
        while last.len() % BLOCK != BLOCK - 8 {
            last.push(0);
        }
        last.extend_from_slice(&bits.to_be_bytes());
        self.blocks(&last);
        match self.now.state {
            State::Sha256(state) => HEXLOWER.encode(state.map(u32::to_be_bytes).as_flattened()),
            State::Crc(..) => String::new(),
        }
    }
}

/// The CRC whose state was `state`, after `bytes`.
fn after(function: SumFunction, state: u64, bytes: &[u8]) -> Digest {
    let crc = function.crc().unwrap_or(CrcAlgorithm::Crc64Nvme);
    let mut digest = Digest::new_with_init_state(crc, state);
    digest.update(bytes);
    digest
}

/// A reader whose bytes are summed, and whose end is an error where the sum is not the expected one.
pub(super) struct Hashing {
    inner: Box<dyn Read + Send>,
    name: PathBuf,
    /// None once the end was met.
    sum: Option<Running>,
    expected: Arc<Expected>,
}

impl Hashing {
    /// Sums what `inner` reads from where `from` ends.
    pub fn new(
        inner: Box<dyn Read + Send>,
        name: &Path,
        expected: Arc<Expected>,
        from: Option<HashState>,
    ) -> (Self, States) {
        let now = from.unwrap_or(HashState { at: 0, state: expected.function.start() });
        let states = States::new(Mutex::new(VecDeque::from([now])));
        let sum = Running { now, rest: Vec::new(), states: Arc::clone(&states) };
        (Self { inner, name: name.to_owned(), sum: Some(sum), expected }, states)
    }
}

impl Read for Hashing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        if let Some(sum) = &mut self.sum {
            sum.update(into.get(..count).unwrap_or_default());
        }
        if count == 0
            && !into.is_empty()
            && let Some(sum) = self.sum.take()
        {
            let found = sum.finish();
            let Expected { function, sum: expected, from } = &*self.expected;
            if found != *expected {
                let (expected, from) = (expected.clone(), from.clone());
                let problem = CompressionProblem::Checksum { function: *function, expected, found, from };
                return Err(io::Error::other(Error::bad_input(&self.name, None, problem)));
            }
        }
        Ok(count)
    }
}

/// The digest that `text` writes.
pub(super) fn digest(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// The sum of the file `name` in what `sha256sum` writes, or a bare sum; where `any`, also the only one of another name.
pub(super) fn sum_in(text: &[u8], name: &str, any: bool) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(text).ok()?;
    let mut sums = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (hex, file) = match line.strip_prefix("SHA256 (").and_then(|rest| rest.split_once(") = ")) {
            Some((file, hex)) => (hex, file),
            None => line.split_once(char::is_whitespace).unwrap_or((line, "")),
        };
        let file = file.trim().trim_start_matches('*');
        let file = file.rsplit('/').next().unwrap_or(file).to_owned();
        sums.push((digest(hex.trim())?, file));
    }
    let named = sums.iter().find(|(_, file)| file == name);
    let only = sums.first().filter(|(_, file)| sums.len() == 1 && (any || file.is_empty() || file == "-"));
    named.or(only).map(|(digest, _)| *digest)
}

#[cfg(test)]
mod tests {
    use sha2::Digest;

    use super::*;

    #[test]
    fn sums_are_those_of_their_functions_also_from_the_middle() {
        let bytes: Vec<u8> = (0..5_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let crc = |function: SumFunction, bytes: &[u8]| {
            let sum = crc_fast::checksum(function.crc().expect("a CRC"), bytes).to_be_bytes();
            sum[8 - function.width()..].to_vec()
        };
        let lens = [0, 1, 55, 56, 63, 64, 65, 119, 120, 4096, 3 << 20, bytes.len()];
        for (len, function) in lens.into_iter().flat_map(|len| SumFunction::ALL.map(|function| (len, function))) {
            let bytes = &bytes[..len];
            let sum = match function {
                SumFunction::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
                function => crc(function, bytes),
            };
            let expected = Arc::new(Expected::new(function, &sum, "here"));
            let read = |from: Option<HashState>| {
                let start = from.map_or(0, |from| from.at as usize);
                let inner = Box::new(io::Cursor::new(bytes[start..].to_vec()));
                let (mut reader, states) = Hashing::new(inner, Path::new("a"), Arc::clone(&expected), from);
                let mut buf = vec![0; 70_001];
                while reader.read(&mut buf).expect("the same sum") > 0 {}
                states
            };
            let states = read(None);
            for offset in [0, 1 << 20, (1 << 20) + 5, 4 << 20] {
                let state = state_before(&states, offset).expect("a state");
                let written = serde_json::to_string(&state).expect("written");
                assert_eq!(serde_json::from_str::<HashState>(&written).expect("read"), state);
                assert_eq!(state.function(), function);
                assert!(state.at <= offset && (offset - state.at < EVERY + 4096 || offset > len as u64));
                read(Some(state));
            }
        }
    }

    #[test]
    fn functions_are_those_that_s3_means() {
        for (function, check) in [
            (SumFunction::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
            (SumFunction::Crc64Nvme, "ae8b14860a799888"),
            (SumFunction::Crc32c, "e3069283"),
            (SumFunction::Crc32, "cbf43926"),
        ] {
            let expected = Arc::new(Expected { function, sum: check.into(), from: "its definition".into() });
            let inner = Box::new(io::Cursor::new(b"123456789"));
            let mut bytes = Vec::new();
            Hashing::new(inner, Path::new("a"), expected, None).0.read_to_end(&mut bytes).expect("the same sum");
        }
    }

    #[test]
    fn another_sum_is_an_error_at_the_end() {
        let expected = Arc::new(Expected::new(SumFunction::Sha256, &[7; 32], "the publisher"));
        let inner = Box::new(io::Cursor::new(b"bytes".to_vec()));
        let (mut reader, _) = Hashing::new(inner, Path::new("a.car"), expected, None);
        let mut buf = [0; 100];
        assert_eq!(reader.read(&mut buf).expect("bytes"), 5);
        let error = Error::io("read", "a.car")(reader.read(&mut buf).expect_err("refused"));
        assert!(matches!(error, Error::BadInput { .. }), "{error:?}");
    }

    #[test]
    fn sums_are_found_in_what_publishers_write() {
        let hex = "ab".repeat(32);
        let found = |text: &str, any| sum_in(text.as_bytes(), "a.car", any) == Some([0xab; 32]);
        for text in [format!("{hex}\n"), format!("{hex}  a.car\n"), format!("{} *dir/a.car", hex.to_uppercase())] {
            assert!(found(&text, false), "{text}");
        }
        assert!(found(&format!("SHA256 (a.car) = {hex}"), false));
        let other = "cd".repeat(32);
        assert!(found(&format!("{other}  b.car\n{hex}  a.car\n"), false));
        assert!(!found(&format!("{hex}  b.car"), false) && found(&format!("{hex}  b.car"), true));
        for text in ["", "<html>", "not found", &hex[1..], &format!("{hex}\n{hex}x")] {
            assert!(!found(text, true), "{text}");
        }
    }
}
