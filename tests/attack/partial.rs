//! Bytes that change in the work folder: between two runs, and while one runs.

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::common::crash::{Chance, copy, send, stops};
use super::imports::{Attempt, Fault, World, files};
use super::judge::*;
use super::{Context, Tell};

/// A place in a file: its ends are as likely as all the rest.
fn place(path: &Path, chance: &mut Chance) -> u64 {
    let len = path.metadata().map_or(0, |metadata| metadata.len()).max(1);
    match chance.below(4) {
        0 => chance.below(64.min(len)),
        1 => len - 1 - chance.below(64.min(len)),
        _ => chance.below(len),
    }
}

/// The files of the work. What a checkpoint links to is the old database itself.
fn files_of_work(partial: &Path) -> Vec<PathBuf> {
    let mut all = files(partial);
    let is_linked = |file: &Path| {
        let dirs = ["checkpoint", "checkpoint.new"].map(|dir| partial.join(dir));
        dirs.iter().any(|dir| file.starts_with(dir)) && file.extension().is_some_and(|it| it == "sst")
    };
    all.retain(|file| !is_linked(file));
    all
}

/// Dies somewhere, then a byte of each file of the work changes, one file after the other.
pub fn between_runs(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let attempt = Attempt::new(world.plan(at.index), at.dir);
    let (case, stage) = if chance.below(2) == 0 {
        let point = attempt.any_point(chance);
        (attempt.case.dying_at(point), point.to_owned())
    } else {
        let number = attempt.any_change(chance);
        (attempt.with(Fault::Die, number, 0), format!("call {number}"))
    };
    let what = format!("{}: killed at {stage}", attempt.name());
    match ends(case.start(), &[137, 0]) {
        Err(failure) => return tell(&what, Err(failure)),
        // A point that this run does not pass.
        Ok(ended) if ended.code == Some(0) => return,
        Ok(_) => {}
    }
    let kept = at.kept.join("kept");
    copy(at.dir, &kept);
    for file in at.some(files_of_work(&attempt.case.partial()), 6, chance) {
        if !at.has_time() {
            break;
        }
        let byte = place(&file, chance);
        let what = format!("{what}, then {}", at.flip_bit(&file, byte, chance));
        tell(&what, attempt.finishes_or_refuses());
        std::fs::remove_dir_all(at.dir).expect("removed");
        copy(&kept, at.dir);
    }
    let _ = std::fs::remove_dir_all(kept);
}

/// Stops a run somewhere, changes a byte of one file of the work, and continues the run.
pub fn while_it_runs(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let attempt = Attempt::new(world.plan(at.index), at.dir);
    let number = attempt.any_change(chance);
    let child = attempt.with(Fault::Stop, number, 0).start();
    let stopped = stops(&child);
    let all = if stopped { files_of_work(&attempt.case.partial()) } else { Vec::new() };
    let mut what = format!("{}: stopped at call {number}", attempt.name());
    let mut of_rocksdb = false;
    if !all.is_empty() {
        let file = &all[chance.below(all.len() as u64) as usize];
        let byte = place(file, chance);
        let flipped = at.flip_bit(file, byte, chance);
        of_rocksdb = flipped.contains(".sst ") || flipped.contains("partial/db/");
        what = format!("{what}, {flipped}");
    }
    if stopped {
        send(&child, Signal::CONT);
    }
    let judge = || {
        // RocksDB may find the damage when it compacts the database that is added to.
        let codes = if attempt.plan.kind.into_existing { &[0, 1, 3, 4][..] } else { &[0, 1, 4] };
        let ended = ends(child, codes)?;
        if ended.code == Some(0) {
            return match attempt.has_finished(&ended) {
                Ok(()) => Ok(Outcome::Resumed),
                // A disk that damages a finished file of RocksDB; its checksums tell.
                Err(failure) if of_rocksdb => match super::finished::verify(&attempt.case.db)? {
                    true => Err(failure),
                    false => Ok(Outcome::Found),
                },
                Err(failure) => Err(failure),
            };
        }
        attempt.check_between_runs()?;
        attempt.finishes_or_refuses()?;
        Ok(Outcome::Refused)
    };
    let outcome = judge();
    if !all.is_empty() || outcome.is_err() {
        tell(&what, outcome);
    }
}
