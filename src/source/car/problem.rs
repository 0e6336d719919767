//! What can be wrong with a CAR.

/// What is wrong with a CAR.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarProblem {
    /// It ends where more must follow.
    #[error("the file ends inside {inside}")]
    Truncated {
        /// Which part of the file is cut.
        inside: &'static str,
    },
}

impl CarProblem {
    /// The next step for the person who sees it.
    pub fn hint(&self) -> String {
        match self {
            Self::Truncated { .. } => {
                "the download is incomplete: compare its size and sha256 with the publisher's".into()
            }
        }
    }
}
