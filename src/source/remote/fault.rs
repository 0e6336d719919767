//! Faults of requests, and whether another try may help.

use std::fmt::Display;
use std::time::Duration;

use super::name;
use super::problem::RemoteProblem;

/// A reason why a request brought no bytes.
#[derive(Debug)]
pub(super) enum Fault {
    /// Worth another try, after a pause that the server may have asked for.
    Passing { what: String, pause: Option<Duration> },
    /// The server does not keep to what it said: worth few tries.
    Wrong(String),
    /// It is another file by now.
    Changed(String),
    /// The server does not give the file under this name, or not any more.
    Gone(RemoteProblem),
}

impl Fault {
    pub fn passing(what: impl Display) -> Self {
        Self::Passing { what: what.to_string(), pause: None }
    }
}

/// A redirect that is not followed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct RefusedRedirect(pub String);

/// The words of an error and of what caused it, without the addresses in them, which may hold secrets.
pub(super) fn words(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    let text = last.to_string();
    let shown: Vec<String> = text.split_whitespace().map(name::shown).collect();
    let text = shown.join(" ");
    text.chars().take(300).collect()
}

/// Classifies a request without an answer: retrying helps neither against a bad certificate nor against a refused redirect.
pub(super) fn not_sent(error: &(dyn std::error::Error + 'static)) -> Fault {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let (mut tls, mut is_refused_redirect) = (None, false);
    while let Some(error) = next.filter(|_| tls.is_none()) {
        tls = error.downcast_ref::<rustls::Error>();
        is_refused_redirect |= error.is::<RefusedRedirect>();
        // What an error of the system is made of is not its source.
        let inner = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        next = inner.map(|error| error as _).or_else(|| error.source());
    }
    match tls {
        Some(rustls::Error::InvalidCertificate(_)) => Fault::Gone(RemoteProblem::Certificate { reason: words(error) }),
        _ if is_refused_redirect => Fault::Gone(RemoteProblem::Refused { answer: words(error) }),
        _ => Fault::passing(words(error)),
    }
}
