//! Attacks at the N-th call that changes a file: the process dies there, or the disk fails.

use rustix::io::Errno;

use super::common::crash::Chance;
use super::imports::{Attempt, Fault, World};
use super::judge::*;
use super::{Context, Tell};

/// Dies, dies again while it resumes, and finishes.
pub fn kills(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let attempt = Attempt::new(world.plan(at.index), at.dir);
    let fault = if chance.below(4) == 0 { Fault::DieHalfway } else { Fault::Die };
    let first = attempt.any_change(chance);
    let again = chance.below(3).min(1 + chance.below(2));
    let later: Vec<u64> = (0..again).map(|_| attempt.any_change(chance) / (1 + chance.below(3)) + 1).collect();
    let what = format!("{}: killed at calls {first} {later:?}", attempt.name());
    let judge = || {
        for number in [first].iter().chain(&later) {
            let ended = ends(attempt.with(fault, *number, 0).start(), &[137, 0, 4])?;
            match ended.code {
                Some(0) => return attempt.has_finished(&ended),
                Some(4) => break,
                _ => attempt.check_between_runs()?,
            }
        }
        attempt.finishes()
    };
    tell(&what, judge().map(|()| Outcome::Resumed));
}

/// One call fails, or all from there on; then the disk is well.
pub fn disks(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    let attempt = Attempt::new(world.plan(at.index), at.dir);
    let errno = if chance.below(2) == 0 { Errno::IO } else { Errno::NOSPC };
    let times = chance.below(2);
    let number = attempt.any_change(chance);
    let from_on = if times == 0 { "from" } else { "once at" };
    let what = format!("{}: {errno:?} {from_on} call {number}", attempt.name());
    let judge = || {
        let ended = ends(attempt.with(Fault::Errno(errno), number, times).start(), &[0, 1, 4])?;
        if ended.code == Some(0) {
            // The failed call was not needed.
            attempt.check_final()?;
            return Ok(Outcome::Resumed);
        }
        for word in ["error: ", "hint: "] {
            if !ended.stderr.contains(word) {
                return fail(Harm::WrongReport, format!("no {word}in {}", ended.stderr));
            }
        }
        attempt.check_between_runs()?;
        attempt.finishes()?;
        Ok(Outcome::Refused)
    };
    tell(&what, judge());
}
