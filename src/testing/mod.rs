//! Internals of the library for the tests, benches and fuzz targets of this repository.

pub mod bench_support;
pub mod fuzzing;

/// Exports the public items of modules.
macro_rules! inside {
    ($($module:ident)*) => { $(
        #[allow(missing_docs)]
        pub mod $module {
            pub use crate::$module::*;
        }
    )* };
}

inside!(blocks generate hash preset rocks sort source text);
