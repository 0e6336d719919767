//! Calls of the code of the library's caller: readers, writers and filters.

use std::io::{self, Read, Write};
use std::panic::{self, AssertUnwindSafe};

/// The caller's reader or writer. Its panics and impossible counts are errors: work on other threads ends in order, and the
/// message of the panic reaches the caller.
pub(crate) struct Checked<T>(pub T);

impl<T: Read> Read for Checked<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match call("the reader", || self.0.read(buf))?? {
            count if count > buf.len() => Err(io::Error::other("the reader returned more bytes than it was asked for")),
            count => Ok(count),
        }
    }
}

impl<T: Write> Write for Checked<T> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match call("the writer", || self.0.write(buf))?? {
            count if count > buf.len() => Err(io::Error::other("the writer returned more bytes than it was given")),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        call("the writer", || self.0.flush())?
    }
}

/// Calls `code`. If it panics, returns an error with the message of the panic.
pub(crate) fn call<T>(who: &str, code: impl FnOnce() -> T) -> io::Result<T> {
    panic::catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let error = io::Error::other(format!("{who} panicked: {text}"));
        // The drop of a payload may panic again.
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))).map_err(std::mem::forget);
        error
    })
}
