//! Rules for sources and documents: boundaries between modules, documented errors and JSON, the public API.

#[path = "../common/mod.rs"]
mod common;

mod boundaries;
mod documented_errors;
mod documented_json;
mod fixtures;
mod links;
mod packaging;
mod public_api;
mod skipped_tests;
