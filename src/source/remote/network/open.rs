//! Opening a file on the network, and requests for its bytes.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use url::Url;

use super::RemotePin;
use super::backoff::Backoff;
use super::body::AnswerBody;
use super::client::{Answer, Client};
use super::fault::Fault;
use super::name::{self, NetworkOptions};
use super::net::Net;
use super::problem::RemoteProblem;
use crate::error::{Error, Result, StateKind};

/// Bytes of the first request, which are kept. Headers of snapshots are shorter.
const HEAD: u64 = 128 << 10;

const MAX_SMALL: usize = 1 << 20;

pub(crate) struct RemoteFile {
    name: PathBuf,
    /// The client for the name that the caller gave.
    original: Client,
    /// The client for the address after redirects.
    pinned: Mutex<Client>,
    pub(super) facts: RemotePin,
    pub(super) is_ranged: bool,
    pub(super) head: Bytes,
    pub(super) network: NetworkOptions,
    pub(super) net: Net,
}

struct Probed {
    client: Client,
    facts: RemotePin,
    is_ranged: bool,
    head: Bytes,
}

impl RemoteFile {
    /// Opens the file that `source` names; `pinned` is where an earlier run has found it.
    pub fn open(source: &Path, network: &NetworkOptions, pinned: Option<&str>) -> Result<Arc<Self>> {
        let (name, url, original) = Client::open(source, network)?;
        if matches!(&original, Client::Store { path, .. } if path.as_ref().is_empty()) {
            let hint = "write the file's name after it: s3://bucket/dir/snapshot.car";
            return Err(Error::usage(format!("{} names no file: it ends with the bucket", name.display()), hint));
        }
        let net = Net::new().map_err(Error::io("start threads to read", &name))?;
        let pinned = pinned.and_then(|pinned| Url::parse(pinned).ok());
        let pinned = pinned.filter(|pinned| *pinned != url && url.scheme().starts_with("http"));
        let pinned = pinned.and_then(|pinned| Client::new(&pinned, &name, network).ok());
        let probed = pinned.map(|client| net.wait(probe(&client, &RemotePin::default(), &net)));
        let probed = match probed {
            Some(Ok(probed)) => Ok(probed),
            // The earlier address is gone, so the given name decides.
            Some(Err(Fault::Permanent(_))) | None => net.wait(probe(&original, &RemotePin::default(), &net)),
            Some(Err(fault)) => Err(fault),
        };
        let probed = probed.map_err(|fault| match fault {
            Fault::Permanent(problem) => Error::bad_input(&name, None, problem),
            fault => error_of(&name, fault, &RemotePin::default()),
        })?;
        let Probed { client, facts, is_ranged, head } = probed;
        let network = network.clone();
        Ok(Arc::new(Self { name, original, pinned: Mutex::new(client), facts, is_ranged, head, network, net }))
    }

    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Length in bytes, if the server sends it.
    pub fn size(&self) -> Option<u64> {
        self.facts.bytes
    }

    pub fn is_ranged(&self) -> bool {
        self.is_ranged
    }

    pub fn pin(&self) -> RemotePin {
        RemotePin { url: self.pinned.lock().shown(), ..self.facts.clone() }
    }

    /// Returns the address after redirects if it has no secrets.
    pub fn address(&self) -> Option<String> {
        match &*self.pinned.lock() {
            Client::Http { url, .. } => Some(url.to_string()).filter(|text| name::shown(text) == *text),
            Client::Store { .. } => None,
        }
    }

    /// Returns the number of bytes received, and of requests.
    pub fn traffic(&self) -> (u64, u64) {
        (self.net.received.load(Relaxed), self.net.requests.load(Relaxed))
    }

    /// Returns the seconds that the reader waited for the network, and the number of connections.
    pub fn waits(&self) -> (f64, u64) {
        (self.net.waited().as_secs_f64(), self.net.connections.load(Relaxed))
    }

