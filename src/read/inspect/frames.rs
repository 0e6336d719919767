//! Counts the zstd frames of a file from header to header, without decompression.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::os::files::read_at_most;
use crate::report::ZstdInfo;
use crate::source::input::zstd_frame::{BLOCK_HEADER, CHECKSUM, MAX_FRAME_HEADER, block_header, frame_header};

/// The first of the sixteen magics of skippable frames; they differ in the lowest four bits.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Length of a skippable frame's header.
const SKIPPABLE_HEADER: u64 = 8;

/// Counts the frames of the file at `path`; `None` if it does not consist of complete frames: decompression reports the fault.
pub(super) fn count(path: &Path) -> io::Result<Option<ZstdInfo>> {
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut header = [0; MAX_FRAME_HEADER];
    let mut info = ZstdInfo { frames: 0, checksums: 0, skippable: 0, skippable_bytes: 0, window: 0 };
    let mut at = 0;
    while at < size {
        let len = read_at_most(&file, &mut header, at)?;
        let head = header.get(..len).unwrap_or_default();
        let word = |from: usize| head.get(from..)?.first_chunk().copied().map(u32::from_le_bytes);
        if word(0).is_some_and(|magic| magic & !15 == SKIPPABLE) {
            let Some(len) = word(4) else { return Ok(None) };
            info.skippable += 1;
            info.skippable_bytes += SKIPPABLE_HEADER + u64::from(len);
            at += SKIPPABLE_HEADER + u64::from(len);
            continue;
        }
        let Ok(frame) = frame_header(head) else { return Ok(None) };
        info.frames += 1;
        info.checksums += u64::from(frame.checksum);
        info.window = info.window.max(frame.window);
        at += frame.len as u64;
        loop {
            let mut header = [0; BLOCK_HEADER];
            let len = read_at_most(&file, &mut header, at)?;
            let Ok(block) = block_header(header.get(..len).unwrap_or_default()) else { return Ok(None) };
            at += (BLOCK_HEADER + block.len) as u64;
            if block.last {
                break;
            }
        }
        at += if frame.checksum { CHECKSUM as u64 } else { 0 };
    }
    Ok((at == size).then_some(info))
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
