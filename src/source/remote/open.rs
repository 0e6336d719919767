//! Opening a file on the network, and requests for its bytes.

use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use url::Url;

use super::RemotePin;
use super::backoff::Backoff;
use super::body::Body;
use super::client::{Answer, Client, Facts, describe};
use super::fault::Fault;
use super::name::{self, NetworkOptions};
use super::net::Net;
use super::problem::RemoteProblem;
pub(crate) use super::reader::Gate as RemoteGate;
use super::reader::Ordered;
use super::single::Single;
use crate::error::{Error, Result};

/// Bytes of the first request, which are kept: headers of snapshots are shorter.
const HEAD: u64 = 128 << 10;

/// The most that a small file beside a snapshot has, in bytes.
const MAX_SMALL: usize = 1 << 20;

/// A file on the network.
pub(crate) struct RemoteFile {
    /// Its name in messages.
    name: PathBuf,
    /// As the caller named it.
    original: Client,
    /// Behind the redirects.
    pinned: Mutex<Client>,
    facts: Facts,
    is_ranged: bool,
    pub(super) head: Bytes,
    pub(super) network: NetworkOptions,
    pub(super) net: Net,
}

/// The first answer.
struct Probed {
    client: Client,
    facts: Facts,
    is_ranged: bool,
    head: Bytes,
}

impl RemoteFile {
    /// Opens the file that `source` names; `pinned` is where an earlier run has found it.
    pub fn open(source: &Path, network: &NetworkOptions, pinned: Option<&str>) -> Result<Arc<Self>> {
        let text = network.urls.get(source).map_or_else(|| source.to_string_lossy().into_owned(), |url| url.0.clone());
        let name = PathBuf::from(name::shown(&text));
        let bad = |problem: RemoteProblem| Error::bad_input(&name, None, problem);
        let parse = |text: &str| Url::parse(text).map_err(|error| RemoteProblem::Url { reason: error.to_string() });
        let url = parse(&text).map_err(bad)?;
        let original = Client::new(&url, &name, network)?;
        if matches!(&original, Client::Store { path, .. } if path.as_ref().is_empty()) {
            return Err(Error::Usage {
                reason: format!("{} names no file: it ends with the bucket", name.display()),
                hint: "write the file's name behind it: s3://bucket/dir/snapshot.car".into(),
            });
        }
        let net = Net::new().map_err(Error::io("start threads to read", &name))?;
        let pinned = pinned.filter(|&pinned| pinned != text && url.scheme().starts_with("http"));
        let pinned = pinned.and_then(|pinned| Client::new(&parse(pinned).ok()?, &name, network).ok());
        let probed = pinned.map(|client| net.wait(probe(&client, &Facts::default(), &net)));
        let probed = match probed {
            Some(Ok(probed)) => Ok(probed),
            // What was found there before is gone: the name that was given shows what is there now.
            Some(Err(Fault::Gone(_))) | None => net.wait(probe(&original, &Facts::default(), &net)),
            Some(Err(fault)) => Err(fault),
        };
        let probed = probed.map_err(|fault| match fault {
            Fault::Gone(problem) => bad(problem),
            fault => error_of(&name, fault, &Facts::default()),
        })?;
        let Probed { client, facts, is_ranged, head } = probed;
        let network = network.clone();
        Ok(Arc::new(Self { name, original, pinned: Mutex::new(client), facts, is_ranged, head, network, net }))
    }

    /// Its name in messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Bytes, where the server says so.
    pub fn size(&self) -> Option<u64> {
        self.facts.bytes
    }

    /// Whether the server gives ranges.
    pub fn is_ranged(&self) -> bool {
        self.is_ranged
    }

    /// What distinguishes it.
    pub fn pin(&self) -> RemotePin {
        let Facts { bytes, etag, modified } = self.facts.clone();
        let pinned = self.pinned.lock();
        let url = match &*pinned {
            Client::Http { .. } => pinned.shown(),
            Client::Store { .. } => self.name.to_string_lossy().into_owned(),
        };
        RemotePin { url, bytes, etag, modified }
    }

    /// The whole address behind redirects, where it has no secrets.
    pub fn address(&self) -> Option<String> {
        match &*self.pinned.lock() {
            Client::Http { url, .. } => Some(url.to_string()).filter(|text| name::shown(text) == *text),
            Client::Store { .. } => None,
        }
    }

