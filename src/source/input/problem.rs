//! What can be wrong with the wrapping of a snapshot.

/// What is wrong with the wrapping of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrappingProblem {
    /// There is not a single byte.
    #[error("the file is empty")]
    Empty,
}

impl WrappingProblem {
    /// The next step for the person who sees it.
    pub fn hint(&self) -> String {
        match self {
            Self::Empty => "download the snapshot again".into(),
        }
    }
}
