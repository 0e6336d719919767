//! How a block is stored in a log.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Packing {
    Raw,
    Zstd,
    /// zstd with the dictionary of this number.
    Dictionary(u8),
}