    /// Fills `into` from `offset`. False if the file is shorter.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<bool> {
        let Some(end) = offset.checked_add(into.len() as u64) else { return Ok(false) };
        if self.facts.bytes.is_none_or(|bytes| end > bytes) {
            return Ok(false);
        }
        let head = usize::try_from(offset).ok().and_then(|start| self.head.get(start..)?.get(..into.len()));
        if let Some(head) = head {
            into.copy_from_slice(head);
            return Ok(true);
        }
        let whole = self.net.retry(Backoff::new(), || self.exactly(offset..end));
        let bytes = self.net.wait(whole).map_err(|fault| io::Error::other(self.failed(fault)))?;
        into.copy_from_slice(&bytes);
        Ok(true)
    }

    async fn exactly(&self, range: Range<u64>) -> Result<Vec<u8>, Fault> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut bytes = self.get(range).await?.body.take(len).await?;
        if bytes.len() < len {
            return Err(Fault::transient("the connection ended too early"));
        }
        bytes.truncate(len);
        self.net.received.fetch_add(len as u64, Relaxed);
        Ok(bytes)
    }

    pub(super) async fn get(&self, range: Range<u64>) -> Result<Answer, Fault> {
        let client = self.pinned.lock().clone();
        let answer = client.get(Some(range), &self.facts).await?;
        match answer.is_range {
            true => Ok(answer),
            false => Err(Fault::Protocol("the server gave ranges at first, and sends the whole file now".into())),
        }
    }

    pub(super) async fn get_all(&self) -> Result<AnswerBody, Fault> {
        let client = self.pinned.lock().clone();
        self.net.requests.fetch_add(1, Relaxed);
        Ok(client.get(None, &self.facts).await?.body)
    }

    /// Follows the redirects again after the pinned address failed.
    pub(super) async fn resolve_again(&self, problem: RemoteProblem) -> Result<Fault, Fault> {
        match probe(&self.original, &self.facts, &self.net).await {
            Ok(probed) => {
                *self.pinned.lock() = probed.client;
                Ok(Fault::Protocol(problem.to_string()))
            }
            Err(Fault::Permanent(_)) => Err(Fault::Permanent(problem)),
            Err(fault) => Err(fault),
        }
    }

    pub(super) fn failed(&self, fault: Fault) -> Error {
        error_of(&self.name, fault, &self.facts)
    }

    /// Reads the small file whose name is this one plus `suffix`. Returns its name, and its bytes or the reason of a failure
    /// by `end`. `None` if the file does not exist.
    pub fn beside(&self, suffix: &str, end: Instant) -> Option<(String, Result<Vec<u8>, String>)> {
        let pinned = self.pinned.lock().clone();
        let client = pinned.beside(suffix);
        let bytes = match self.ask_optional(end, || client.small(MAX_SMALL)) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err("it is too large for a sum".into()),
            Err(Fault::Permanent(RemoteProblem::NotFound { .. })) => return None,
            Err(Fault::Permanent(RemoteProblem::Denied { .. })) if pinned.may_hide_missing_objects() => return None,
            Err(fault) => Err(fault.to_string()),
        };
        Some((client.shown(), bytes))
    }

    /// Returns the checksums that the store has of the whole file, with the store's names of their functions, if they arrive
    /// by `end`.
    pub fn stored_sums(&self, end: Instant) -> Vec<(String, Vec<u8>)> {
        let client = self.pinned.lock().clone();
        let Client::Store { path, sums: Some(sums), .. } = &client else { return Vec::new() };
        self.ask_optional(end, || sums.request(path, &self.facts)).unwrap_or_default()
    }

    /// Asks for optional data, with few tries and none after `end`.
    fn ask_optional<T: Send, F>(&self, end: Instant, ask: impl Fn() -> F + Send + Sync) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let asking = self.net.retry(Backoff::optional(), ask);
        let in_time = async { tokio::time::timeout_at(end.into(), asking).await };
        self.net.wait(in_time).unwrap_or_else(|_| Err(Fault::transient("the server takes too long to give it")))
    }
}

pub(crate) fn small(url: &Path, network: &NetworkOptions) -> Result<Vec<u8>> {
    let mut network = NetworkOptions { urls: Arc::default(), ..network.clone() };
    let mut name = url.to_owned();
    name::take_secrets(&mut name, &mut network);
    let file = RemoteFile::open(&name, &network, None)?;
    let client = file.pinned.lock().clone();
    let bytes = file.net.wait(client.small(MAX_SMALL)).map_err(|fault| file.failed(fault))?;
    bytes.ok_or_else(|| {
        let answer = "it no longer exists, or is larger than 1 MiB".into();
        Error::bad_input(&name, None, RemoteProblem::Refused { answer })
    })
}

/// Requests the first bytes, whose answer describes the file.
async fn probe(client: &Client, known: &RemotePin, net: &Net) -> Result<Probed, Fault> {
    let probed = net.retry(Backoff::first(), || probe_once(client, known)).await?;
    net.received.fetch_add(probed.head.len() as u64, Relaxed);
    Ok(probed)
}

async fn probe_once(client: &Client, known: &RemotePin) -> Result<Probed, Fault> {
    let mut answer = client.get(Some(0..HEAD), known).await?;
    let whole = answer.facts.bytes.unwrap_or(u64::MAX);
    let want = usize::try_from(HEAD.min(whole)).unwrap_or(usize::MAX);
    let mut head = answer.body.take(want).await?;
    if head.len() < want && answer.facts.bytes.is_some() {
        return Err(Fault::transient("the connection ended too early"));
    }
    head.truncate(want);
    let client = match (client, answer.url) {
        (Client::Http { client, url: asked }, Some(mut url)) => {
            // The client takes user and password out of an address, and sends them to the same origin again. Another
            // port may be another's server, and without TLS they would be seen by everybody.
            if url.origin() == asked.origin() && url.username().is_empty() {
                let _ = url.set_username(asked.username());
                let _ = url.set_password(asked.password());
            }
            url.set_fragment(None);
            Client::Http { client: client.clone(), url }
        }
        (client, _) => client.clone(),
    };
    // Ranges are useless without the length of the file.
    let is_ranged = answer.is_range && answer.facts.bytes.is_some();
    Ok(Probed { client, facts: answer.facts, is_ranged, head: head.into() })
}

/// Converts a fault to an error of the network, or of a file that changed.
fn error_of(name: &Path, fault: Fault, known: &RemotePin) -> Error {
    match fault {
        Fault::Changed(found) => {
            let was = known.describe();
            let reason = format!("it changed on the server while it was being read: it was {was}, is {found}");
            let hint = "run the same command with --restart to import the current content";
            Error::state(name, StateKind::Changed, reason, hint)
        }
        Fault::Local(error) => error,
        fault => Error::io("read", name)(io::Error::new(io::ErrorKind::NetworkUnreachable, fault.to_string())),
    }
}
