//! Requests over HTTP and to object stores.

mod backoff;
mod body;
mod client;
mod fault;
mod headers;
mod net;
mod open;
mod pace;
mod put;
mod reader;
mod redirect;
mod settings;
mod single;

pub(crate) use open::{RemoteFile, small};
pub(crate) use put::RemoteStore;
pub(crate) use reader::RemoteGate;

use super::name::{self, NetworkOptions};
use super::pin::RemotePin;
use super::problem;
