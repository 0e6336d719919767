//! A standing attack on the real binary: kills, failing disks, bytes that change in the work, in sources and in finished
//! databases. The results are checked without the library under test, and counted.
//!
//! `make test-long` runs it in a short form whose size is always the same and whose seed is not; it is printed. `make attack` runs
//! the long form. `make test` leaves it out: it is random, and `tests/crash` has the named points.
//!
//! | variable | |
//! |---|---|
//! | `BEDLOAD_TEST_SEED=N` | the same attacks again |
//! | `BEDLOAD_ATTACK_MINUTES=N` | the long form, for about so long |
//! | `BEDLOAD_ATTACK_AT=N` | only the attempt of this number |
//! | `BEDLOAD_ATTACK_KIND=TEXT` | only kinds of imports with this text in their names |
//! | `BEDLOAD_WRITE_DOCS=1` | writes the counts into `docs/reliability.md`, with the commit in `COMMIT` |
//!
//! Arguments choose attacks by parts of their names.

#[path = "../common/mod.rs"]
mod common;

mod bits;
mod calls;
mod finished;
mod imports;
mod judge;
mod partial;
mod sources;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::crash::Chance;
use common::database::flip;
use imports::World;
use judge::*;

/// Attempts at a time. Each import has two threads.
const AT_ONCE: u64 = 2;

/// Receives the result of an attempt.
type Tell<'a> = &'a (dyn Fn(&str, Judged<Outcome>) + 'a);

struct Context<'a> {
    index: u64,
    seed: u64,
    /// A folder that is empty.
    dir: &'a Path,
    /// A folder beside it.
    kept: &'a Path,
    deadline: Option<Instant>,
}

impl Context<'_> {
    fn has_time(&self) -> bool {
        self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Chooses a number for the long or the short form.
    fn few(&self, many: usize, few: usize) -> usize {
        if self.deadline.is_some() { many } else { few }
    }

    /// All of these files, or a few of them in the short form.
    fn some(&self, mut files: Vec<PathBuf>, few: usize, chance: &mut Chance) -> Vec<PathBuf> {
        while files.len() > self.few(usize::MAX, few) {
            files.swap_remove(chance.below(files.len() as u64) as usize);
        }
        files
    }

    /// Flips a bit of this byte, and returns what was changed.
    fn flip_bit(&self, file: &Path, byte: u64, chance: &mut Chance) -> String {
        let mask = 1 << chance.below(8);
        flip(file, byte as usize, mask);
        format!("{} byte {byte} ^ {mask:#04x}", file.strip_prefix(self.dir).expect("below").display())
    }
}

