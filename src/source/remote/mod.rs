//! Snapshots on the network: `http`, `https`, and, through `object_store`, `s3`, `gs` and `az`.
//!
//! ```text
//!   URL ──► probe: a range of the first bytes ──► pinned: address after redirects, length, ETag, time
//!             │ ranges                               │ none
//!             ▼                                      ▼
//!           Ordered: parts on many connections     Single: one stream
//! ```
//!
//! Every request asks for the pinned file (`If-Match`), and every answer is compared with it. Nothing is written to a
//! disk. Names in messages have no secrets (`name`).

#[cfg(not(feature = "remote"))]
mod disabled;
mod name;
#[cfg(feature = "remote")]
mod network;
mod pin;
mod problem;

#[cfg(not(feature = "remote"))]
pub(crate) use disabled::{RemoteFile, RemoteGate, RemoteStore, small};
pub use name::NetworkOptions;
pub(crate) use name::{below, is_remote, is_url, shown, shown_path, take_secrets};
#[cfg(feature = "remote")]
pub(crate) use network::{RemoteFile, RemoteGate, RemoteStore, small};
pub use pin::RemotePin;
pub(crate) use problem::RemoteProblem;
