//! Leaves one record of each key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::error::{Error, InputKind, Result};
use crate::hash::ContentDigest;
use crate::load::built::FamilyDone;
use crate::load::options::Duplicates;
use crate::load::record_streams::show_key;
use crate::load::sink::Sink;
use crate::sort::placed_key::Place;
use crate::sort::record_set::RecordParts;
use crate::source::StatedProblem;

/// A record that is in memory or in a mapped file.
pub(super) trait HeldRecord {
    fn parts(&self) -> RecordParts<'_>;

    fn digest(&self) -> ContentDigest {
        ContentDigest::of_record(self.parts().0, self.parts().1)
    }
}

impl HeldRecord for RecordParts<'_> {
    fn parts(&self) -> RecordParts<'_> {
        *self
    }
}

/// A record whose value follows its key, and the length of the key.
impl HeldRecord for (Vec<u8>, usize) {
    fn parts(&self) -> RecordParts<'_> {
        self.0.split_at(self.1)
    }

    fn digest(&self) -> ContentDigest {
        ContentDigest::of_section(&self.0, self.1)
    }
}

/// Passes records, which come in the order of keys and places, to a sink.
pub(super) struct Distinct<'a, R> {
    duplicates: Duplicates,
    sources: &'a [PathBuf],
    sink: Sink<'a>,
    /// The last record and its place.
    held: Option<(R, Place)>,
    /// Duplicates by the number of their source.
    repeats: BTreeMap<u32, u64>,
}

impl<'a, R: HeldRecord> Distinct<'a, R> {
    pub fn new(duplicates: Duplicates, sources: &'a [PathBuf], sink: Sink<'a>) -> Self {
        Self { duplicates, sources, sink, held: None, repeats: BTreeMap::new() }
    }

    /// Takes the next record. Returns one that is done.
    pub fn put(&mut self, record: R, place: Place) -> Result<Option<R>> {
        let Some((held, held_place)) = self.held.take() else {
            self.held = Some((record, place));
            return Ok(None);
        };
        let (key, value) = record.parts();
        if held.parts().0 != key {
            self.sink.put_with_digest(held.parts(), || held.digest())?;
            self.held = Some((record, place));
            return Ok(Some(held));
        }
        let is_same = held.parts().1 == value;
        let keeps_first = match self.duplicates {
            Duplicates::Same if is_same => true,
            Duplicates::Same | Duplicates::Error => {
                return Err(self.describe(key, is_same, held_place, place));
            }
            Duplicates::First => true,
            Duplicates::Last => false,
        };
        let (held, record) = ((held, held_place), (record, place));
        let (kept, dropped) = if keeps_first { (held, record) } else { (record, held) };
        self.sink.repeated(dropped.0.digest());
        *self.repeats.entry(u32::from(dropped.1.source)).or_default() += 1;
        self.held = Some(kept);
        Ok(Some(dropped.0))
    }

    pub fn finish(mut self) -> Result<FamilyDone> {
        if let Some((held, _)) = self.held.take() {
            self.sink.put_with_digest(held.parts(), || held.digest())?;
        }
        let done = self.sink.finish()?;
        Ok(FamilyDone { repeats: self.repeats.into_iter().collect(), ..done })
    }

    /// The error for a key that two records have.
    fn describe(&self, key: &[u8], is_same: bool, first: Place, second: Place) -> Error {
        let name = |place: Place| self.sources.get(usize::from(place.source)).cloned().unwrap_or_default();
        let value = if is_same { "the same value" } else { "another value" };
        let reason =
            format!("the key 0x{} has {value} at byte {} of {}", show_key(key), first.offset, name(first).display());
        let same = if is_same { "same, " } else { "" };
        let hint = format!("import --duplicates {same}first or last keeps one of the records");
        Error::bad_input(&name(second), second.offset, StatedProblem::new(InputKind::Damaged, reason, hint))
    }
}
