//! The inside of the library for the tests, benches and fuzz targets of this repository. It promises nothing, and only the
//! feature `testing` has it.

pub mod bench_support;
pub mod fuzzing;

/// Each module again under its own name, with what it shows to the rest of the library.
macro_rules! inside {
    ($($module:ident)*) => { $(
        #[allow(missing_docs)]
        pub mod $module {
            pub use crate::$module::*;
        }
    )* };
}

inside!(blocks generate hash preset rocks sort source text);
