//! Internals of the library for the tests, benches and fuzz targets of this repository.

pub mod bench_support;
pub mod fuzzing;

use std::io::{Cursor, Read};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::source::input::ByteStream;

/// Bytes in memory: no thread, no system call.
impl ByteStream for Cursor<Arc<[u8]>> {
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.read(buf).map_err(Error::io("read", "memory"))
    }

    fn consumed(&self) -> u64 {
        self.position()
    }
}

pub fn hint(error: &Error) -> String {
    error.hint()
}

/// Exports the public items of modules.
macro_rules! inside {
    ($($module:ident)*) => { $(
        #[allow(missing_docs)]
        pub mod $module {
            pub use crate::$module::*;
        }
    )* };
}

inside!(blocks generate hash preset read rocks sort source text);