type Run = fn(&World, &Context, &mut Chance, Tell<'_>);

struct Class {
    name: &'static str,
    /// Attempts of the short form.
    few: u64,
    /// Its part of the time of the long form.
    weight: u32,
    run: Run,
}

const fn class(name: &'static str, few: u64, weight: u32, run: Run) -> Class {
    Class { name, few, weight, run }
}

const CLASSES: [Class; 9] = [
    class("kills at the N-th call, and again after resuming", 28, 4, calls::kills),
    class("EIO or ENOSPC at the N-th call", 28, 4, calls::disks),
    class("a byte of `.partial` flipped between two runs", 14, 4, partial::between_runs),
    class("a byte of `.partial` flipped during a run", 28, 3, partial::while_it_runs),
    class("every bit of a CAR", 60, 2, bits::flips),
    class("a source changed between two runs", 15, 2, sources::between_runs),
    class("a source changed during a run", 15, 2, sources::while_it_runs),
    class("a byte of a database flipped before it is copied", 15, 2, sources::databases),
    class("a byte of a finished database flipped", 7, 3, finished::flips),
];

/// Counts of attempts by class and column.
#[derive(Default)]
struct Board(Mutex<BTreeMap<(&'static str, usize), u64>>);

/// Outcomes, then harms.
const COLUMNS: [&str; 11] = [
    "refused",
    "resumed",
    "unchanged",
    "found by `verify`",
    "not covered",
    "lost",
    "wrong",
    "hung",
    "signal",
    "does not open",
    "wrong report",
];

impl Board {
    fn record(&self, class: &'static str, what: &str, judged: Judged<Outcome>) {
        let column = match judged {
            Ok(outcome) => outcome as usize,
            Err(Failure { harm, text }) => {
                eprintln!("FAILED: {harm:?}: {class}: {what}\n        {text:.900}");
                harm as usize
            }
        };
        *self.0.lock().expect("no panic").entry((class, column)).or_default() += 1;
    }

    fn row(&self, class: &'static str) -> String {
        let counts = self.0.lock().expect("no panic");
        let cells: Vec<u64> =
            (0..COLUMNS.len()).map(|column| counts.get(&(class, column)).copied().unwrap_or(0)).collect();
        let tried = cells.iter().sum::<u64>();
        format!("| {class} | {tried} | {} |\n", cells.iter().map(u64::to_string).collect::<Vec<_>>().join(" | "))
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn attack(class: &Class, world: &World, seed: u64, long: Option<Duration>, board: &Board) {
    let only = number("BEDLOAD_ATTACK_AT");
    let deadline = long.map(|time| Instant::now() + time);
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(if long.is_some() { u64::MAX } else { class.few }, |at| at + 1);
    let attempt = |index: u64| {
        let kept = tempfile::tempdir_in(world.place.path("")).expect("a folder");
        let dir = kept.path().join("attempt");
        std::fs::create_dir(&dir).expect("a folder");
        let context = Context { index, seed, dir: &dir, kept: kept.path(), deadline };
        let mut chance = Chance::of(seed ^ (index + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        let tell = |what: &str, judged| board.record(class.name, &format!("attempt {index}, {what}"), judged);
        let run = || (class.run)(world, &context, &mut chance, &tell);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(run)) {
            let text = panic.downcast_ref::<String>().cloned();
            tell("the attack itself failed", fail(Harm::WrongReport, text.unwrap_or_default()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= end || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        break;
                    }
                    attempt(index);
                }
            });
        }
    });
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [compare, db, file] = &words[..]
        && compare == "--compare"
    {
        println!("{}", judge::compare(Path::new(db), Path::new(file)));
        return ExitCode::SUCCESS;
    }
    if words.iter().any(|word| word == "--list") {
        CLASSES.iter().for_each(|class| println!("{}: test", class.name));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let minutes = std::env::var("BEDLOAD_ATTACK_MINUTES").ok().and_then(|minutes| minutes.parse::<f64>().ok());
    let long = minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let is_chosen = |class: &&Class| filters.is_empty() || filters.iter().any(|word| class.name.contains(*word));
    let chosen: Vec<&Class> = CLASSES.iter().filter(is_chosen).collect();
    let is_asked_for = minutes.is_some() || !filters.is_empty() || common::crash::is_long();
    if !is_asked_for {
        println!("attack: ignored, it is random: make test-long runs it");
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() || common::fault::library().is_none() {
        return ExitCode::SUCCESS;
    }
    let (seed, world, board) = (Chance::seed(), World::new(), Board::default());
    let weights: u32 = chosen.iter().map(|class| class.weight).sum();
    let mut table = format!("| attack | tried | {} |\n|---|{}\n", COLUMNS.join(" | "), "--:|".repeat(12));
    for class in &chosen {
        let started = Instant::now();
        attack(class, &world, seed, long.map(|all| all * class.weight / weights), &board);
        eprintln!("{}: {:.1} s", class.name, started.elapsed().as_secs_f64());
        table += &board.row(class.name);
    }
    eprintln!("\n{table}");
    let mut text = std::fs::read_to_string(DOCUMENT).expect("docs/reliability.md");
    if let (Some(minutes), Some(1)) = (minutes, number("BEDLOAD_WRITE_DOCS")) {
        let today = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output().expect("a date").stdout;
        let today = String::from_utf8_lossy(&today).trim().to_owned();
        let command = format!("BEDLOAD_TEST_SEED={seed} make attack ATTACK_MINUTES={minutes}");
        let commit = std::env::var("COMMIT").unwrap_or_else(|_| "unknown".into());
        let from = text.find(BEGIN).expect("the begin of the counts") + BEGIN.len();
        let to = text.find("<!-- end of counts -->").expect("the end of the counts");
        text.replace_range(from..to, &format!("`{command}` on {today}, program of commit {commit}:\n\n{table}"));
        std::fs::write(DOCUMENT, &text).expect("written");
    }
    common::run::sweep_old_folders();
    let missing = CLASSES.iter().map(|class| class.name).filter(|name| !text.contains(&format!("| {name} |")));
    let missing: Vec<_> = missing.collect();
    if !missing.is_empty() {
        eprintln!("FAILED: docs/reliability.md lacks {missing:?}");
    }
    let is_harmed = board.0.lock().expect("no panic").keys().any(|(_, column)| *column >= Harm::Lost as usize);
    if is_harmed || !missing.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reliability.md");
const BEGIN: &str = "<!-- counts -->\n";
