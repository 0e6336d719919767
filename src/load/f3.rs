//! The F3 data of a snapshot of version 2 (FRC-0108), where it is not stored: left out, or written to a file.
//!
//! It is one raw block that grows with the chain. It passes in pieces (`source/car/pass_over`), so no budget limits it. A file
//! is `<db>.partial/f3` until the import commits: whole and synced before any checkpoint lies behind it. Then it is read back
//! and gets its name, before the database does.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::error::{Error, Result};
use crate::failpoint;
use crate::hash::Streaming;
use crate::load::context::Job;
use crate::load::links::{Gathered, LinkList};
use crate::load::options::{F3Data, ImportOptions};
use crate::os::files::{Output, open_regular, sync_dir};
use crate::os::private;
use crate::report::F3Report;
use crate::source::car::chunks::Chunks;
use crate::source::car::pass_over::{Passed, Receiver, matches};
use crate::source::car::sources::SourceRead;
use crate::source::car::{CarProblem, RawCid, read_cid};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// The mode before the umask, as of most programs: until it has its name, its directory is closed to others.
const MODE: u32 = 0o666;

/// Refuses a file that cannot be written, before anything is read.
///
/// # Errors
/// [`Error::Usage`]: there are no F3 data, or the name is no place for them; [`Error::State`]: another file has it;
/// [`Error::Io`]: the system refuses something.
pub(super) fn check(options: &ImportOptions, chunks: &Chunks) -> Result<()> {
    let F3Data::File(path) = &options.f3 else { return Ok(()) };
    let usage = |reason: String, hint: &str| Err(Error::Usage { reason, hint: hint.into() });
    if chunks.sources() > 1 {
        return usage(
            format!("--f3 FILE is of one snapshot, and these are {}", chunks.sources()),
            "use --f3 skip, or import the one whose F3 data you want by itself",
        );
    }
    let Some(cid) = chunks.passes_over() else {
        return usage("the snapshot names no F3 data that could go to a file".into(), "leave --f3 out");
    };
    let absolute = |path: &Path| std::path::absolute(path).map_err(Error::io("look at", path));
    let (file, db) = (absolute(path)?, absolute(&options.db)?);
    let mut partial = db.clone().into_os_string();
    partial.push(".partial");
    if [db.as_path(), Path::new(&partial)].iter().any(|dir| file.starts_with(dir)) {
        return usage(
            format!("--f3 {} is where the database is made", path.display()),
            "give it the name of a file elsewhere",
        );
    }
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // The name is taken now, as if the file were written, to see whether it can be.
            drop(Output::create(path, false)?);
            Ok(())
        }
        _ => is_same(path, cid).and_then(|same| if same { Ok(()) } else { Err(exists(path)) }),
    }
}

fn exists(path: &Path) -> Error {
    Error::State {
        path: path.to_owned(),
        reason: "exists, and does not hold the F3 data of the snapshot".into(),
        hint: "give --f3 the name of a file that does not exist, or move this one away".into(),
    }
}

/// Sends the F3 block to its file, unless an earlier run has done that.
pub(super) fn attach(job: &Job<'_>, chunks: &mut Chunks) {
    let known = job.resumed.sources.iter().filter_map(|source| source.f3.as_deref());
    let has_passed = job.resumed.read.is_some() && known.map(|passed| passed.blocks).sum::<u64>() > 0;
    if matches!(job.options.f3, F3Data::File(_)) && !has_passed {
        chunks.receive(Box::new(Extract { path: job.target.f3(), file: None }));
    }
}

