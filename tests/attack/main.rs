//! A standing attack on the real binary: kills, failing disks, bytes that change in the work, in sources and in finished
//! databases. The results are checked without the library under test, and counted.
//!
//! With all tests it runs in a short form whose size is always the same and whose seed is not; it is printed.
//!
//! | variable | |
//! |---|---|
//! | `BEDLOAD_TEST_SEED=N` | the same attacks again |
//! | `BEDLOAD_ATTACK_MINUTES=N` | the long form, for about so long |
//! | `BEDLOAD_ATTACK_AT=N` | only the attempt of this number |
//! | `BEDLOAD_ATTACK_KIND=TEXT` | only kinds of imports with this text in their names |
//! | `BEDLOAD_WRITE_DOCS=1` | writes the counts into `docs/reliability.md` |
//!
//! Arguments choose attacks by parts of their names.

#[path = "../common/mod.rs"]
mod common;

mod bits;
mod calls;
mod finished;
mod imports;
mod judge;
mod logs;
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

/// Attempts at a time. Each import has two threads of its own.
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
    board: &'a Board,
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

    fn uncovered(&self, source: &str, place: &str) {
        let mut places = self.board.uncovered.lock().expect("no panic");
        *places.entry(format!("{source}: {place}")).or_default() += 1;
    }
}

