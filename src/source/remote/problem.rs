//! Problems of snapshots on the network.

use crate::error::{InputKind, Problem};

/// A reason why a snapshot on the network cannot be read; `answer` is the server's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum RemoteProblem {
    #[error("the URL is not valid: {reason}")]
    Url { reason: String },
    #[error("there is no such file on the server ({answer})")]
    NotFound { answer: String },
    #[error("the server denies access ({answer})")]
    Denied { answer: String },
    #[error("the server's certificate is not trusted: {reason}")]
    Certificate { reason: String },
    #[error("the server does not send the file: {answer}")]
    Refused { answer: String },
    #[cfg(not(feature = "remote"))]
    #[error("it is a URL, and this library is built without the network")]
    NotBuilt,
}

impl Problem for RemoteProblem {
    fn kind(&self) -> InputKind {
        match self {
            Self::NotFound { .. } => InputKind::Missing,
            Self::Denied { .. } | Self::Certificate { .. } | Self::Refused { .. } => InputKind::Denied,
            Self::Url { .. } => InputKind::Unsupported,
            #[cfg(not(feature = "remote"))]
            Self::NotBuilt => InputKind::Unsupported,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Url { .. } => "check it; spaces and the like are written as %20".into(),
            Self::NotFound { .. } => "check the URL".into(),
            Self::Denied { .. } => {
                "check the credentials (for s3:// AWS_ACCESS_KEY_ID and the like; AWS_SKIP_SIGNATURE=true where the bucket \
                 is public); a signed URL may have expired"
                    .into()
            }
            Self::Certificate { .. } => {
                "check the host in the URL and this machine's clock; SSL_CERT_FILE=FILE names the certificates (PEM) that are \
                 trusted, instead of the system's"
                    .into()
            }
            Self::Refused { .. } => "check the answer of the server with curl -IL URL".into(),
            #[cfg(not(feature = "remote"))]
            Self::NotBuilt => "pipe it in: curl -fL URL | bedload import - --db DIR".into(),
        }
    }
}
