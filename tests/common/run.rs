//! Runs of the real binary, and the conditions that every run must meet.

use std::ffi::OsStr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use bedload::progress::{CancellationToken, Event, Phase};
use serde_json::Value;

use super::car::Block;
use super::crash::{Ended, ended_within, spawn_fed};
use super::model::{Key, Model, records};

pub const BEDLOAD: &str = env!("CARGO_BIN_EXE_bedload");

/// Time after which a run counts as hanging.
const PATIENCE: Duration = Duration::from_secs(600);

/// The program, with an empty environment.
pub fn bedload() -> Command {
    hermetic(BEDLOAD)
}

/// [`bedload`] as a command of `assert_cmd`.
pub fn program() -> assert_cmd::Command {
    assert_cmd::Command::from_std(bedload())
}

/// Runs a command with `--json`, expects its exit code, and takes its document.
#[track_caller]
pub fn json(command: &mut assert_cmd::Command, code: i32) -> Value {
    let output = command.arg("--json").output().expect("it runs");
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{stdout}\n{stderr}");
    serde_json::from_str(&stdout).expect("one JSON document")
}

/// A command without the configuration, cache and environment variables of the user.
pub fn hermetic(program: impl AsRef<OsStr>) -> Command {
    default_signals();
    let mut command = Command::new(program);
    // Paths of other programs and libraries, and of a disk with room.
    let kept = ["PATH", "LD_LIBRARY_PATH", "TMPDIR"].map(|name| (name, std::env::var_os(name)));
    command.env_clear().envs(kept.into_iter().filter_map(|(name, value)| Some((name, value?))));
    command.env("HOME", own_folder());
    command
}

/// Gives children the default action of signals that this process ignores, as it does below `nohup`: an ignored signal is
/// inherited, a handled one is not.
fn default_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            // SAFETY: a zeroed `sigaction` is valid, and the handler does nothing.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN {
                    action.sa_sigaction = nothing as *const () as libc::sighandler_t;
                    action.sa_flags = libc::SA_RESTART;
                    libc::sigaction(signal, &action, std::ptr::null_mut());
                }
            }
        }
    });
}

/// A folder of this process, which the next test run removes.
pub fn own_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        sweep_old_folders();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("process-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    })
}

/// Removes the folders of processes that have ended.
pub fn sweep_old_folders() {
    for entry in Path::new(env!("CARGO_TARGET_TMPDIR")).read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(pid) = name.strip_prefix("process-")
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns an observer that cancels `stop` when the phase `at` begins.
pub fn stops_at(at: Phase, stop: CancellationToken) -> impl Fn(&Event) + Sync {
    move |event| {
        if matches!(event, Event::Phase { phase } if *phase == at) {
            stop.cancel();
        }
    }
}

/// The folder of an import's unfinished work.
pub fn partial(db: &Path) -> PathBuf {
    db.with_added_extension("partial")
}

/// A temporary folder of one test.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    /// A folder in memory, if there is room: a killed process loses nothing there either, and hundreds of runs wait for no
    /// disk.
    pub fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        let room = rustix::fs::statvfs(memory).is_ok_and(|stat| stat.f_bavail * stat.f_frsize > 1 << 30);
        if room { Self(tempfile::tempdir_in(memory).expect("a temporary folder")) } else { Self::new() }
    }

    /// A folder with one file.
    pub fn with_file(name: &str, bytes: &[u8]) -> (Self, PathBuf) {
        let place = Self::new();
        let file = place.file(name, bytes);
        (place, file)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir(&path).expect("a folder");
        path
    }

    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("room for a file");
        path
    }
}

/// A command about to run, quietly, with a report in JSON.
pub struct Run {
    command: Command,
    stdin: Option<Vec<u8>>,
    source: String,
    /// The database that it makes; empty if it makes none.
    db: PathBuf,
    key: Key,
}

/// Importing `source` into `place/db`.
pub fn import(place: &Place, source: impl AsRef<Path>) -> Run {
    let (db, source) = (place.path("db"), source.as_ref());
    let run = Run::new("import", &[source.as_ref(), "--db".as_ref(), db.as_ref()], &db);
    Run { source: source.display().to_string(), ..run }
}

/// Importing several sources, in this order.
pub fn import_all<P: AsRef<Path>>(place: &Place, sources: &[P]) -> Run {
    let (first, rest) = sources.split_first().expect("a source");
    let mut run = import(place, first);
    run.command.args(rest.iter().map(AsRef::as_ref));
    run
}