type Run = Box<dyn Fn(&World, &Context, &mut Chance, Tell<'_>) + Sync>;

const KILLS: &str = "kills at the N-th call, and again after resuming";
const DISKS: &str = "EIO or ENOSPC at the N-th call";
const BETWEEN_RUNS: &str = "a byte of `.partial` flipped between two runs";
const UNDER_A_RUN: &str = "a byte of `.partial` flipped during a run";
const SOURCE_BETWEEN_RUNS: &str = "a source changed between two runs";
const SOURCE_UNDER_A_RUN: &str = "a source changed during a run";
const FINISHED: &str = "a byte of a finished database flipped";

struct Class {
    name: &'static str,
    run: Run,
    /// Attempts of the short form.
    few: u64,
    /// Attempts of the long form, unless there is no end of them.
    all: Option<u64>,
    /// Its part of the time of the long form.
    weight: u32,
}

fn classes() -> Vec<Class> {
    let class = |name, few, weight, run| Class { name, run, few, all: None, weight };
    let bits = |name, few, small: bits::Small| {
        let all = Some(small.bytes.len() as u64 * 8);
        let run: Run = Box::new(move |world, at, chance, tell| bits::flips(&small, world, at, chance, tell));
        Class { name, run, few, all, weight: 2 }
    };
    vec![
        class(KILLS, 28, 4, Box::new(calls::kills)),
        class(DISKS, 28, 4, Box::new(calls::disks)),
        class(BETWEEN_RUNS, 14, 4, Box::new(partial::between_runs)),
        class(UNDER_A_RUN, 28, 3, Box::new(partial::while_it_runs)),
        bits("every bit of a CAR", 60, bits::car()),
        bits("every bit of a Steem log", 60, bits::steem(false)),
        bits("every bit of a Steem log, links only", 40, bits::steem(true)),
        bits("every bit of an Antelope log", 60, bits::antelope(false)),
        bits("every bit of an Antelope log, links only", 40, bits::antelope(true)),
        class(SOURCE_BETWEEN_RUNS, 15, 2, Box::new(sources::between_runs)),
        class(SOURCE_UNDER_A_RUN, 15, 2, Box::new(sources::while_it_runs)),
        class(FINISHED, 7, 3, Box::new(finished::flips)),
    ]
}

#[derive(Default)]
struct Board {
    /// By class and column.
    counts: Mutex<BTreeMap<(&'static str, usize), u64>>,
    uncovered: Mutex<BTreeMap<String, u64>>,
}

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
        let column = judged.map_or_else(
            |Failure { harm, text }| {
                let short: String = text.chars().take(900).collect();
                eprintln!("FAILED: {harm:?}: {class}: {what}\n        {short}");
                harm as usize
            },
            |outcome| outcome as usize,
        );
        *self.counts.lock().expect("no panic").entry((class, column)).or_default() += 1;
    }

    fn counts(&self, class: &'static str) -> [u64; COLUMNS.len()] {
        let counts = self.counts.lock().expect("no panic");
        std::array::from_fn(|column| counts.get(&(class, column)).copied().unwrap_or(0))
    }

    fn table(&self, classes: &[&'static str]) -> String {
        let mut table = format!("| attack | tried | {} |\n|---|{}\n", COLUMNS.join(" | "), "--:|".repeat(12));
        for class in classes {
            let counts = self.counts(class);
            let cells: Vec<String> = counts.iter().map(u64::to_string).collect();
            table += &format!("| {class} | {} | {} |\n", counts.iter().sum::<u64>(), cells.join(" | "));
        }
        table
    }

    /// Rows of the places that no hash in a source covers.
    fn places(&self) -> String {
        let places = self.uncovered.lock().expect("no panic");
        places.iter().map(|(place, count)| format!("| {place} | {count} |\n")).collect()
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn attack(class: &Class, world: &World, seed: u64, long: Option<Duration>, board: &Board) {
    let at = number("BEDLOAD_ATTACK_AT");
    let deadline = long.map(|time| Instant::now() + time);
    let next = AtomicU64::new(at.unwrap_or(0));
    let end = match (at, long) {
        (Some(at), _) => at + 1,
        (None, None) => class.few,
        (None, Some(_)) => class.all.unwrap_or(u64::MAX),
    };
    let attempt = |index: u64| {
        let kept = tempfile::tempdir_in(world.place.path("")).expect("a folder");
        let dir = kept.path().join("attempt");
        std::fs::create_dir(&dir).expect("a folder");
        let context = Context { index, seed, dir: &dir, kept: kept.path(), deadline, board };
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
    let all = classes();
    if words.iter().any(|word| word == "--list") {
        all.iter().for_each(|class| println!("{}: test", class.name));
        return ExitCode::SUCCESS;
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let minutes = std::env::var("BEDLOAD_ATTACK_MINUTES").ok().and_then(|minutes| minutes.parse::<f64>().ok());
    let minutes = minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let is_chosen = |class: &&Class| filters.is_empty() || filters.iter().any(|word| class.name.contains(*word));
    let chosen: Vec<&Class> = all.iter().filter(is_chosen).collect();
    if chosen.is_empty() || common::fault::library().is_none() {
        return ExitCode::SUCCESS;
    }
    let seed = Chance::seed();

    let world = World::new();
    let board = Board::default();
    let weights: u32 = chosen.iter().map(|class| class.weight).sum();
    for class in &chosen {
        let started = Instant::now();
        attack(class, &world, seed, minutes.map(|all| all * class.weight / weights), &board);
        let tried = board.counts(class.name).iter().sum::<u64>();
        eprintln!("{}: {tried} in {:.1} s", class.name, started.elapsed().as_secs_f64());
    }
    let names: Vec<_> = chosen.iter().map(|class| class.name).collect();
    let table = board.table(&names);
    eprintln!("\n{table}");
    if !board.places().is_empty() {
        eprintln!("not covered:\n{}", board.places());
    }
    if minutes.is_some() && number("BEDLOAD_WRITE_DOCS") == Some(1) {
        let minutes = minutes.unwrap_or_default().as_secs() / 60;
        let command = format!("BEDLOAD_TEST_SEED={seed} make attack ATTACK_MINUTES={minutes}");
        let today = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output().expect("a date").stdout;
        let told = format!("`{command}` on {}:\n\n{table}", String::from_utf8_lossy(&today).trim());
        write_docs(&told, &board.places());
    }
    common::run::sweep_old_folders();
    let missing: Vec<_> = all.iter().filter(|class| !document().contains(&format!("| {} |", class.name))).collect();
    if !missing.is_empty() {
        eprintln!("FAILED: docs/reliability.md lacks {:?}", missing.iter().map(|class| class.name).collect::<Vec<_>>());
        return ExitCode::FAILURE;
    }
    let harmed = board.counts.lock().expect("no panic").keys().any(|(_, column)| *column >= Harm::Lost as usize);
    if harmed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reliability.md");

fn document() -> String {
    std::fs::read_to_string(DOCUMENT).expect("docs/reliability.md")
}

/// The tables of `docs/reliability.md`.
fn write_docs(table: &str, places: &str) {
    let mut text = document();
    let places = format!("| where | bits |\n|---|--:|\n{places}");
    for (name, table) in [("counts", table), ("places", &places)] {
        let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let from = text.find(&begin).expect("its begin") + begin.len();
        let to = text.find(&end).expect("its end");
        text.replace_range(from..to, table);
    }
    std::fs::write(DOCUMENT, text).expect("written");
}
