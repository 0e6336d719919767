//! `bedload bench` and `doctor`.

mod comparisons;
mod doctor;
mod tune;
