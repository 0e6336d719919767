use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::progress::CancellationToken;

/// Bytes per read: enough for all lanes of the hash, and small enough for a core's cache.
const PIECE: usize = 256 << 10;

/// Copies `from` to `to` and returns the number of bytes and their BLAKE3. Reads at most `most` + 1 bytes.
pub(super) fn copy(
    (mut from, path): (impl Read, &Path),
    (mut to, into): (impl Write, &Path),
    most: u64,
    stop: &CancellationToken,
    on_bytes: &(dyn Fn(u64) + Sync),
) -> Result<(u64, blake3::Hash)> {
    let (mut hasher, mut piece, mut bytes) = (blake3::Hasher::new(), vec![0; PIECE], 0);
    while bytes <= most {
        stop.check(Error::interrupted)?;
        let room = usize::try_from((most - bytes).saturating_add(1)).unwrap_or(PIECE).min(PIECE);
        let len = match from.read(piece.get_mut(..room).unwrap_or_default()) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let read = piece.get(..len).unwrap_or_default();
        hasher.update(read);
        to.write_all(read).map_err(Error::io("write", into))?;
        bytes += len as u64;
        on_bytes(len as u64);
    }
    Ok((bytes, hasher.finalize()))
}

pub(super) fn hash(file: &File, path: &Path, most: u64, stop: &CancellationToken) -> Result<(u64, blake3::Hash)> {
    copy((file, path), (std::io::sink(), path), most, stop, &|_| ())
}
