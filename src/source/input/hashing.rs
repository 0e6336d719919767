//! Compares the checksum of a source's bytes with the published one.
//!
//! The state of the checksum is kept at intervals, so that an import that resumes in the middle of a file resumes the
//! checksum too.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::digest::block_buffer::EagerBuffer;
use sha2::digest::consts::U64;

use super::formats::SumFunction;
use super::problem::CompressionProblem;
use crate::error::Error;
use crate::hash::lanes::sha256::IV;

/// Bytes between two states that are kept, and their number: readers are less than that ahead of the journal.
const EVERY: u64 = 1 << 20;
const KEPT: usize = 4096;
const BATCH: usize = 4096;

/// The state of a checksum after `at` bytes; for SHA-256 these are whole blocks of 64 bytes.
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
    fn new(function: SumFunction) -> Self {
        let crc = function.crc(None).map(|crc| State::Crc(function, crc.get_state()));
        Self { at: 0, state: crc.unwrap_or(State::Sha256(IV)) }
    }

    pub fn function(&self) -> SumFunction {
        match self.state {
            State::Sha256(_) => SumFunction::Sha256,
            State::Crc(function, _) => function,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub function: SumFunction,
    pub sum: String,
    /// Its origin, for messages.
    pub from: String,
}

impl Expected {
    pub fn new(function: SumFunction, sum: &[u8], from: impl Into<String>) -> Self {
        Self { function, sum: HEXLOWER.encode(sum), from: from.into() }
    }
}

pub(super) type States = Arc<Mutex<VecDeque<HashState>>>;

/// Returns the last state at or before `offset`, and drops those before it.
pub(super) fn state_before(states: &States, offset: u64) -> Option<HashState> {
    let mut states = states.lock();
    while states.get(1).is_some_and(|next| next.at <= offset) {
        states.pop_front();
    }
    states.front().copied().filter(|state| state.at <= offset)
}

struct Running {
    now: HashState,
    /// The bytes of an incomplete block of SHA-256.
    buffer: EagerBuffer<U64>,
    states: States,
}

impl Running {
    fn update(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(BATCH) {
            let Self { now: HashState { at, state }, buffer, .. } = self;
            let before = *at;
            match state {
                State::Sha256(state) => buffer.digest_blocks(bytes, |blocks| {
                    sha2::compress256(state, blocks);
                    *at += (blocks.len() * 64) as u64;
                }),
                State::Crc(function, state) => {
                    if let Some(mut crc) = function.crc(Some(*state)) {
                        crc.update(bytes);
                        *state = crc.get_state();
                    }
                    *at += bytes.len() as u64;
                }
            }
            if before / EVERY != *at / EVERY {
                let mut states = self.states.lock();
                states.push_back(self.now);
                if states.len() > KEPT {
                    states.pop_front();
                }
            }
        }
    }

    fn finish(mut self) -> String {
        match self.now.state {
            State::Sha256(mut state) => {
                let bits = (self.now.at + self.buffer.get_pos() as u64).wrapping_mul(8);
                self.buffer.len64_padding_be(bits, |block| sha2::compress256(&mut state, std::slice::from_ref(block)));
                HEXLOWER.encode(state.map(u32::to_be_bytes).as_flattened())
            }
            State::Crc(function, state) => {
                let sum = function.crc(Some(state)).map_or(0, |crc| crc.finalize()).to_be_bytes();
                HEXLOWER.encode(&sum[sum.len() - function.describe().2..])
            }
        }
    }
}

/// A reader that computes a checksum. Its end is an error if the checksum is not the expected one.
pub(super) struct Hashing {
    inner: Box<dyn Read + Send>,
    name: PathBuf,
    /// `None` after the end.
    sum: Option<Running>,
    expected: Arc<Expected>,
}

impl Hashing {
    /// Reads `inner`, which begins at the end of `from`.
    pub fn new(
        inner: Box<dyn Read + Send>,
        name: &Path,
        expected: Arc<Expected>,
        from: Option<HashState>,
    ) -> (Self, States) {
        let now = from.unwrap_or_else(|| HashState::new(expected.function));
        let states = States::new(Mutex::new(VecDeque::from([now])));
        let sum = Running { now, buffer: EagerBuffer::default(), states: Arc::clone(&states) };
        (Self { inner, name: name.to_owned(), sum: Some(sum), expected }, states)
    }
}

/// Computes the `expected` checksum, if any, of a reader that begins at the end of `from`.
pub(super) fn hashed(
    reader: Box<dyn Read + Send>,
    name: &Path,
    expected: Option<&Arc<Expected>>,
    from: Option<HashState>,
) -> (Box<dyn Read + Send>, Option<States>) {
    let Some(expected) = expected else { return (reader, None) };
    let (reader, states) = Hashing::new(reader, name, Arc::clone(expected), from);
    (Box::new(reader), Some(states))
}

impl Read for Hashing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        if let Some(sum) = &mut self.sum {
            sum.update(into.get(..count).unwrap_or_default());
        }
        if count == 0
            && !into.is_empty()
            && let Some(found) = self.sum.take().map(Running::finish)
            && found != self.expected.sum
        {
            let Expected { function, sum: expected, from } = (*self.expected).clone();
            let problem = CompressionProblem::Checksum { function, expected, found, from };
            return Err(io::Error::other(Error::bad_input(&self.name, None, problem)));
        }
        Ok(count)
    }
}

pub(super) fn digest(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// Finds the checksum of the file `name` in the output of `sha256sum`, or a bare checksum. With `any`, also the only one
/// of another name.
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
    fn sums_resume_from_the_middle() {
        let bytes: Vec<u8> = (0..5_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let crc = |function: SumFunction, bytes: &[u8]| {
            let mut crc = function.crc(None).expect("a CRC");
            crc.update(bytes);
            crc.finalize().to_be_bytes()[8 - function.describe().2..].to_vec()
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
    fn sum_functions_are_those_of_s3() {
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
    fn other_sum_is_an_error_at_the_end() {
        let expected = Arc::new(Expected::new(SumFunction::Sha256, &[7; 32], "the publisher"));
        let inner = Box::new(io::Cursor::new(b"bytes".to_vec()));
        let (mut reader, _) = Hashing::new(inner, Path::new("a.car"), expected, None);
        let mut buf = [0; 100];
        assert_eq!(reader.read(&mut buf).expect("bytes"), 5);
        let error = Error::io("read", "a.car")(reader.read(&mut buf).expect_err("refused"));
        assert!(matches!(error, Error::BadInput { .. }), "{error:?}");
    }

    #[test]
    fn sums_are_found_in_checksum_files() {
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
