//! Sources that change between a crash and the resumed run, or during a run. The records are those of one of the two
//! sources, never a mix.

use crate::common::database::flip;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::process::Signal;

use super::bits::is_uncovered;
use super::common::car::{Block, block, noise, rooted};
use super::common::crash::{Case, Chance, From, copy, send, stops};
use super::common::log::raw;
use super::common::model::Key;
use super::imports::{Attempt, DATABASE, Fault, Plan, World, files, of_car, snapshot_of, steem};
use super::judge::*;
use super::{Context, Tell};

/// Bytes at both ends by which a file is known again.
const ENDS: usize = 64 << 10;

/// Two valid sources of one size that differ in the middle only, and one that is damaged there.
pub struct Twins {
    one: Vec<u8>,
    /// The blocks of `one`, if it is a CAR.
    blocks: Vec<Block>,
    other: Vec<u8>,
    wanted: [Wanted; 2],
    read: u64,
}

impl Twins {
    pub fn new(dir: &Path, key: Option<Key>) -> Self {
        std::fs::create_dir_all(dir).expect("a folder");
        let (one, other, blocks, families, read) = match key {
            Some(key) => {
                let make = |seed: u64| -> Vec<_> {
                    let middle = |i: u64| if (100..300).contains(&i) { i + seed } else { i };
                    (0..400).map(|i| block(&noise(middle(i), 900))).collect()
                };
                let (one, other) = (make(0), make(7000));
                let families = [of_car(&one, key), of_car(&other, key)];
                let read = one.len() as u64;
                (rooted(&one), rooted(&other), one, families, read)
            }
            None => {
                // Another chain from some block on has other links to its very end: only its lengths are equal.
                let [(one, mut families), (other, mut others)] = [1, 901].map(|seed| steem(700, seed));
                families.remove("transactions");
                others.remove("transactions");
                (raw(&one), raw(&other), Vec::new(), [families, others], one.len() as u64)
            }
        };
        assert!(one.len() == other.len() && one.len() > 3 * ENDS, "{} and {}", one.len(), other.len());
        if key.is_some() {
            assert!(one[..ENDS] == other[..ENDS] && one[one.len() - ENDS..] == other[other.len() - ENDS..]);
        }
        let none = Families::new();
        let [a, b] = families;
        let wanted = [Wanted::new(dir.join("one"), &a, &none), Wanted::new(dir.join("other"), &b, &none)];
        Self { one, other, blocks, wanted, read }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    /// Its bytes are overwritten in place.
    InPlace,
    /// Another file gets its name.
    Replaced,
    Cut,
    Damaged,
    Gone,
}

const CHANGES: [Change; 5] = [Change::InPlace, Change::Replaced, Change::Cut, Change::Damaged, Change::Gone];

fn change(file: &Path, change: Change, twins: &Twins, modified: SystemTime, chance: &mut Chance) {
    let open = |path: &Path| File::options().write(true).open(path).expect("opened");
    let with_time = |path: &Path| open(path).set_modified(modified).expect("a time");
    match change {
        Change::InPlace => open(file).write_all_at(&twins.other, 0).expect("written"),
        Change::Replaced => {
            let new: PathBuf = file.with_extension("new");
            std::fs::write(&new, &twins.other).expect("written");
            with_time(&new);
            std::fs::rename(&new, file).expect("renamed");
        }
        Change::Cut => {
            let len = ENDS as u64 + chance.below((twins.one.len() - ENDS) as u64);
            open(file).set_len(len).expect("cut");
        }
        Change::Damaged => {
            let any = || ENDS + chance.below((twins.one.len() - 2 * ENDS) as u64) as usize;
            // With another codec, a CID is valid.
            let mut places = std::iter::repeat_with(any);
            let at =
                places.find(|at| twins.blocks.is_empty() || !is_uncovered(&twins.blocks, *at)).expect("most bytes");
            flip(file, at, 1 << chance.below(8));
        }
        Change::Gone => std::fs::remove_file(file).expect("removed"),
    }
    if file.exists() {
        with_time(file);
    }
}

fn attempt(world: &World, at: &Context) -> (Attempt, &'static Twins, PathBuf) {
    // New databases of files.
    let kind = [0, 1, 2, 10, 12][at.index as usize % 5];
    let plan: &'static Plan = world.plan_of(kind, at.index as usize / 5 % 3);
    let twins = world.twins((!plan.kind.is_log()).then_some(plan.key));
    let mut attempt = Attempt::new(plan, at.dir);
    let file = at.dir.join("source");
    std::fs::write(&file, &twins.one).expect("room");
    let old = SystemTime::now() - std::time::Duration::from_secs(3600);
    File::options().write(true).open(&file).expect("opened").set_modified(old).expect("a time");
    attempt.case = Case { snapshot: snapshot_of(file.clone(), twins.read), from: From::File, ..attempt.case };
    (attempt, twins, file)
}

/// The end of a run whose source was changed, or of a run after that.
fn judge(attempt: &Attempt, twins: &Twins, ended: &super::common::crash::Ended) -> Judged<Outcome> {
    if ended.code != Some(0) {
        return refused(&attempt.case.db);
    }
    let one = twins.wanted[0].check_database(&attempt.case.db);
    if one.is_ok() || twins.wanted[1].check_database(&attempt.case.db).is_ok() {
        return Ok(Outcome::Resumed);
    }
    let failure = one.expect_err("it is not");
    fail(Harm::Wrong, format!("neither one source nor the other: {}", failure.text))
}

pub fn between_runs(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let (attempt, twins, file) = attempt(world, at);
    let point = attempt.any_point(chance);
    let how = CHANGES[chance.below(5) as usize];
    let what = format!("{}: killed at {point}, then {how:?}", attempt.name());
    let mut run = || {
        if ends(attempt.case.dying_at(point).start(), &[137, 0])?.code == Some(0) {
            return Ok(None);
        }
        let modified = file.metadata().and_then(|metadata| metadata.modified()).expect("a time");
        change(&file, how, twins, modified, chance);
        let ended = ends(attempt.case.start(), &[0, 1, 3, 4])?;
        judge(&attempt, twins, &ended).map(Some)
    };
    if let Some(judged) = run().transpose() {
        tell(&what, judged);
    }
}

pub fn while_it_runs(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let (attempt, twins, file) = attempt(world, at);
    let number = attempt.any_change(chance) * 2 / 3 + 1;
    let how = CHANGES[chance.below(5) as usize];
    let child = attempt.with(Fault::Stop, number, 0).start();
    if stops(&child) {
        let modified = file.metadata().and_then(|metadata| metadata.modified()).expect("a time");
        change(&file, how, twins, modified, chance);
        send(&child, Signal::CONT);
    }
    let what = format!("{}: stopped at call {number}, {how:?}", attempt.name());
    let run = || {
        let ended = ends(child, &[0, 1, 3, 4])?;
        let outcome = judge(&attempt, twins, &ended)?;
        if outcome == Outcome::Refused {
            // The next run must not mix blocks of the old and the new source.
            let ended = ends(attempt.case.start(), &[0, 1, 3, 4])?;
            judge(&attempt, twins, &ended)?;
        }
        Ok(outcome)
    };
    tell(&what, run());
}

/// A byte of a database changes before it is copied. The copy has the right records, or it is refused; no byte of the old
/// database changes.
pub fn databases(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let mut attempt = Attempt::new(world.plan_of(DATABASE, 0), at.dir);
    let old = at.dir.join("old");
    copy(&attempt.case.snapshot.file, &old);
    attempt.case.snapshot = snapshot_of(old.clone(), 0);
    let all = files(&old);
    let file = &all[chance.below(all.len() as u64) as usize];
    let byte = chance.below(file.metadata().expect("there").len());
    let what = at.flip_bit(file, byte, chance);
    let content = || all.iter().map(|file| std::fs::read(file).expect("read")).collect::<Vec<_>>();
    let before = content();
    let judge = || {
        let ended = ends(attempt.case.start(), &[0, 1, 2, 3, 4])?;
        if content() != before || files(&old) != all {
            return fail(Harm::Wrong, "the old database has changed");
        }
        if ended.code != Some(0) {
            return refused(&attempt.case.db);
        }
        attempt.check_final().map(|()| Outcome::Unchanged)
    };
    tell(&what, judge());
}
