//! The sources of an import: which they are, and what is known of each before the first block is read.
//!
//! A file stays closed until it is read: there may be more of them than this process may open. What is opened then is what
//! was looked at before, or an error.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::load::identity::{self, FileIdentity, Inode, OneSource};
use crate::load::options::{Format, ImportOptions};
use crate::source::block_log::{PEEK, is_block_log, is_log_directory, is_set};
use crate::source::car::CarProblem;
use crate::source::car::sources::Following;
use crate::source::input::{self, Compression, InputOptions, Look};

/// The most sources of one import: fingerprints have 16 bits for the number of one.
pub(in crate::load) const MAX_SOURCES: usize = 1 << 16;

/// What the names of CARs end in, compressed or not.
const ENDINGS: [&[u8]; 5] = [b".car", b".car.zst", b".car.gz", b".car.xz", b".car.lz4"];

/// The name of standard input.
const STDIN: &str = "-";

/// The sources in the caller's order; directories are replaced by the CARs in them.
pub(super) struct Sources {
    names: Arc<[PathBuf]>,
    /// What was found out about each, where there are several; `None` of what is no regular file.
    known: Vec<Option<Known>>,
}

struct Known {
    look: Look,
    identity: FileIdentity,
    inode: Inode,
}

impl Sources {
    /// Finds the sources, and looks at each where there are several.
    ///
    /// # Errors
    /// [`Error::Usage`]: there is none, one is named twice, or one cannot be among several; [`Error::BadInput`],
    /// [`Error::Io`]: one is not there or cannot be read.
    pub fn find(options: &ImportOptions) -> Result<Arc<Self>> {
        let names = expand(options)?;
        if names.is_empty() {
            return Err(Error::Usage { reason: "no snapshot is named".into(), hint: "name one or more".into() });
        }
        if names.len() > MAX_SOURCES {
            return Err(Error::Usage {
                reason: format!("{} sources are more than one import takes", names.len()),
                hint: "import them in parts, the later ones with --into-existing".into(),
            });
        }
        let known = if names.len() > 1 { look_at(&names, options)? } else { vec![None] };
        Ok(Arc::new(Self { names: names.into(), known }))
    }

    /// The names of all.
    pub fn names(&self) -> &[PathBuf] {
        &self.names
    }

