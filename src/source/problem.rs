//! Problems of a source that one place finds.

use std::borrow::Cow;

use crate::error::{InputKind, Problem};

/// A problem with its text and its hint.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct StatedProblem {
    kind: InputKind,
    reason: Cow<'static, str>,
    hint: Cow<'static, str>,
}

impl StatedProblem {
    pub fn new(kind: InputKind, reason: impl Into<Cow<'static, str>>, hint: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, reason: reason.into(), hint: hint.into() }
    }
}

impl Problem for StatedProblem {
    fn kind(&self) -> InputKind {
        self.kind
    }

    fn hint(&self) -> String {
        self.hint.clone().into_owned()
    }
}
