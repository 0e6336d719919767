//! Text for people: sizes and numbers, and the escaping of text from outside.

pub(crate) mod escape;
pub mod size;