/// What was found of the F3 data of all sources, for the report. Their keys are ones that links may lead to.
///
/// # Errors
/// [`Error::BadInput`]: they were to be written, and are not there; [`Error::Io`]: the list of links cannot be written.
pub(super) fn report(job: &Job<'_>, sources: &[SourceRead]) -> Result<Vec<F3Report>> {
    let file = match &job.options.f3 {
        F3Data::File(path) => Some(path.display().to_string()),
        _ => None,
    };
    let mut found = BTreeMap::new();
    for passed in sources.iter().filter_map(|source| source.f3.as_deref()) {
        let Passed { cid, blocks, bytes } = passed;
        if *blocks == 0 {
            match file {
                Some(_) => {
                    return Err(Error::bad_input(job.options.source(), None, CarProblem::NoF3 { cid: cid.clone() }));
                }
                None => continue,
            }
        }
        let new = || F3Report { cid: cid.clone(), blocks: 0, bytes: bytes / blocks, file: file.clone() };
        found.entry(cid).or_insert_with(new).blocks += blocks;
    }
    if let Some(links) = job.links {
        let mut gathered = Gathered::default();
        for cid in found.keys().filter_map(|cid| cid.parse::<RawCid>().ok()) {
            if let Ok(Some(span)) = read_cid(cid.as_bytes()) {
                let key = cid.as_bytes().get(job.options.key.key_start(&span)..).unwrap_or_default();
                LinkList::gather_key(key, &mut gathered);
            }
        }
        links.add(&mut gathered)?;
    }
    Ok(found.into_values().collect())
}

/// Gives the file its name; one that has it already stays if it is the same.
///
/// # Errors
/// [`Error::State`]: another file has the name, or the work is damaged; [`Error::Io`]: the disk is full or fails.
pub(super) fn commit(job: &Job<'_>, found: Option<&F3Report>) -> Result<()> {
    let (F3Data::File(path), Some(found)) = (&job.options.f3, found) else { return Ok(()) };
    let Ok(cid) = found.cid.parse::<RawCid>() else { return Ok(()) };
    let ours = job.target.f3();
    if path.symlink_metadata().is_ok() {
        return match is_same(path, &cid)? {
            true => private::remove(&ours),
            false => Err(exists(path)),
        };
    }
    let there = ours.symlink_metadata().is_ok_and(|there| there.is_file() && there.len() == found.bytes);
    // Without --verify the block need not have its hash.
    if !there || (job.options.verify && !is_same(&ours, &cid)?) {
        return Err(Error::work_lacks(&job.target.partial, format!("the F3 data in {}", ours.display())));
    }
    failpoint::reach("f3-checked");
    match renameat_with(CWD, &ours, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            sync_dir(parent)?;
        }
        // Another file system, or one without this call.
        Err(_) => {
            let mut output = Output::create(path, false)?;
            let mut from = open_regular(&ours).map_err(Error::io("open", &ours))?;
            std::io::copy(&mut from, output.file()).map_err(Error::io("write", path))?;
            output.commit()?;
        }
    }
    failpoint::reach("f3-named");
    private::remove(&ours)
}

/// Whether a file holds the block that `cid` names.
fn is_same(path: &Path, cid: &RawCid) -> Result<bool> {
    let Ok(Some(span)) = read_cid(cid.as_bytes()) else { return Ok(false) };
    let Some(mut hash) = Streaming::new(span.hash) else { return Ok(false) };
    let mut file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::InvalidData => return Ok(false),
        Err(error) => return Err(Error::io("open", path)(error)),
    };
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(matches(cid, Some(hash)).is_ok()),
            Ok(len) => hash.update(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", path)(error)),
        }
    }
}

/// A file that receives the block.
struct Extract {
    path: PathBuf,
    file: Option<File>,
}

impl Receiver for Extract {
    fn begin(&mut self) -> Result<()> {
        // Of a run that died on the way, or that read what it held in memory.
        private::remove(&self.path)?;
        let made = File::options().write(true).create_new(true).mode(MODE).open(&self.path);
        self.file = Some(made.map_err(Error::io("create", &self.path))?);
        Ok(())
    }

    fn write(&mut self, piece: &[u8]) -> Result<()> {
        failpoint::reach("f3-piece");
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(piece).map_err(Error::io("write", &self.path))
    }

    fn end(&mut self) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        file.sync_all().map_err(Error::io("sync", &self.path))?;
        self.path.parent().map_or(Ok(()), sync_dir)?;
        failpoint::reach("f3-synced");
        Ok(())
    }
}