    /// Bytes that have come, and requests that were made.
    pub fn traffic(&self) -> (u64, u64) {
        (self.net.received(), self.net.requests())
    }

    /// How long the reader has waited for the network, in seconds; and connections at once.
    pub fn waits(&self) -> (f64, u64) {
        (self.net.waited().as_secs_f64(), self.net.connections())
    }

    /// Reads it from `start` to its end with so many bytes of memory; and what opens the gate for all of it, see
    /// [`Ordered::new`]. Without ranges it is read from the beginning only.
    pub fn read_from(self: &Arc<Self>, start: u64, memory: u64) -> (Box<dyn Read + Send>, Option<RemoteGate>) {
        match self.facts.bytes.filter(|_| self.is_ranged) {
            Some(bytes) => {
                let (reader, gate) = Ordered::new(Arc::clone(self), start, bytes, memory);
                (Box::new(reader), Some(gate))
            }
            None => (Box::new(Single::new(Arc::clone(self))), None),
        }
    }

    /// Fills `into` from `offset`; false where there is not that much.
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
        let whole = async {
            let mut backoff = Backoff::new();
            loop {
                match self.exactly(offset..end).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(fault) => tokio::time::sleep(backoff.next(fault)?).await,
                }
            }
        };
        let bytes = self.net.wait(whole).map_err(|fault| io::Error::other(self.failed(fault)))?;
        into.copy_from_slice(&bytes);
        Ok(true)
    }

    /// All bytes of a range, which is small.
    async fn exactly(&self, range: Range<u64>) -> Result<Vec<u8>, Fault> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let mut answer = self.get(range).await?;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let Some(piece) = answer.body.next().await? else {
                return Err(Fault::passing("the connection ended too early"));
            };
            bytes.extend_from_slice(&piece);
        }
        bytes.truncate(len);
        self.net.add_received(len as u64);
        Ok(bytes)
    }

    /// An answer with this range of it.
    pub(super) async fn get(&self, range: Range<u64>) -> Result<Answer, Fault> {
        let client = self.pinned.lock().clone();
        self.net.add_request();
        let answer = client.get(Some(range), &self.facts).await?;
        match answer.is_range {
            true => Ok(answer),
            false => Err(Fault::Wrong("the server gave ranges at first, and sends the whole file now".into())),
        }
    }

    /// All of it, of a server without ranges.
    pub(super) async fn get_all(&self) -> Result<Body, Fault> {
        let client = self.pinned.lock().clone();
        self.net.add_request();
        Ok(client.get(None, &self.facts).await?.body)
    }

    pub(super) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Follows the redirects from the beginning again, where the pinned address does not give the file any more.
    pub(super) async fn resolve_again(&self, problem: RemoteProblem) -> Result<Fault, Fault> {
        match probe(&self.original, &self.facts, &self.net).await {
            Ok(probed) => {
                *self.pinned.lock() = probed.client;
                Ok(Fault::Wrong(problem.to_string()))
            }
            Err(Fault::Gone(_)) => Err(Fault::Gone(problem)),
            Err(fault) => Err(fault),
        }
    }

    /// The error for a fault that tries did not mend.
    pub(super) fn failed(&self, fault: Fault) -> Error {
        error_of(&self.name, fault, &self.facts)
    }

    /// A small file beside it, whose name is its own with `suffix` behind it: what it is called, and its bytes, or why it
    /// cannot be had until `end`. `None` where there is none.
    pub fn beside(&self, suffix: &str, end: Instant) -> Option<(String, Result<Vec<u8>, String>)> {
        let pinned = self.pinned.lock().clone();
        let client = pinned.beside(suffix);
        let bytes = match self.perhaps(end, || client.small(MAX_SMALL)) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err("it is too large for a sum".into()),
            Err(Fault::Gone(RemoteProblem::NotFound { .. })) => return None,
            Err(Fault::Gone(RemoteProblem::Denied { .. })) if pinned.denies_what_is_not_there() => return None,
            Err(Fault::Gone(problem)) => Err(problem.to_string()),
            Err(Fault::Passing { what, .. } | Fault::Wrong(what) | Fault::Changed(what)) => Err(what),
        };
        let name = match &client {
            Client::Http { .. } => client.shown(),
            Client::Store { .. } => format!("{}{suffix}", self.name.display()),
        };
        Some((name, bytes))
    }

    /// The sums that the store itself has of all its bytes: by which function, in the store's words, and their bytes. None
    /// where they cannot be had until `end`.
    pub fn stored_sums(&self, end: Instant) -> Vec<(String, Vec<u8>)> {
        let client = self.pinned.lock().clone();
        match client {
            Client::Http { .. } => Vec::new(),
            Client::Store { .. } => self.perhaps(end, || client.sums(&self.facts)).ok().flatten().unwrap_or_default(),
        }
    }

    /// What can be done without: few tries at it, and none after `end`.
    fn perhaps<T: Send, F>(&self, end: Instant, ask: impl Fn() -> F + Send + Sync) -> Result<T, Fault>
    where
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let asking = async {
            let mut backoff = Backoff::few();
            loop {
                self.net.add_request();
                match ask().await {
                    Ok(found) => return Ok(found),
                    Err(fault) => tokio::time::sleep(backoff.next(fault)?).await,
                }
            }
        };
        let in_time = async { tokio::time::timeout_at(end.into(), asking).await };
        self.net.wait(in_time).unwrap_or_else(|_| Err(Fault::passing("the server takes too long to give it")))
    }
}

