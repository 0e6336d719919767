//! The identity of a file on the network.

use serde::{Deserialize, Serialize};

use crate::text::size::grouped;

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

    /// Formats length, tag and time for messages.
    pub(crate) fn describe(&self) -> String {
        let bytes = self.bytes.map(|bytes| format!("{} bytes", grouped(bytes)));
        let etag = self.etag.as_ref().map(|etag| format!("ETag {etag}"));
        let said: Vec<String> = [bytes, etag, self.modified.clone()].into_iter().flatten().collect();
        if said.is_empty() { "of unknown length".into() } else { said.join(", ") }
    }
}
