//! Leaves one record of each key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use data_encoding::HEXLOWER;

use crate::error::{Error, InputKind, Result};
use crate::load::built::FamilyDone;
use crate::load::options::Duplicates;
use crate::load::sink::Sink;
use crate::sort::placed_key::Place;
use crate::source::StatedProblem;

/// Bytes of a key in a message.
const SHOWN: usize = 64;

/// Passes records, which come in the order of keys and places, to a sink.
pub(super) struct Distinct<'a, R> {
    duplicates: Duplicates,
    sources: &'a [PathBuf],
    sink: Sink<'a>,
    /// The last record, the length of its key, and its place.
    held: Option<(R, usize, Place)>,
    /// Duplicates by the number of their source.
    repeats: BTreeMap<u32, u64>,
}

impl<'a, R: AsRef<[u8]>> Distinct<'a, R> {
    pub fn new(duplicates: Duplicates, sources: &'a [PathBuf], sink: Sink<'a>) -> Self {
        Self { duplicates, sources, sink, held: None, repeats: BTreeMap::new() }
    }

    /// Takes the next record. Returns one that is done.
    pub fn put(&mut self, record: R, key_len: usize, place: Place) -> Result<Option<R>> {
        let Some((held, held_len, held_place)) = self.held.take() else {
            self.held = Some((record, key_len, place));
            return Ok(None);
        };
        if held.as_ref().get(..held_len) != record.as_ref().get(..key_len) {
            self.sink.put(held.as_ref(), held_len)?;
            self.held = Some((record, key_len, place));
            return Ok(Some(held));
        }
        let is_same = held.as_ref() == record.as_ref();
        let keeps_first = match self.duplicates {
            Duplicates::Same if is_same => true,
            Duplicates::Same | Duplicates::Error => {
                let key = record.as_ref().get(..key_len).unwrap_or_default();
                return Err(self.describe(key, is_same, held_place, place));
            }
            Duplicates::First => true,
            Duplicates::Last => false,
        };
        let (kept, dropped) = if keeps_first {
            ((held, held_len, held_place), (record, place))
        } else {
            ((record, key_len, place), (held, held_place))
        };
        self.sink.repeated(dropped.0.as_ref(), key_len);
        *self.repeats.entry(u32::from(dropped.1.source)).or_default() += 1;
        self.held = Some(kept);
        Ok(Some(dropped.0))
    }

    pub fn finish(mut self) -> Result<FamilyDone> {
        if let Some((held, key_len, _)) = self.held.take() {
            self.sink.put(held.as_ref(), key_len)?;
        }
        let done = self.sink.finish()?;
        Ok(FamilyDone { repeats: self.repeats.into_iter().collect(), ..done })
    }

    /// The error for a key that two records have.
    fn describe(&self, key: &[u8], is_same: bool, first: Place, second: Place) -> Error {
        let name = |place: Place| self.sources.get(usize::from(place.source)).cloned().unwrap_or_default();
        let value = if is_same { "the same value" } else { "another value" };
        let reason = format!(
            "the key 0x{} has {value} at byte {} of {}",
            HEXLOWER.encode(key.get(..SHOWN).unwrap_or(key)),
            first.offset,
            name(first).display()
        );
        let same = if is_same { "same, " } else { "" };
        let hint = format!("pass --duplicates {same}first or last to keep one of the records");
        Error::bad_input(&name(second), second.offset, StatedProblem::new(InputKind::Damaged, reason, hint))
    }
}