/// Importing `bytes` from a pipe.
pub fn import_pipe(place: &Place, bytes: impl Into<Vec<u8>>) -> Run {
    Run { stdin: Some(bytes.into()), ..import(place, "-") }
}

impl Run {
    pub fn new(command: &str, args: &[&OsStr], db: &Path) -> Self {
        let mut run = bedload();
        run.arg(command).args(args).args(["--json", "--progress", "off"]);
        Self { command: run, stdin: None, source: String::new(), db: db.to_owned(), key: Key::Cid }
    }

    pub fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Credentials and the address of an S3 store.
    pub fn at(self, endpoint: &str) -> Self {
        let run = self.args(&["--endpoint", endpoint]).env("AWS_ACCESS_KEY_ID", "a-key");
        run.env("AWS_SECRET_ACCESS_KEY", "a-hidden-secret")
    }

    /// Spills, and keeps a durable point after each half megabyte: a killed import can resume.
    pub fn spilling(self) -> Self {
        let args = ["--plan", "spill", "--memory", "16MiB", "--threads", "2"];
        self.args(&args).env("BEDLOAD_DURABLE_BYTES", "500000")
    }

    /// Ends as by `kill -9` when it reaches `point`.
    #[track_caller]
    pub fn dies_at(self, point: &str) {
        let died = self.env("BEDLOAD_ABORT_AT", point).run();
        assert_eq!(died.code, Some(137), "{}", died.stderr);
    }

    /// Through memtables, in many batches.
    pub fn through_memtables(self) -> Self {
        let small = ["--set", "load.cf.write_buffer_size=256K", "--set", "load.write.batch_bytes=16K"];
        self.args(&["--preset", "memtable"]).args(&small)
    }

    pub fn key(mut self, key: Key) -> Self {
        self.command.args(["--key", key.name()]);
        self.key = key;
        self
    }

    /// Runs `program` below a shell that first does `work`.
    fn below_shell(self, work: &str, program: impl AsRef<OsStr>) -> Self {
        let mut command = hermetic("sh");
        command.arg("-c").arg(format!("{work} \"$0\" \"$@\"")).arg(program).args(self.command.get_args());
        Self { command, ..self }
    }

    /// Runs under a limit of the address space, in MiB: a claimed length that is believed makes it fail.
    pub fn within(self, mib: u64) -> Self {
        // Every arena of glibc reserves 64 MiB; the limit is meant for us.
        self.below_shell(&format!("ulimit -v {} && exec", mib << 10), BEDLOAD).env("MALLOC_ARENA_MAX", "1")
    }

    /// Runs under a limit of open files.
    pub fn with_files(self, files: u64) -> Self {
        self.below_shell(&format!("ulimit -n {files} && exec"), BEDLOAD)
    }

    pub fn at_fault(self, source: &Path) -> Self {
        Self { source: source.display().to_string(), ..self }
    }

    pub fn within_folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    pub fn stdin(self, bytes: &[u8]) -> Self {
        Self { stdin: Some(bytes.to_vec()), ..self }
    }

    pub fn db(self, db: PathBuf) -> Self {
        let mut command = hermetic(self.command.get_program());
        let args = self.command.get_args();
        command.args(args.map(|arg| if arg == self.db { db.as_os_str() } else { arg }));
        Self { command, db, ..self }
    }

    pub fn spawn(mut self) -> Child {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().expect("it starts")
    }

    /// Runs to the end; a run that hangs is killed.
    pub fn run(mut self) -> Done {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = spawn_fed(&mut self.command, self.stdin.unwrap_or_default());
        let (ended, hung) = ended_within(child, PATIENCE);
        assert!(!hung, "it hung: {}", ended.stderr);
        Done { ended, source: self.source, db: self.db, key: self.key }
    }

    /// Ends well, with a database as [`Done::succeeded`] expects it.
    #[track_caller]
    pub fn succeeds(self) -> Done {
        let done = self.run();
        done.succeeded();
        done
    }

    /// Ends with this exit code, `words` in its error, and a hint. A seed that begins now ingests nothing.
    #[track_caller]
    pub fn refused(self, code: i32, words: &str) -> Done {
        let mut absent = vec![self.db.clone(), partial(&self.db).join("db")];
        absent.retain(|path| !self.db.as_os_str().is_empty() && path.symlink_metadata().is_err());
        let done = self.run();
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(done.text("/error").contains(words), "`{words}` is not in {done:?}");
        assert!(!done.hint().is_empty());
        for path in absent {
            assert!(path.symlink_metadata().is_err(), "{} was made: {done:?}", path.display());
        }
        done
    }

