//! A stream whose first bytes were read to detect what it is.

use super::{Body, ByteStream, Input, Restart};
use crate::error::{Error, Result};
use crate::os::files::read_head;

/// A stream that delivers its first bytes again. The default is an empty stream.
#[derive(Default)]
pub(crate) struct Prefixed {
    pub head: Vec<u8>,
    at: usize,
    stream: Option<Box<dyn ByteStream>>,
}

impl Prefixed {
    /// Reads the first `len` bytes of a stream, or all if it has fewer.
    pub fn new(mut stream: Box<dyn ByteStream>, len: usize) -> Result<Self> {
        let mut head = vec![0; len];
        let filled = stream.fill(&mut head)?;
        head.truncate(filled);
        Ok(Self { head, at: 0, stream: Some(stream) })
    }
}

impl ByteStream for Prefixed {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        let head = self.head.get(self.at..).unwrap_or_default();
        let count = head.len().min(buf.len());
        let (to, rest) = buf.split_at_mut(count);
        to.copy_from_slice(head.get(..count).unwrap_or_default());
        self.at += count;
        match &mut self.stream {
            Some(stream) if !rest.is_empty() => Ok(count + stream.fill(rest)?),
            _ => Ok(count),
        }
    }

    fn consumed(&self) -> u64 {
        self.stream.as_ref().map_or(0, |stream| stream.consumed())
    }

    fn restart(&self, before: u64) -> Option<Restart> {
        self.stream.as_ref()?.restart(before)
    }
}

/// Returns the first `len` bytes of an input, or all it has: then the second value is `true`. The next reader gets them
/// again.
pub(crate) fn peek(input: &mut Input, len: usize) -> Result<(Vec<u8>, bool)> {
    let head = match &mut input.body {
        Body::File(file) => read_head(file, len).map_err(Error::io("read", &input.name))?,
        Body::Stream(stream) => {
            let prefixed = Prefixed::new(std::mem::replace(stream, Box::new(Prefixed::default())), len)?;
            let head = prefixed.head.clone();
            *stream = Box::new(prefixed);
            head
        }
    };
    let ends = head.len() < len;
    Ok((head, ends))
}
