//! The first bytes of an input, before it is read.

use std::os::unix::fs::FileExt;

use super::{Body, ByteStream, Input, Restart};
use crate::error::{Error, Result};

/// The first `len` bytes of an input, or all it has: then the second value is `true`. The later reader gets them
/// again.
///
/// # Errors
/// [`Error::Io`] or [`Error::BadInput`]: it cannot be read.
pub(crate) fn peek(input: &mut Input, len: usize) -> Result<(Vec<u8>, bool)> {
    let mut head = vec![0; len];
    let mut got = 0;
    match &mut input.body {
        Body::File(file) => {
            while let Some(room) = head.get_mut(got..).filter(|room| !room.is_empty()) {
                match file.read_at(room, got as u64) {
                    Ok(0) => break,
                    Ok(count) => got += count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Error::io("read", &input.name)(error)),
                }
            }
        }
        Body::Stream(stream) => got = stream.fill(&mut head)?,
    }
    let ends = got < len;
    head.truncate(got);
    if let Body::Stream(stream) = &mut input.body {
        let stream = std::mem::replace(stream, Box::new(Ended));
        input.body = Body::Stream(Box::new(Peeked { head: head.clone(), at: 0, ended: ends, stream }));
    }
    Ok((head, ends))
}

/// A stream with its first bytes put back.
struct Peeked {
    head: Vec<u8>,
    at: usize,
    /// Nothing follows them.
    ended: bool,
    stream: Box<dyn ByteStream>,
}

impl ByteStream for Peeked {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        let head = self.head.get(self.at..).unwrap_or_default();
        let count = head.len().min(buf.len());
        let (to, rest) = buf.split_at_mut(count);
        to.copy_from_slice(head.get(..count).unwrap_or_default());
        self.at += count;
        if self.ended || rest.is_empty() {
            return Ok(count);
        }
        Ok(count + self.stream.fill(rest)?)
    }

    fn consumed(&self) -> u64 {
        self.stream.consumed()
    }

    fn restart(&self, before: u64) -> Option<Restart> {
        self.stream.restart(before)
    }
}

/// A placeholder while a stream is replaced.
struct Ended;

impl ByteStream for Ended {
    fn fill(&mut self, _: &mut [u8]) -> Result<usize> {
        Ok(0)
    }

    fn consumed(&self) -> u64 {
        0
    }
}
