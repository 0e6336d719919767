//! Contents of the blocks of a CAR: links, and headers of a Filecoin chain.

pub(crate) mod header;
pub(crate) mod links;