    /// The name of the first one.
    pub fn first(&self) -> &Path {
        self.names.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// How errors and reports name all of them.
    pub fn shown(&self) -> PathBuf {
        let mut name = self.first().as_os_str().to_owned();
        if self.are_several() {
            name.push(format!(" and {} more", self.names.len() - 1));
        }
        name.into()
    }

    pub fn are_several(&self) -> bool {
        self.names.len() > 1
    }

    /// Bytes on disk of each, as far as they are known.
    pub fn bytes(&self) -> Vec<Option<u64>> {
        self.known.iter().map(|known| Some(known.as_ref()?.look.size)).collect()
    }

    fn all<T>(&self, of: impl Fn(&Known) -> Option<T>) -> Option<Vec<T>> {
        self.known.iter().map(|known| of(known.as_ref()?)).collect()
    }

    /// Bytes on disk of all of several.
    pub fn size(&self) -> Option<u64> {
        self.all(|known| Some(known.look.size)).map(|sizes| sizes.iter().sum())
    }

    /// Bytes of the largest one.
    pub fn largest(&self) -> Option<u64> {
        self.all(|known| Some(known.look.size))?.into_iter().max()
    }

    /// Blocks of all of several, where each says how many it has.
    pub fn blocks(&self) -> Option<u64> {
        self.all(|known| known.look.blocks).map(|blocks| blocks.iter().sum())
    }

    /// Whether all of several are files that need no decompression.
    pub fn are_plain(&self) -> bool {
        self.all(|known| (known.look.compression == Compression::None).then_some(())).is_some()
    }

    /// Bytes of the blocks of all of several, where they can be guessed: `unpacked` times as many as a compressed file has.
    pub fn expected(&self, unpacked: u64) -> Option<u64> {
        let bytes = |Known { look, .. }: &Known| match look.compression {
            Compression::None => look.size,
            _ => look.size.saturating_mul(unpacked),
        };
        self.all(|known| Some(bytes(known))).map(|all| all.into_iter().fold(0, u64::saturating_add))
    }

    /// What identifies each of several.
    pub fn identities(&self) -> Vec<OneSource> {
        if !self.are_several() {
            return Vec::new();
        }
        let one = |(name, known): (&PathBuf, &Option<Known>)| OneSource {
            name: name.to_string_lossy().into_owned(),
            file: known.as_ref().map(|known| known.identity.clone()),
            inode: known.as_ref().map(|known| known.inode.clone()),
        };
        self.names.iter().zip(&self.known).map(one).collect()
    }

    /// How a reader of CARs goes from one source to the next.
    pub fn following(self: &Arc<Self>, options: InputOptions) -> Following {
        let sources = Arc::clone(self);
        let open = move |number: usize| {
            let Some(name) = sources.names.get(number) else { return Err(Error::interrupted()) };
            let input = input::open(name, &options)?;
            if let Some(file) = &input.file {
                sources.check(number, file)?;
            }
            Ok(input)
        };
        Following { names: Arc::clone(&self.names), bytes: self.bytes(), open: Box::new(open) }
    }

    /// Opens a file again.
    ///
    /// # Errors
    /// [`Error::Io`]: it cannot be opened; [`Error::State`]: it is not the one that was looked at.
    pub fn reopen(&self, number: usize) -> Result<File> {
        let Some(name) = self.names.get(number) else { return Err(Error::interrupted()) };
        let file = File::open(name).map_err(Error::io("open", name))?;
        self.check(number, &file)?;
        Ok(file)
    }

    /// Checks that an opened file is the one that was looked at.
    fn check(&self, number: usize, file: &File) -> Result<()> {
        let Some((name, Some(known))) = self.names.get(number).zip(self.known.get(number)) else { return Ok(()) };
        let metadata = file.metadata().map_err(Error::io("look at", name))?;
        if Inode::of(&metadata) != known.inode || metadata.len() != known.look.size {
            return Err(identity::changed(name, "it is another file, or was written to, since the import began"));
        }
        Ok(())
    }
}

/// The sources, with the CARs of a directory in its place.
fn expand(options: &ImportOptions) -> Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for path in &options.sources {
        let is_dir = path.as_os_str() != STDIN && path.is_dir();
        let is_log = options.format == Format::BlockLog || (options.format == Format::Auto && is_log_directory(path));
        if !is_dir || is_log {
            names.push(path.clone());
            continue;
        }
        let found = cars_in(path)?;
        if found.is_empty() {
            return Err(Error::bad_input(path, None, CarProblem::NothingInDirectory));
        }
        names.extend(found);
    }
    Ok(names)
}

/// The files of a directory that are named like CARs, in the order of their names.
fn cars_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in dir.read_dir().map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        // Hidden files are unfinished downloads, as a shell's `*.car` leaves them out too.
        if !name.starts_with(b".") && ENDINGS.iter().any(|ending| name.ends_with(ending)) && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn look_at(names: &[PathBuf], options: &ImportOptions) -> Result<Vec<Option<Known>>> {
    if options.format == Format::BlockLog {
        return Err(no_log(names.first().map_or(Path::new(""), PathBuf::as_path)));
    }
    let mut files: HashMap<(u64, u64), &PathBuf> = HashMap::new();
    let mut pipes = 0;
    let mut known = Vec::with_capacity(names.len());
    for name in names {
        if options.format == Format::Auto && is_set(name) {
            return Err(no_log(name));
        }
        pipes += usize::from(name.as_os_str() == STDIN);
        if pipes > 1 {
            return Err(Error::Usage {
                reason: "`-`, standard input, is named twice".into(),
                hint: "name it once".into(),
            });
        }
        let Some((mut look, file)) = input::look(name)? else {
            known.push(None);
            continue;
        };
        let head = std::mem::take(&mut look.head);
        let is_plain = look.compression == Compression::None;
        if options.format == Format::Auto && is_plain && is_block_log(&head, head.len() < PEEK) {
            return Err(no_log(name));
        }
        let metadata = file.metadata().map_err(Error::io("look at", name))?;
        if let Some(other) = files.insert((metadata.dev(), metadata.ino()), name) {
            return Err(Error::Usage {
                reason: format!("one file is named twice: {} and {}", other.display(), name.display()),
                hint: "name each once".into(),
            });
        }
        let (identity, inode) = identity::of_file(name, &file)?;
        known.push(Some(Known { look, identity, inode }));
    }
    Ok(known)
}

fn no_log(name: &Path) -> Error {
    Error::Usage {
        reason: format!("{} is a block log, which is imported alone", name.display()),
        hint: "several sources may only be CARs; for the parts of a log name their directory".into(),
    }
}
