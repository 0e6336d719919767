//! CAR, content-addressable archives, versions 1 and 2.

mod problem;

pub use problem::CarProblem;
