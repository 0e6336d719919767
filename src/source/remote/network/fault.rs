//! Faults of requests, and whether another try may help.

use std::fmt::Display;
use std::time::Duration;

use super::name;
use super::problem::RemoteProblem;
use crate::error::Error;

/// A reason why a request brought no bytes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Worth another try, after the delay that the server requested, if any.
    #[error("{what}")]
    Transient { what: String, pause: Option<Duration> },
    /// The server broke the protocol: worth few tries.
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Changed(String),
    /// The server does not have the file or denies it.
    #[error("{0}")]
    Permanent(RemoteProblem),
    /// A failure on this machine.
    #[error("{0}")]
    Local(#[from] Error),
}

impl Fault {
    pub fn transient(what: impl Display) -> Self {
        Self::Transient { what: what.to_string(), pause: None }
    }
}

/// A redirect that is not followed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RefusedRedirect(pub String);

/// Returns the text of the root cause of an error, without the secrets in its addresses.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    let shown: Vec<String> = text.split_whitespace().map(name::shown).collect();
    let text = shown.join(" ");
    text.chars().take(300).collect()
}

/// Classifies a request without an answer: retrying helps neither against a bad certificate nor against a refused
/// redirect.
pub(super) fn classify(error: &(dyn std::error::Error + 'static)) -> Fault {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let (mut tls, mut is_refused_redirect) = (None, false);
    while let Some(error) = next.filter(|_| tls.is_none()) {
        tls = error.downcast_ref::<rustls::Error>();
        is_refused_redirect |= error.is::<RefusedRedirect>();
        // The inner error of an I/O error is not its source.
        let inner = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        next = inner.map(|error| error as _).or_else(|| error.source());
    }
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => {
            Fault::Permanent(RemoteProblem::Certificate { reason: root_cause(error) })
        }
        _ if is_refused_redirect => Fault::Permanent(RemoteProblem::Refused { answer: root_cause(error) }),
        _ => Fault::transient(root_cause(error)),
    }
}
