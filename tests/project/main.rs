//! What the sources and the documents must keep to: boundaries between modules, documented errors and JSON, the public API.

#[path = "../common/mod.rs"]
mod common;

mod boundaries;
mod errors_are_documented;
mod fixtures;
mod json_is_documented;
mod links;
mod packaging;
mod public_api;
mod skipped_tests;
