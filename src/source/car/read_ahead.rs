//! Threads that read a plain file ahead of the one that frames it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::os::files::read_at_most;
use crate::parallel::IoThreads;

/// Pieces that are read at once, and bytes of each.
const IN_FLIGHT: usize = 8;
const PIECE: usize = 512 << 10;

/// The pieces that threads have read or are reading. The disk has several requests at a time.
pub(super) struct ReadAhead {
    threads: IoThreads,
    file: Arc<File>,
    pieces: VecDeque<Piece>,
    /// Start of the first piece, and of the next one.
    begins: u64,
    asked: u64,
}

/// [`PIECE`] bytes of the file, or fewer at its end.
enum Piece {
    Asked(Receiver<Result<Vec<u8>>>),
    Read(Vec<u8>),
}

impl ReadAhead {
    pub fn new(file: File) -> crate::error::Result<Self> {
        let threads = IoThreads::start(IN_FLIGHT)?;
        Ok(Self { threads, file: Arc::new(file), pieces: VecDeque::new(), begins: 0, asked: 0 })
    }

    /// Fills `buf` with the bytes from `at` on, and returns their number.
    pub fn fill(&mut self, buf: &mut [u8], at: u64) -> Result<usize> {
        if at < self.begins || at > self.asked {
            // The reader is elsewhere.
            self.pieces.clear();
            (self.begins, self.asked) = (at, at);
        }
        let mut filled = 0;
        while filled < buf.len() {
            while self.pieces.len() < IN_FLIGHT {
                self.ask(Vec::new());
            }
            let Some(front) = self.pieces.front_mut() else { break };
            if let Piece::Asked(answer) = front {
                let read = answer.recv().unwrap_or_else(|_| Err(ErrorKind::BrokenPipe.into()))?;
                *front = Piece::Read(read);
            }
            let Piece::Read(bytes) = front else { break };
            let from = usize::try_from(at + filled as u64 - self.begins).unwrap_or(usize::MAX);
            let rest = bytes.get(from..).unwrap_or_default();
            let len = rest.len().min(buf.len() - filled);
            buf[filled..filled + len].copy_from_slice(&rest[..len]);
            filled += len;
            if from.saturating_add(len) >= bytes.len() {
                if bytes.len() < PIECE {
                    // The file ends here.
                    break;
                }
                self.begins += PIECE as u64;
                if let Some(Piece::Read(bytes)) = self.pieces.pop_front() {
                    self.ask(bytes);
                }
            }
        }
        Ok(filled)
    }

    fn ask(&mut self, mut bytes: Vec<u8>) {
        bytes.resize(PIECE, 0);
        let (file, at) = (Arc::clone(&self.file), self.asked);
        self.asked += PIECE as u64;
        self.pieces.push_back(Piece::Asked(self.threads.run(move || {
            let len = read_at_most(&file, &mut bytes, at)?;
            bytes.truncate(len);
            Ok(bytes)
        })));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn read_ahead_returns_the_bytes_of_the_file(
            len in prop_oneof![0..3 * PIECE, Just(0), Just(PIECE), Just(2 * PIECE), Just((IN_FLIGHT + 2) * PIECE + 1)],
            steps in prop::collection::vec((0..3 * PIECE, prop::option::weighted(0.2, 0..12 * PIECE)), 1..20),
        ) {
            let bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), &bytes).expect("written");
            let mut read_ahead = ReadAhead::new(file.reopen().expect("it is there")).expect("threads");
            let mut at = 0;
            for (want, seek) in steps {
                at = seek.unwrap_or(at);
                let mut found = vec![0; want];
                let filled = read_ahead.fill(&mut found, at as u64).expect("readable");
                let expected = bytes.get(at..len.min(at + want)).unwrap_or_default();
                prop_assert!(found[..filled] == *expected, "{} bytes at {} of {}", want, at, len);
                at += filled;
            }
        }
    }

    #[test]
    fn unreadable_file_is_an_error() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let unreadable = File::options().append(true).open(file.path()).expect("it is there");
        let mut read_ahead = ReadAhead::new(unreadable).expect("threads");
        let error = read_ahead.fill(&mut [0; 10], 0).expect_err("it is open for writing only");
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
