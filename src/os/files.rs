//! A file that stands under its name whole or not at all.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Where something is written to.
///
/// ```
/// use std::io::Write;
///
/// use bedload::os::files::Output;
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("new");
/// let mut output = Output::create(&path, false)?;
/// output.file().write_all(b"whole")?;
/// assert!(!path.exists());
/// output.publish()?;
/// assert_eq!(std::fs::read(&path)?, b"whole");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum Output {
    /// A file; what is written appears under its name with [`Output::publish`].
    File(NewFile),
    /// A device or a named pipe: nothing to replace, nothing to publish.
    Stream(File),
}

/// A file that does not have its name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct NewFile {
    file: tempfile::NamedTempFile,
    path: PathBuf,
    folder: PathBuf,
}

impl Output {
    /// Opens what stands at `path`, or begins a new file in its folder. A file that is there is only replaced when
    /// `replace` says so.
    ///
    /// # Errors
    /// There is a directory, or a file that may not be replaced; or the system refuses.
    pub fn create(path: &Path, replace: bool) -> Result<Self> {
        match std::fs::metadata(path) {
            Ok(there) if !there.is_file() && !there.is_dir() => {
                let stream = File::options().write(true).open(path).map_err(Error::io("open", path))?;
                return Ok(Self::Stream(stream));
            }
            Ok(there) if there.is_dir() || !replace => {
                return Err(Error::State {
                    path: path.to_owned(),
                    reason: "it exists".into(),
                    hint: if there.is_dir() {
                        "name a file in it".into()
                    } else {
                        "choose another name, or replace it with --force".into()
                    },
                });
            }
            _ => {}
        }
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        {
            use std::os::unix::fs::PermissionsExt;
            // As any other program makes files; the umask takes away what it should.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.prefix(".bedload-").tempfile_in(folder).map_err(Error::io("create", path))?;
        Ok(Self::File(NewFile { file, path: path.to_owned(), folder: folder.to_owned() }))
    }

    /// What to write to.
    pub fn file(&mut self) -> &mut File {
        match self {
            Self::File(new) => new.file.as_file_mut(),
            Self::Stream(stream) => stream,
        }
    }

    /// Makes what was written durable, and then gives it its name.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn publish(self) -> Result<()> {
        let Self::File(NewFile { file, path, folder }) = self else { return Ok(()) };
        file.as_file().sync_all().map_err(Error::io("sync", &path))?;
        file.persist(&path).map_err(|error| Error::io("rename to", &path)(error.error))?;
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(Error::io("sync", &folder))
    }
}
