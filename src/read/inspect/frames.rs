//! Counts the zstd frames of a file from header to header, without decompression.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::report::ZstdInfo;
use crate::source::input::zstd_frame::{
    BLOCK_HEADER, CHECKSUM, FrameProblem, MAX_FRAME_HEADER, block_header, frame_header,
};

/// The first of the sixteen magics of skippable frames; they differ in the lowest four bits.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Length of a skippable frame's header.
const SKIPPABLE_HEADER: u64 = 8;

/// Bytes read at once.
const WINDOW: usize = 64 << 10;

/// Counts the frames of the file at `path`; `None` if it does not consist of complete frames: decompression reports the fault.
pub(super) fn count(path: &Path) -> io::Result<Option<ZstdInfo>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut window = Window { file, size, bytes: Vec::new(), base: 0 };
    let mut info = ZstdInfo { frames: 0, checksums: 0, skippable: 0, skippable_bytes: 0, window: 0 };
    let mut at = 0;
    while at < size {
        let head = window.at(at, MAX_FRAME_HEADER)?;
        let word =
            |from: usize| head.get(from..).and_then(|bytes| bytes.first_chunk()).copied().map(u32::from_le_bytes);
        if word(0).is_some_and(|magic| magic & !15 == SKIPPABLE) {
            let Some(len) = word(4) else { return Ok(None) };
            info.skippable += 1;
            info.skippable_bytes += SKIPPABLE_HEADER + u64::from(len);
            at += SKIPPABLE_HEADER + u64::from(len);
            continue;
        }
        let Ok(header) = frame_header(head) else { return Ok(None) };
        info.frames += 1;
        info.checksums += u64::from(header.checksum);
        info.window = info.window.max(header.window);
        at += header.len as u64;
        loop {
            let block: Result<_, FrameProblem> = block_header(window.at(at, BLOCK_HEADER)?);
            let Ok(block) = block else { return Ok(None) };
            at += (BLOCK_HEADER + block.len) as u64;
            if block.last {
                break;
            }
        }
        at += if header.checksum { CHECKSUM as u64 } else { 0 };
    }
    Ok((at == size).then_some(info))
}

/// A window of a file.
struct Window {
    file: File,
    size: u64,
    bytes: Vec<u8>,
    base: u64,
}

impl Window {
    /// Returns `len` bytes at `at`; fewer only at the end of the file.
    fn at(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let inside = at >= self.base && at + len as u64 <= self.base + self.bytes.len() as u64;
        if !inside {
            let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(WINDOW);
            self.bytes.resize(left.min(WINDOW), 0);
            self.file.read_exact_at(&mut self.bytes, at)?;
            self.base = at;
        }
        let from = usize::try_from(at - self.base).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(rest.get(..len).unwrap_or(rest))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn info(bytes: &[u8]) -> Option<ZstdInfo> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("write");
        count(file.path()).expect("read")
    }

    fn frame(content: &[u8], checksum: bool) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
        encoder.include_checksum(checksum).expect("zstd");
        encoder.write_all(content).expect("write");
        encoder.finish().expect("finish")
    }

    #[test]
    fn frames_and_skippable_frames_are_counted() {
        let noise: Vec<u8> = (0..500_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let file = [frame(&noise, true), skippable, frame(b"", false), frame(&noise[..70_000], false)].concat();
        let found = info(&file).expect("whole frames");
        assert_eq!((found.frames, found.checksums, found.skippable, found.skippable_bytes), (3, 1, 1, 11));
        assert!(found.window >= 70_000);
        assert_eq!(info(&file[..file.len() - 1]), None);
        assert_eq!(info(b"not zstd at all"), None);
    }
}