    /// Is refused before a seed writes or fetches anything.
    #[track_caller]
    pub fn refused_at_once(self, code: i32, words: &str) -> Done {
        let done = self.refused(code, words);
        assert!(!partial(&done.db).exists(), "it began: {done:?}");
        done
    }

    /// Runs, and expects the database to hold exactly the records of `blocks`.
    #[track_caller]
    pub fn holds<'a>(self, blocks: impl IntoIterator<Item = &'a Block>) -> Done {
        let key = self.key;
        let done = self.run();
        done.holds(&Model::new(blocks, key));
        done
    }
}

/// The roots in a report as the bytes of their CIDs.
pub fn roots(report: &Value) -> Vec<Vec<u8>> {
    let parse = |root: &Value| root.as_str().expect("text").parse::<cid::Cid>().expect("a CID").to_bytes();
    report["roots"].as_array().expect("roots").iter().map(parse).collect()
}

/// A [`Run`] that has ended.
#[derive(Debug)]
pub struct Done {
    ended: Ended,
    pub source: String,
    pub db: PathBuf,
    key: Key,
}

impl Deref for Done {
    type Target = Ended;

    fn deref(&self) -> &Ended {
        &self.ended
    }
}

impl Done {
    pub fn roots(&self) -> Vec<Vec<u8>> {
        roots(&self.json["source"])
    }

    /// The run ended well and left no unfinished work; a new database has no file at level 0.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert!(!partial(&self.db).exists(), "unfinished work remains");
        let levels = self.json["levels"].as_array().filter(|_| self.json["into_existing"] != true);
        assert!(levels.into_iter().flatten().all(|level| level["level"] != 0), "the database has L0 files: {levels:?}");
    }

    /// The report says what the model says, and so does the database when it is read with RocksDB itself.
    #[track_caller]
    pub fn holds(&self, model: &Model) {
        self.succeeded();
        assert_eq!(self.number("/blocks/read"), model.read, "blocks read");
        assert_eq!(self.number("/blocks/written"), model.records.len() as u64, "blocks written");
        assert_eq!(self.number("/blocks/duplicate"), model.read - model.records.len() as u64, "duplicates");
        assert_eq!(self.number("/payload_bytes"), model.payload, "bytes of the values read");
        assert_eq!(self.text("/digest"), model.digest(), "digest");
        assert_eq!(self.text("/key"), self.key.name());
        // Not with assert_eq: it would print both databases.
        assert!(records(&self.db) == model.records, "the database holds other records than the model");
    }

    /// The import was refused with this exit code and `reason`, whichever source it names; or ended well, with 0.
    #[track_caller]
    pub fn refused_by(&self, code: i32, reason: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        if code == 0 {
            return std::fs::remove_dir_all(&self.db).expect("a database");
        }
        assert!(self.text("/error").contains(reason) && !self.hint().is_empty(), "{self:?}");
        assert!(self.db.symlink_metadata().is_err(), "something exists under the final name");
    }

    /// The import was refused: with this exit code, one `error:` line that names the source, the offset and `reason`,
    /// one `hint:` line, nothing under the final name, and after bad input nothing beside it either.
    #[track_caller]
    pub fn refused(&self, code: i32, offset: impl Into<Option<u64>>, reason: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().filter(|line| !line.starts_with("warning: ")).collect();
        let [error, hint] = lines[..] else { panic!("not one error line and one hint line:\n{}", self.stderr) };
        let Some(error) = error.strip_prefix("error: ") else { panic!("no error line: {error}") };
        let Some(hint) = hint.strip_prefix("hint: ") else { panic!("no hint line: {hint}") };
        assert!(!hint.trim().is_empty(), "an empty hint");
        if code == 3 {
            let at = offset.into().map(|offset| format!(" at byte {offset}")).unwrap_or_default();
            let place = format!("cannot read {}{at}: ", self.source);
            assert!(error.starts_with(&place), "`{error}` does not begin with `{place}`");
        }
        assert!(error.contains(reason), "`{error}` does not name the reason `{reason}`");
        assert_eq!(self.text("/error"), error, "the JSON says something else");
        assert_eq!(self.text("/hint"), hint);
        assert_eq!(self.number("/exit"), code as u64);
        assert!(self.db.symlink_metadata().is_err(), "something exists under the final name");
        // After an error of the system an import can resume; after bad input nothing remains.
        assert!(code != 3 || partial(&self.db).symlink_metadata().is_err(), "something is left of the work");
    }

    pub fn hint(&self) -> &str {
        self.text("/hint")
    }
}
