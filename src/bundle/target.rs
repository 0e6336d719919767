//! What a bundle is written to: a directory, or a store on the network.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::document::{self, BundleFile};
use super::hashing;
use super::place::{Place, file};
use super::problem::BundleProblem;
use crate::error::{Error, Result};
use crate::os::files::{Output, check_parent, open_regular, read_regular, resolved};
use crate::os::{private, resources};
use crate::progress::CancellationToken;
use crate::source::remote::RemoteStore;

/// Files that are uploaded at once, at most.
const UPLOADS: u64 = 4;

/// The size of a large file, where it is not known yet.
const LARGE: u64 = 512 << 20;

/// The share of the machine's memory, as its reciprocal, that parts of uploads may take.
const UPLOAD_SHARE: u64 = 16;

/// Where a bundle is written to.
pub(super) enum Target<'a> {
    Dir(&'a Path),
    Store(Box<RemoteStore>),
}

impl<'a> Target<'a> {
    /// The place of a bundle, which is made of the database `db` where that is known: it is neither in the database nor in the
    /// work directory of its import.
    pub fn open(place: &'a Place, db: Option<&Path>) -> Result<Self> {
        if place.is_remote() {
            return Ok(Self::Store(Box::new(RemoteStore::open(&place.root, &place.network)?)));
        }
        let root = place.root.as_path();
        let refused =
            |reason: String| Err(Error::Usage { reason, hint: "give the bundle a directory of its own".into() });
        if root.join("CURRENT").symlink_metadata().is_ok() {
            return refused(format!("{} is a database", root.display()));
        }
        if root.exists() && !root.is_dir() {
            return refused(format!("{} is no directory", root.display()));
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
        Ok(Self::Dir(root))
    }

    /// Files that are written at once, of which the `largest` is so long.
    pub fn at_once(&self, largest: Option<u64>) -> usize {
        let Self::Store(_) = self else { return 1 };
        let largest = largest.unwrap_or(LARGE);
        let memory = resources::memory().unwrap_or(1 << 30) / UPLOAD_SHARE;
        (memory / RemoteStore::memory_of(largest).max(1)).clamp(1, UPLOADS) as usize
    }

    /// Whether a file is there. In a directory its bytes are compared; a store has whole objects only, and what is under the
    /// name of a BLAKE3 was verified before it was sent.
    pub fn has(&self, wanted: &BundleFile, stop: &CancellationToken) -> Result<bool> {
        let name = file(&wanted.name);
        match self {
            Self::Store(store) => Ok(store.size_of(&name)? == Some(wanted.bytes)),
            Self::Dir(root) => {
                let path = own(root, &name)?;
                match open_regular(&path) {
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(false),
                    Err(error) => Err(Error::io("read", &path)(error)),
                    Ok(there) => {
                        let (bytes, blake3) = hashing::hash(&there, &path, wanted.bytes, stop)?;
                        Ok(bytes == wanted.bytes && blake3.to_hex().as_str() == wanted.blake3)
                    }
                }
            }
        }
    }

    /// The size of a file, where it is there.
    pub fn size_of(&self, name: &str) -> Result<Option<u64>> {
        match self {
            Self::Store(store) => store.size_of(name),
            Self::Dir(root) => match own(root, name)?.symlink_metadata() {
                Ok(there) => Ok(Some(there.len())),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
                Err(error) => Err(Error::io("look at", &root.join(name))(error)),
            },
        }
    }

    /// Gives a synced file of an import its name here as well, where that costs nothing: only if no database stays that would share
    /// its damage. False where it has to be written.
    pub fn link_file(&self, own: &BundleFile, from: &Path) -> Result<bool> {
        let Self::Dir(root) = self else { return Ok(false) };
        let to = self::own(root, &file(&own.name))?;
        let folder = make_folder(&to)?;
        if std::fs::hard_link(from, &to).is_err() {
            return Ok(false);
        }
        crate::os::files::sync_dir(folder).map(|()| true)
    }

    /// Writes a file, whole and durable, or not at all.
    pub fn put_file(
        &self,
        own: &BundleFile,
        from: &Path,
        blake3: blake3::Hash,
        stop: &CancellationToken,
    ) -> Result<()> {
        let name = file(&own.name);
        let is_same = match self {
            Self::Store(store) => store.put_file(&name, from, own.bytes, blake3)?,
            Self::Dir(root) => put_file(&self::own(root, &name)?, from, own.bytes, blake3, stop)?,
        };
        match is_same {
            true => Ok(()),
            false => {
                let what = format!("{} is another file than it was a moment ago", from.display());
                Err(Error::bad_input(from, None, BundleProblem::NotAsImported { what }))
            }
        }
    }

    /// Writes a small file in one step, unless it is there.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Store(store) => store.put(name, bytes),
            Self::Dir(root) => {
                let path = own(root, name)?;
                let is_there = || read_regular(&path, document::MAX_BYTES).is_ok_and(|there| there == bytes);
                if is_there() {
                    return Ok(());
                }
                let write = || {
                    let mut output = new_file(&path)?;
                    output.file().write_all(bytes).map_err(Error::io("write", &path))?;
                    output.commit()
                };
                // Shards that end at once write the same pointer.
                write().or_else(|error| if is_there() { Ok(()) } else { Err(error) })
            }
        }
    }
}

/// Where a file of a directory of bundles is: below the directory itself, whatever others have put there.
fn own(root: &Path, name: &str) -> Result<PathBuf> {
    let path = root.join(name);
    let folder = path.parent().filter(|folder| *folder != root);
    for (at, is_folder) in [(folder, true), (Some(path.as_path()), false)] {
        let Some(there) = at.and_then(|at| at.symlink_metadata().ok()) else { continue };
        if if is_folder { !there.is_dir() } else { !there.is_file() } {
            return Err(Error::State {
                path: at.unwrap_or(root).to_owned(),
                reason: format!("is {}, which is not written to", private::kind(&there)),
                hint: "remove it, and run the same command again; nobody else should be able to write there".into(),
            });
        }
    }
    Ok(path)
}

/// A file that gets its name when it is whole. Its folder is made, durably.
fn new_file(path: &Path) -> Result<Output> {
    make_folder(path)?;
    Output::create(path, true)
}

/// The folder of a file, which is made, durably.
fn make_folder(path: &Path) -> Result<&Path> {
    let folder = path.parent().unwrap_or(Path::new("."));
    if !folder.exists() {
        std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        crate::os::files::sync_dir(above)?;
    }
    Ok(folder)
}

/// Copies a file of a database: never by a hard link, since the damage of one would be that of the other; blocks are shared
/// where the file system copies them when they are written to. False where it is another file than it was.
fn put_file(to: &Path, from: &Path, bytes: u64, blake3: blake3::Hash, stop: &CancellationToken) -> Result<bool> {
    let source = open_regular(from).map_err(Error::io("read", from))?;
    let mut output = new_file(to)?;
    let copied: &mut File = output.file();
    let found = if rustix::fs::ioctl_ficlone(&*copied, &source).is_ok() {
        hashing::hash(copied, to, bytes, stop)?
    } else {
        hashing::copy((&source, from), (&mut *copied, to), bytes, stop, &|_| ())?
    };
    if found != (bytes, blake3) {
        return Ok(false);
    }
    output.commit().map(|()| true)
}
