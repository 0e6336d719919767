//! The target of a bundle: a directory or an object store.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::document::{self, BundleFile};
use super::hashing;
use super::place::{BundlePlace, file};
use super::problem::BundleProblem;
use crate::error::{Error, Result, StateKind};
use crate::os::files::{Output, check_parent, check_path, open_regular, read_regular, resolved, sync_dir};
use crate::os::{private, resources};
use crate::progress::CancellationToken;
use crate::source::remote::{NetworkOptions, RemoteStore};

/// Most concurrent uploads.
const UPLOADS: u64 = 4;

/// Assumed size of a large file until it is known.
const LARGE: u64 = 512 << 20;

/// Uploads use at most 1/16 of the machine's memory.
const UPLOAD_SHARE: u64 = 16;

pub(super) struct BundleTarget {
    pub place: BundlePlace,
    /// The object store; `None` for a directory.
    store: Option<RemoteStore>,
}

impl BundleTarget {
    /// Opens the target. It must be outside of the database `db` and of that import's work directory.
    pub fn open(root: &Path, network: &NetworkOptions, db: Option<&Path>) -> Result<Self> {
        let place = BundlePlace::new(root, network);
        if place.is_remote() {
            let store = Some(RemoteStore::open(&place.root, &place.network)?);
            return Ok(Self { place, store });
        }
        let root = place.root.as_path();
        check_path("the bundle", root)?;
        let refused = |reason: String| Err(Error::usage(reason, "give the bundle a directory of its own"));
        if root.join("CURRENT").symlink_metadata().is_ok() {
            return refused(format!("{} is a database", root.display()));
        }
        if root.exists() && !root.is_dir() {
            return refused(format!("{} is not a directory", root.display()));
        }
        if let Some(db) = db {
            let mut work = db.components().as_path().as_os_str().to_owned();
            work.push(".partial");
            let dirs = [("the database", db), ("the work directory of the import,", Path::new(&work))];
            if let Some((what, dir)) = dirs.iter().find(|(_, dir)| resolved(root).starts_with(resolved(dir))) {
                return refused(format!("{} is within {what} {}", root.display(), dir.display()));
            }
        }
        check_parent(root)?;
        Ok(Self { place, store: None })
    }

    /// Number of files to write at once, given the size of the `largest`.
    pub fn at_once(&self, largest: Option<u64>) -> usize {
        if self.store.is_none() {
            return 1;
        }
        let memory = resources::memory().unwrap_or(1 << 30) / UPLOAD_SHARE;
        (memory / RemoteStore::memory_of(largest.unwrap_or(LARGE)).max(1)).clamp(1, UPLOADS) as usize
    }

    /// True if the file exists. A directory's file is hashed. Objects of a store are complete, and were hashed when they were sent.
    pub fn has(&self, wanted: &BundleFile, stop: &CancellationToken) -> Result<bool> {
        let name = file(&wanted.name);
        if let Some(store) = &self.store {
            return Ok(store.size_of(&name)? == Some(wanted.bytes));
        }
        let path = self.checked_path(&name)?;
        match open_regular(&path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(false),
            Err(error) => Err(Error::io("read", &path)(error)),
            Ok(there) => {
                let (bytes, blake3) = hashing::hash(&there, &path, wanted.bytes, stop)?;
                Ok(bytes == wanted.bytes && blake3.to_hex().as_str() == wanted.blake3)
            }
        }
    }

    pub fn size_of(&self, name: &str) -> Result<Option<u64>> {
        if let Some(store) = &self.store {
            return store.size_of(name);
        }
        let path = self.checked_path(name)?;
        match path.symlink_metadata() {
            Ok(there) => Ok(Some(there.len())),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(Error::io("read metadata of", &path)(error)),
        }
    }

    /// Hard-links a synced file, if no database remains that would share its damage. False if the file must be written.
    pub fn link_file(&self, own: &BundleFile, from: &Path) -> Result<bool> {
        if self.store.is_some() {
            return Ok(false);
        }
        let to = self.checked_path(&file(&own.name))?;
        let folder = create_parent(&to)?;
        if std::fs::hard_link(from, &to).is_err() {
            return Ok(false);
        }
        sync_dir(folder).map(|()| true)
    }

    /// Writes a file durably and completely, or not at all.
    pub fn put_file(
        &self,
        own: &BundleFile,
        from: &Path,
        blake3: blake3::Hash,
        stop: &CancellationToken,
    ) -> Result<()> {
        let name = file(&own.name);
        let is_same = match &self.store {
            Some(store) => store.put_file(&name, from, own.bytes, blake3)?,
            None => copy_file(from, &self.checked_path(&name)?, (own.bytes, blake3), stop)?,
        };
        let what = || format!("{} changed while it was published", from.display());
        let changed = || Error::bad_input(from, None, BundleProblem::NotAsImported(what()));
        is_same.then_some(()).ok_or_else(changed)
    }

    /// Writes a small file atomically, unless it exists.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if let Some(store) = &self.store {
            return store.put(name, bytes);
        }
        let path = self.checked_path(name)?;
        let is_there = || read_regular(&path, document::MAX_BYTES).is_ok_and(|there| there == bytes);
        if is_there() {
            return Ok(());
        }
        let write = || {
            let mut output = create_file(&path)?;
            output.file().write_all(bytes).map_err(Error::io("write", &path))?;
            output.commit()
        };
        // Shards that finish at the same time write the same pointer.
        write().or_else(|error| if is_there() { Ok(()) } else { Err(error) })
    }

    /// Returns the path of a file in the directory. Links and special files are refused.
    fn checked_path(&self, name: &str) -> Result<PathBuf> {
        let root = &self.place.root;
        let path = root.join(name);
        let folder = path.parent().filter(|folder| folder != root).map(|folder| (folder, true));
        for (at, is_folder) in folder.into_iter().chain([(path.as_path(), false)]) {
            let Ok(there) = at.symlink_metadata() else { continue };
            if if is_folder { !there.is_dir() } else { !there.is_file() } {
                let reason = format!("is {}, which is not written to", private::kind(&there));
                let hint = "remove it, and run the same command again; nobody else should be able to write there";
                return Err(Error::state(at.to_owned(), StateKind::Other, reason, hint));
            }
        }
        Ok(path)
    }
}

/// Creates a file that gets its name on commit, and its directory.
fn create_file(path: &Path) -> Result<Output> {
    create_parent(path)?;
    Output::create(path, true)
}

fn create_parent(path: &Path) -> Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.exists() {
        std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync_dir(above)?;
    }
    Ok(folder)
}

/// Copies a file, as a reflink if possible: a hard link would share damage. False if length or BLAKE3 is not `expected`.
fn copy_file(from: &Path, to: &Path, expected: (u64, blake3::Hash), stop: &CancellationToken) -> Result<bool> {
    let source = open_regular(from).map_err(Error::io("read", from))?;
    let mut output = create_file(to)?;
    let copied: &mut File = output.file();
    let found = if rustix::fs::ioctl_ficlone(&*copied, &source).is_ok() {
        hashing::hash(copied, to, expected.0, stop)?
    } else {
        hashing::copy((&source, from), (&mut *copied, to), expected.0, stop, &|_| ())?
    };
    if found != expected {
        return Ok(false);
    }
    output.commit().map(|()| true)
}
