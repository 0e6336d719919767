//! A file of a server without ranges: one stream from its start. After a broken connection it is requested again from
//! the start, and the bytes that were delivered before are skipped and compared.

use std::hash::Hasher;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::{Buf, Bytes};
use twox_hash::XxHash3_64;

use super::RemoteFile;
use super::backoff::Backoff;
use super::body::AnswerBody;
use super::fault::Fault;

pub(super) struct Single {
    file: Arc<RemoteFile>,
    body: Option<AnswerBody>,
    backoff: Backoff,
    piece: Bytes,
    delivered: u64,
    hash: XxHash3_64,
}

impl Single {
    pub fn new(file: Arc<RemoteFile>) -> Self {
        Self { file, body: None, backoff: Backoff::new(), piece: Bytes::new(), delivered: 0, hash: XxHash3_64::new() }
    }

    /// Returns the next bytes of the connection. `None` at the clean end.
    async fn next(&mut self) -> Result<Option<Bytes>, Fault> {
        let body = match &mut self.body {
            Some(body) => body,
            none => {
                let body = none.insert(self.file.get_all().await?);
                // Skips and compares the bytes that were delivered before.
                let (mut hash, mut left) = (XxHash3_64::new(), self.delivered);
                while left > 0 {
                    let Some(mut piece) = body.next().await? else {
                        return Err(Fault::Changed("shorter than the bytes that were read".into()));
                    };
                    let here = piece.split_to(piece.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
                    hash.write(&here);
                    left -= here.len() as u64;
                    if !piece.is_empty() {
                        self.piece = piece;
                    }
                }
                if hash.finish() != self.hash.finish() {
                    return Err(Fault::Changed("other bytes at its beginning".into()));
                }
                if !self.piece.is_empty() {
                    return Ok(Some(std::mem::take(&mut self.piece)));
                }
                body
            }
        };
        let next = body.next().await?;
        self.file.net.received.fetch_add(next.as_ref().map_or(0, |piece| piece.len() as u64), Relaxed);
        match (&next, self.file.facts.bytes) {
            (None, Some(bytes)) if self.delivered < bytes => {
                Err(Fault::transient(format!("the connection ended {} bytes too early", bytes - self.delivered)))
            }
            _ => Ok(next),
        }
    }
}

impl Read for Single {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let file = Arc::clone(&self.file);
        let began = Instant::now();
        self.backoff.begin();
        while self.piece.is_empty() && !into.is_empty() {
            match file.net.wait(self.next()) {
                Ok(None) => return Ok(0),
                Ok(Some(piece)) => {
                    self.backoff.add_received(piece.len() as u64);
                    self.piece = piece;
                }
                Err(fault) => {
                    self.body = None;
                    self.piece = Bytes::new();
                    let pause = self.backoff.next(fault).map_err(|fault| io::Error::other(self.file.failed(fault)))?;
                    std::thread::sleep(pause);
                }
            }
            self.file.net.add_waited(began);
        }
        let count = self.piece.len().min(into.len());
        let room = into.get_mut(..count).unwrap_or_default();
        self.piece.copy_to_slice(room);
        self.hash.write(room);
        self.delivered += count as u64;
        Ok(count)
    }
}
