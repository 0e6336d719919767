//! Bytes that change in a finished database: `verify` finds them, or no command reads them; and no command hangs or dies.

use std::path::Path;
use std::process::Stdio;

use super::common::crash::{Chance, Ended, Way, copy};
use super::imports::{Attempt, DATABASE, World, files};
use super::judge::*;
use super::{Context, Tell};

fn bedload(words: &[&str], db: &Path, codes: &[i32]) -> Judged<Ended> {
    let mut command = super::common::run::bedload();
    command.arg(words[0]).arg("--db").arg(db).args(&words[1..]).args(["--json", "--progress", "off"]);
    if matches!(words[0], "verify" | "walk") {
        command.args(["--threads", "2"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ends(command.spawn().expect("it starts"), codes).map_err(|mut failure| {
        failure.text = format!("{words:?}: {}", failure.text);
        failure
    })
}

pub fn verify(db: &Path) -> Judged<bool> {
    Ok(bedload(&["verify"], db, &[0, 1, 3, 4])?.code == Some(0))
}

pub fn flips(world: &World, at: &Context, chance: &mut Chance, tell: Tell<'_>) {
    // The kinds that leave different databases: by each loader, added to, logs, and a copy.
    let kind = [1, 2, 6, 8, 10, 12, 13, DATABASE][at.index as usize % 8];
    let attempt = Attempt::new(world.plan_of(kind, at.index as usize / 8 % 3), at.dir);
    if let Err(failure) = attempt.finishes() {
        return tell(attempt.plan.kind.name, Err(failure));
    }
    let db = &attempt.case.db;
    let key = attempt.plan.any_key(chance);
    let get = |codes: &[i32]| {
        let mut words = vec!["get", "--as", "hex", &key];
        // A copy has several column families; `get` reads the largest.
        if attempt.plan.kind.way == Way::Copy {
            words.extend(["--column-family", "default"]);
        }
        bedload(&words, db, codes)
    };
    let right = match get(&[0]) {
        Ok(ended) => ended.json,
        Err(failure) => return tell(attempt.plan.kind.name, Err(failure)),
    };
    let kept = at.kept.join("kept");
    copy(db, &kept);
    for file in at.some(files(db), 8, chance) {
        for _ in 0..at.few(4, 1) {
            if !at.has_time() {
                break;
            }
            let len = file.metadata().map_or(1, |metadata| metadata.len()).max(1);
            let byte = if chance.below(3) == 0 { len - 1 - chance.below(len.min(2000)) } else { chance.below(len) };
            let what = format!("{}: {}", attempt.name(), at.flip_bit(&file, byte, chance));
            let judge = || {
                let valid = verify(db)?;
                let get = get(&[0, 1, 2, 3, 4])?;
                bedload(&["stat"], db, &[0, 1, 3, 4])?;
                bedload(&["walk"], db, &[0, 1, 2, 3, 4])?;
                if get.code == Some(0) && get.json != right {
                    return fail(Harm::Wrong, format!("get prints {} for {right}", get.json));
                }
                if !valid {
                    return Ok(Outcome::Found);
                }
                attempt.check_final()?;
                Ok(Outcome::Unchanged)
            };
            tell(&what, judge());
            std::fs::remove_dir_all(db).expect("removed");
            copy(&kept, db);
        }
    }
    let _ = std::fs::remove_dir_all(kept);
}
