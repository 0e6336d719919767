//! The beginning of a snapshot as a snapshot of its own: whole sections, behind a header that names no roots, since the
//! blocks that the roots name may be beyond it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding};
use crate::source::input::{self, InputOptions};

/// Bytes read at once; with sections of ordinary size a sample is at most so much longer than asked for.
const CHUNK: usize = 1 << 20;

/// Memory for unpacking, in bytes.
const UNPACKING: u64 = 64 << 20;

/// `{roots: [], version: 1}` in dag-cbor, behind its length.
const HEADER: &[u8] = b"\x11\xa2\x65roots\x80\x67version\x01";

/// Writes a CAR of version 1 with the first sections of `source`, of `bytes` or a little more, unpacked. Returns `false`
/// without a file if the source is no CAR.
///
/// # Errors
/// [`Error::Io`]: the source cannot be read, or the disk is full.
pub(super) fn write(source: &Path, target: &Path, bytes: u64) -> Result<bool> {
    match copy_sections(source, target, bytes) {
        Ok(_) => Ok(true),
        Err(Error::BadInput { .. }) => match std::fs::remove_file(target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", target)(error)),
            _ => Ok(false),
        },
        Err(error) => Err(error),
    }
}

/// Returns the number of blocks.
fn copy_sections(source: &Path, target: &Path, bytes: u64) -> Result<u64> {
    let threads = crate::parallel::cores();
    let input = input::open(source, &InputOptions::new(threads, UNPACKING))?;
    let limits = Limits {
        max_block: DEFAULT_MAX_BLOCK,
        null_padding: NullPadding::Eof,
        fits: u64::MAX,
        budget: u64::MAX,
        chunk: CHUNK,
    };
    let (_, mut chunks) = Chunks::open(input, limits)?;
    let mut out = BufWriter::new(File::create(target).map_err(Error::io("create", target))?);
    let (mut written, mut blocks, mut spare) = (0, 0, None);
    let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(Error::io("write", target));
    put(HEADER)?;
    while written < bytes
        && let Some(chunk) = chunks.next(spare.take())?
    {
        put(&chunk.bytes)?;
        written += chunk.bytes.len() as u64;
        blocks += chunk.starts.len() as u64;
        spare = chunk.bytes.release();
    }
    out.flush().map_err(Error::io("write", target))?;
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Profile, Spec};

    #[test]
    fn a_sample_is_a_snapshot_with_the_first_blocks() {
        let dir = tempfile::tempdir().expect("a folder");
        let (whole, part) = (dir.path().join("whole.car"), dir.path().join("part.car"));
        let mut file = File::create(&whole).expect("room");
        crate::generate::write(&Spec::new(Profile::Mainnet, 4 << 20), &mut file).expect("room");
        let blocks = copy_sections(&whole, &part, 1 << 20).expect("a sample");
        let (all, some) = (std::fs::read(&whole).expect("there"), std::fs::read(&part).expect("there"));
        assert!((1 << 20..3 << 20).contains(&some.len()), "{}", some.len());
        let sections = &some[HEADER.len()..];
        assert!(
            all.windows(sections.len()).any(|window| window == sections),
            "its sections are the first of the whole"
        );
        // Sampling the sample whole says that it is sound, and has so many blocks.
        assert_eq!(copy_sections(&part, &dir.path().join("again.car"), u64::MAX).expect("sound"), blocks);
        let header: ipld_core::ipld::Ipld = serde_ipld_dagcbor::from_slice(&HEADER[1..]).expect("dag-cbor");
        assert_eq!(format!("{header:?}"), "{\"roots\": [], \"version\": 1}");
        assert_eq!(usize::from(HEADER[0]), HEADER.len() - 1);
    }
}
