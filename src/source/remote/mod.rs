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

mod name;
mod problem;

#[cfg(feature = "remote")]
mod backoff;
#[cfg(feature = "remote")]
mod body;
#[cfg(feature = "remote")]
mod client;
#[cfg(not(feature = "remote"))]
mod disabled;
#[cfg(feature = "remote")]
mod fault;
#[cfg(feature = "remote")]
mod headers;
#[cfg(feature = "remote")]
mod net;
#[cfg(feature = "remote")]
mod open;
#[cfg(feature = "remote")]
mod pace;
#[cfg(feature = "remote")]
mod put;
#[cfg(feature = "remote")]
mod reader;
#[cfg(feature = "remote")]
mod redirect;
#[cfg(feature = "remote")]
mod settings;
#[cfg(feature = "remote")]
mod single;

use serde::{Deserialize, Serialize};

#[cfg(not(feature = "remote"))]
pub(crate) use disabled::{RemoteFile, RemoteGate, small};
pub use name::NetworkOptions;
pub(crate) use name::{below, is_remote, is_url, shown, shown_path, take_secrets};
#[cfg(feature = "remote")]
pub(crate) use open::{RemoteFile, small};
#[cfg(feature = "remote")]
pub(crate) use problem::RemoteProblem;
#[cfg(feature = "remote")]
pub(crate) use put::RemoteStore;
#[cfg(feature = "remote")]
pub(crate) use reader::Gate as RemoteGate;

/// The identity of a file on the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemotePin {
    /// Its address after all redirects, without secrets.
    pub url: String,
    /// Length in bytes, if the server sends it.
    pub bytes: Option<u64>,
    /// Its ETag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Its last change, from the `Last-Modified` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl RemotePin {
    /// True if both have the same length, tag and time.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.bytes, &self.etag, &self.modified) == (other.bytes, &other.etag, &other.modified)
    }

    /// True if an equal answer proves equal bytes.
    pub(crate) fn is_certain(&self) -> bool {
        self.bytes.is_some() && (self.etag.is_some() || self.modified.is_some())
    }

    /// Formats length, tag and time for messages.
    pub(crate) fn describe(&self) -> String {
        let bytes = self.bytes.map(|bytes| format!("{} bytes", crate::text::size::grouped(bytes)));
        let etag = self.etag.as_ref().map(|etag| format!("ETag {etag}"));
        let said: Vec<String> = [bytes, etag, self.modified.clone()].into_iter().flatten().collect();
        if said.is_empty() { "of unknown length".into() } else { said.join(", ") }
    }
}
