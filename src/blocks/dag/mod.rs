//! What the blocks of a CAR say: the links in them, and the headers of a Filecoin chain.

pub(crate) mod header;
pub(crate) mod links;