/// A small file at `url`.
pub(crate) fn small(url: &Path, network: &NetworkOptions) -> Result<Vec<u8>> {
    let mut network = NetworkOptions { urls: Arc::default(), ..network.clone() };
    let mut name = url.to_owned();
    name::take_secrets(&mut name, &mut network);
    let file = RemoteFile::open(&name, &network, None)?;
    let client = file.pinned.lock().clone();
    let bytes = file.net.wait(client.small(MAX_SMALL)).map_err(|fault| file.failed(fault))?;
    bytes.ok_or_else(|| {
        let answer = "it is not there any more, or far too long".into();
        Error::bad_input(&name, None, RemoteProblem::Refused { answer })
    })
}

/// Asks for the first bytes, of which the answer tells the rest.
async fn probe(client: &Client, known: &Facts, net: &Net) -> Result<Probed, Fault> {
    let mut backoff = Backoff::first();
    loop {
        net.add_request();
        let fault = match probe_once(client, known).await {
            Ok(probed) => {
                net.add_received(probed.head.len() as u64);
                return Ok(probed);
            }
            Err(fault) => fault,
        };
        tokio::time::sleep(backoff.next(fault)?).await;
    }
}

async fn probe_once(client: &Client, known: &Facts) -> Result<Probed, Fault> {
    let mut answer = client.get(Some(0..HEAD), known).await?;
    let whole = answer.facts.bytes.unwrap_or(u64::MAX);
    let want = usize::try_from(HEAD.min(whole)).unwrap_or(usize::MAX);
    let mut head = Vec::new();
    while head.len() < want {
        match answer.body.next().await? {
            Some(piece) => head.extend_from_slice(&piece),
            None if answer.facts.bytes.is_none() => break,
            None => return Err(Fault::passing("the connection ended too early")),
        }
    }
    head.truncate(want);
    let client = match (client, answer.url) {
        (Client::Http { client, url: asked }, Some(mut url)) => {
            // The client takes user and password out of an address, and sends them to the same origin again. Another port may
            // be another's server, and without TLS they would be seen by everybody.
            if url.origin() == asked.origin() && url.username().is_empty() {
                let _ = url.set_username(asked.username());
                let _ = url.set_password(asked.password());
            }
            url.set_fragment(None);
            Client::Http { client: client.clone(), url }
        }
        (client, _) => client.clone(),
    };
    // Of ranges without a length nothing can be made.
    let is_ranged = answer.is_range && answer.facts.bytes.is_some();
    Ok(Probed { client, facts: answer.facts, is_ranged, head: head.into() })
}

/// A fault as an error: of the network, which leaves what was done, or of the file, which is another one.
fn error_of(name: &Path, fault: Fault, known: &Facts) -> Error {
    let what = match fault {
        Fault::Changed(found) => {
            return Error::State {
                path: name.to_owned(),
                reason: format!(
                    "it changed on the server while it was being read: it was {}, is {found}",
                    describe(known)
                ),
                hint: "the same command with --restart imports what is there now".into(),
            };
        }
        Fault::Passing { what, .. } | Fault::Wrong(what) => what,
        Fault::Gone(problem) => problem.to_string(),
    };
    Error::io("read", name)(io::Error::new(io::ErrorKind::NetworkUnreachable, what))
}
