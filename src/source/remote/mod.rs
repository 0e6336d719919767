//! Snapshots on the network: `http`, `https`, and, through `object_store`, `s3`, `gs` and `az`.
//!
//! ```text
//!   URL ──► probe: a range of the first bytes ──► pinned: address behind redirects, length, ETag, time
//!             │ ranges                               │ none
//!             ▼                                      ▼
//!           Ordered: parts on many connections     Single: one stream
//! ```
//!
//! Every request asks for the pinned file (`If-Match`), and every answer is compared with it. Nothing is written to a disk.
//! Names in messages have no secrets (`name`).

mod name;
mod problem;

#[cfg(feature = "remote")]
mod backoff;
#[cfg(feature = "remote")]
mod body;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod fault;
#[cfg(feature = "remote")]
mod net;
#[cfg(feature = "remote")]
mod open;
#[cfg(feature = "remote")]
mod pace;
#[cfg(feature = "remote")]
mod profile;
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
#[cfg(not(feature = "remote"))]
mod without;

use serde::{Deserialize, Serialize};

pub use name::NetworkOptions;
pub(crate) use name::{below, is_remote, is_url, shown, shown_path, take_secrets};
#[cfg(feature = "remote")]
pub(crate) use open::{RemoteFile, RemoteGate, small};
#[cfg(feature = "remote")]
pub(crate) use problem::RemoteProblem;
#[cfg(feature = "remote")]
pub(crate) use put::RemoteStore;
#[cfg(not(feature = "remote"))]
pub(crate) use without::{RemoteFile, RemoteGate, small};

/// What a file on the network was when it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RemotePin {
    /// Its address behind all redirects, without secrets.
    pub url: String,
    /// Bytes, where the server says so.
    pub bytes: Option<u64>,
    /// Its ETag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// When it was changed last, in the server's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl RemotePin {
    /// Whether both are of the same file, as far as the server's words go.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (self.bytes, &self.etag, &self.modified) == (other.bytes, &other.etag, &other.modified)
    }

    /// Whether a server that says this again has the same bytes.
    pub(crate) fn is_certain(&self) -> bool {
        self.bytes.is_some() && (self.etag.is_some() || self.modified.is_some())
    }

    /// Length, tag and time, for people.
    pub(crate) fn describe(&self) -> String {
        let bytes = self.bytes.map(|bytes| format!("{} bytes", crate::text::size::grouped(bytes)));
        let etag = self.etag.as_ref().map(|etag| format!("ETag {etag}"));
        let said: Vec<String> = [bytes, etag, self.modified.clone()].into_iter().flatten().collect();
        if said.is_empty() { "of unknown length".into() } else { said.join(", ") }
    }
}
