//! Writes objects into an object store, each in one step.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path as ObjectPath;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};
use tokio::task::JoinSet;

use super::NetworkOptions;
use super::backoff::Backoff;
use super::client::{Client, store_answer, within};
use super::fault::Fault;
use super::net::Net;
use crate::error::{Error, Result};
use crate::os::files::open_regular;

/// Bytes of a part of an upload; of a large file more, since a store takes 10,000 parts.
const PART: u64 = 8 << 20;
const MOST_PARTS: u64 = 9000;
const IN_FLIGHT: usize = 2;
const PATIENCE: Duration = Duration::from_secs(300);

/// A place in an object store, below which objects are written.
pub(crate) struct RemoteStore {
    name: PathBuf,
    store: Arc<dyn ObjectStore>,
    root: ObjectPath,
    net: Net,
}

impl RemoteStore {
    pub fn open(root: &Path, network: &NetworkOptions) -> Result<Self> {
        let (name, _, client) = Client::open(root, network)?;
        let Client::Store { store, path, .. } = client else {
            let hint = "write to a directory that it serves, or to s3://, gs:// or az://";
            return Err(Error::usage(format!("{} is at a web server, which takes no files", name.display()), hint));
        };
        let net = Net::new().map_err(Error::io("start threads to write to", &name))?;
        Ok(Self { name, store, root: path, net })
    }

    /// Returns the most bytes of one upload in memory.
    pub fn memory_of(bytes: u64) -> u64 {
        part(bytes).min(bytes) * (IN_FLIGHT as u64 + 1)
    }

    pub fn size_of(&self, file: &str) -> Result<Option<u64>> {
        let path = self.path(file);
        self.tries(file, || async {
            let found = self.store.head(&path);
            let asked = async {
                match found.await {
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    found => found.map(|meta| Some(meta.size)),
                }
            };
            answer(asked).await
        })
    }

    /// Writes or replaces a small object in one step.
    pub fn put(&self, file: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path(file);
        self.tries(file, || async {
            let payload = PutPayload::from(bytes.to_vec());
            answer(self.store.put(&path, payload)).await.map(drop)
        })
    }

    /// Uploads the file at `from`. False if its bytes do not have this BLAKE3: then nothing is written.
    pub fn put_file(&self, file: &str, from: &Path, bytes: u64, blake3: blake3::Hash) -> Result<bool> {
        let path = self.path(file);
        self.tries(file, || self.upload(&path, from, bytes, blake3))
    }

    async fn upload(&self, path: &ObjectPath, from: &Path, bytes: u64, blake3: blake3::Hash) -> Result<bool, Fault> {
        let mut file = open_regular(from).map_err(Error::io("read", from))?;
        let (part, mut left, mut hasher) = (part(bytes), bytes, blake3::Hasher::new());
        let mut next = |left: &mut u64| -> Result<Vec<u8>> {
            let mut piece = vec![0; usize::try_from(part.min(*left)).unwrap_or(usize::MAX)];
            file.read_exact(&mut piece).map_err(Error::io("read", from))?;
            hasher.update(&piece);
            *left -= piece.len() as u64;
            Ok(piece)
        };
        if bytes <= part {
            let piece = next(&mut left)?;
            if hasher.finalize() != blake3 {
                return Ok(false);
            }
            return answer(self.store.put(path, PutPayload::from(piece))).await.map(|_| true);
        }
        let mut upload = answer(self.store.put_multipart(path)).await?;
        // Tasks of the runtime send the parts.
        let mut sending = JoinSet::new();
        let outcome: Result<(), Fault> = async {
            while left > 0 {
                let piece = next(&mut left)?;
                sending.spawn_on(store_answer(upload.put_part(PutPayload::from(piece))), &self.net.handle);
                if sending.len() > IN_FLIGHT {
                    sent(&mut sending).await?;
                }
            }
            while !sending.is_empty() {
                sent(&mut sending).await?;
            }
            Ok(())
        }
        .await;
        if outcome.is_ok() && hasher.finalize() == blake3 {
            return answer(upload.complete()).await.map(|_| true);
        }
        drop(sending);
        abort(&mut *upload).await;
        outcome.map(|()| false)
    }

    fn tries<T, F>(&self, file: &str, attempt: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let done = self.net.handle.block_on(self.net.retry(Backoff::new(), attempt));
        done.map_err(|fault| self.failed(file, fault))
    }

    fn failed(&self, file: &str, fault: Fault) -> Error {
        let name = self.name.join(file);
        match fault {
            Fault::Permanent(problem) => Error::bad_input(&name, None, problem),
            Fault::Local(error) => error,
            fault => Error::io("write", name)(io::Error::new(io::ErrorKind::NetworkUnreachable, fault.to_string())),
        }
    }

    fn path(&self, file: &str) -> ObjectPath {
        ObjectPath::from(format!("{}/{file}", self.root))
    }
}

/// Waits until one more part is sent.
async fn sent(parts: &mut JoinSet<Result<(), Fault>>) -> Result<(), Fault> {
    let sent = tokio::time::timeout(PATIENCE, parts.join_next()).await;
    let sent = sent.map_err(|_| Fault::transient("the server takes no more bytes"))?;
    sent.map_or(Ok(()), |sent| sent.map_err(Fault::transient)?)
}

async fn answer<T>(request: impl Future<Output = object_store::Result<T>>) -> Result<T, Fault> {
    within(PATIENCE, store_answer(request)).await
}

fn part(bytes: u64) -> u64 {
    PART.max(bytes / MOST_PARTS)
}

/// Aborts an upload, since a store charges for the parts it keeps unless a lifecycle rule deletes them.
async fn abort(upload: &mut dyn MultipartUpload) {
    let _ = tokio::time::timeout(Duration::from_secs(10), upload.abort()).await;
}
