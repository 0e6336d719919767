//! Sorting records of a fixed size beyond memory: sorted runs on disk are merged.
//!
//! A run is a file of records in their layout in memory. It has no name, so it ends with the process, which alone can read it.
//! The caller adds the directory of the runs to errors.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most sorted sequences merged at once.
pub(crate) const FAN_IN: usize = 32;

/// The most runs that wait to be merged: each is an open file.
pub(crate) const MAX_RUNS: usize = 4 * FAN_IN;

/// The least and the most that a run's reader buffers, in bytes.
const MIN_READ: usize = 16 << 10;
const MAX_READ: usize = 1 << 20;

const WRITE: usize = 256 << 10;

/// Plain data that sorts by its value.
pub(crate) trait Fixed: Copy + Ord + FromBytes + IntoBytes + Immutable {}
impl<T: Copy + Ord + FromBytes + IntoBytes + Immutable> Fixed for T {}

/// Takes records in any order. Records that exceed `memory` go into runs.
#[derive(Debug)]
pub(crate) struct Sorter<T> {
    held: Vec<T>,
    most_held: usize,
    memory: usize,
    dir: PathBuf,
    runs: Vec<Run<T>>,
}

impl<T: Fixed> Sorter<T> {
    /// Sorts within `memory` bytes, 16 KiB at least, and files in `dir`. Reserves room for up to `expected` records.
    pub fn new(dir: impl Into<PathBuf>, memory: usize, expected: usize) -> Self {
        let memory = memory.max(MIN_READ);
        let most_held = memory / size_of::<T>();
        // Vectors grow by doubling, so this one is as large as it may become, which costs nothing until it is used.
        let held = Vec::with_capacity(expected.min(most_held));
        Self { held, most_held, memory, dir: dir.into(), runs: Vec::new() }
    }

    pub fn push(&mut self, record: T) -> io::Result<()> {
        if self.held.len() >= self.most_held {
            self.spill()?;
        }
        self.held.push(record);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.held.sort_unstable();
        self.runs.push(Run::write(&self.dir, self.held.drain(..).map(Ok))?);
        if self.runs.len() >= MAX_RUNS {
            // Merging the shortest runs bounds the number of times that a record is written.
            self.runs.sort_by_key(Run::len);
            self.merge_first(self.memory / 8)?;
        }
        Ok(())
    }

    fn merge_first(&mut self, memory: usize) -> io::Result<()> {
        let group: Vec<_> = self.runs.drain(..FAN_IN).collect();
        self.runs.push(Run::write(&self.dir, Records::new(&[], group.iter(), memory)?)?);
        Ok(())
    }

    /// All records in order, equal ones included.
    pub fn sorted(mut self) -> io::Result<Sorted<T>> {
        if self.runs.is_empty() {
            self.held.sort_unstable();
        } else {
            self.spill()?;
            self.held = Vec::new();
        }
        while self.runs.len() > FAN_IN {
            self.merge_first(self.memory)?;
        }
        Ok(Sorted(self))
    }
}

/// Records in order, in memory or in runs.
#[derive(Debug)]
pub(crate) struct Sorted<T>(Sorter<T>);

impl<T: Fixed> Sorted<T> {
    pub fn len(&self) -> u64 {
        self.0.held.len() as u64 + self.0.runs.iter().map(|run| run.len).sum::<u64>()
    }

    pub fn iter(&self) -> io::Result<Records<'_, T>> {
        Records::new(&self.0.held, self.0.runs.iter(), self.0.memory)
    }

    pub fn distinct(mut self) -> io::Result<Self> {
        self.0.held.dedup();
        if !self.0.runs.is_empty() {
            let mut last = None;
            let mut is_repeated = |record: &T| last.replace(*record) == Some(*record);
            let distinct = self.iter()?.filter(|record| !record.as_ref().is_ok_and(&mut is_repeated));
            self.0.runs = vec![Run::write(&self.0.dir, distinct)?];
        }
        Ok(self)
    }
}

/// The merge of sorted sequences.
pub(crate) struct Records<'a, T: Fixed>(Merge<Reader<'a, T>>);

impl<'a, T: Fixed> Records<'a, T> {
    /// Merges `held` and `runs`, which are read through buffers that share `memory` bytes and have 16 KiB at least.
    pub fn new(held: &'a [T], runs: impl ExactSizeIterator<Item = &'a Run<T>>, memory: usize) -> io::Result<Self> {
        let read = (memory / runs.len().max(1)).clamp(MIN_READ, MAX_READ) / size_of::<T>();
        let from_memory = Reader { buffer: Cow::Borrowed(held), next: 0, run: None };
        let from_runs = runs.map(|run| Reader { buffer: Cow::default(), next: 0, run: Some((run, 0, read)) });
        Merge::new(std::iter::once(from_memory).chain(from_runs).collect()).map(Self)
    }
}

impl<T: Fixed> Iterator for Records<'_, T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|found| found.map(|(record, _)| *record)).transpose()
    }
}

#[derive(Debug)]
pub(crate) struct Run<T> {
    file: File,
    len: u64,
    of: PhantomData<T>,
}

impl<T: Fixed> Run<T> {
    pub fn write(dir: &Path, sorted: impl Iterator<Item = io::Result<T>>) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(WRITE, tempfile::tempfile_in(dir)?);
        let mut len = 0;
        for record in sorted {
            out.write_all(record?.as_bytes())?;
            len += 1;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Self { file, len, of: PhantomData })
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads the records from the `at`-th on.
    pub fn read(&self, at: u64, into: &mut [T]) -> io::Result<()> {
        self.file.read_exact_at(into.as_mut_bytes(), at * size_of::<T>() as u64)
    }
}

struct Reader<'a, T: Fixed> {
    buffer: Cow<'a, [T]>,
    next: usize,
    /// The run that fills the buffer, the next record in it, and how many are read at once.
    run: Option<(&'a Run<T>, u64, usize)>,
}

impl<T: Fixed> Cursor for Reader<'_, T> {
    type Key = T;
    type Error = io::Error;

    fn advance(&mut self) -> io::Result<Option<T>> {
        if self.next == self.buffer.len()
            && let Some((run, at, most)) = &mut self.run
        {
            let len = (run.len - *at).min(*most as u64);
            let buffer = self.buffer.to_mut();
            buffer.resize(len as usize, T::new_zeroed());
            run.read(*at, buffer)?;
            *at += len;
            self.next = 0;
        }
        let found = self.buffer.get(self.next).copied();
        self.next += usize::from(found.is_some());
        Ok(found)
    }
}

/// A position in a sorted sequence.
pub(crate) trait Cursor {
    type Key: Ord;
    type Error;

    /// Steps to the next element, and returns its key; `None` at the end.
    fn advance(&mut self) -> Result<Option<Self::Key>, Self::Error>;
}

/// Steps through several sorted sequences as if they were one.
pub(crate) struct Merge<C: Cursor> {
    cursors: Vec<C>,
    /// The current key of each cursor; once `begun`, the least is the one that was returned last.
    heads: BinaryHeap<Reverse<(C::Key, usize)>>,
    begun: bool,
}

impl<C: Cursor> Merge<C> {
    pub fn new(mut cursors: Vec<C>) -> Result<Self, C::Error> {
        let mut heads = BinaryHeap::with_capacity(cursors.len());
        for (index, cursor) in cursors.iter_mut().enumerate() {
            if let Some(key) = cursor.advance()? {
                heads.push(Reverse((key, index)));
            }
        }
        Ok(Self { cursors, heads, begun: false })
    }

    /// The next element's key, and the cursor that is there.
    pub fn next(&mut self) -> Result<Option<(&C::Key, &mut C)>, C::Error> {
        if std::mem::replace(&mut self.begun, true)
            && let Some(mut head) = self.heads.peek_mut()
        {
            match self.cursors[head.0.1].advance()? {
                Some(key) => head.0.0 = key,
                None => drop(PeekMut::pop(head)),
            }
        }
        Ok(self.heads.peek().map(|Reverse((key, index))| (key, &mut self.cursors[*index])))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all<T: Fixed>(sorted: &Sorted<T>) -> Vec<T> {
        sorted.iter().expect("runs").collect::<io::Result<_>>().expect("records")
    }

    fn sorted<T: Fixed>(records: &[T], most_held: usize) -> Sorted<T> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut sorter = Sorter { most_held, ..Sorter::new(dir.path(), 0, records.len()) };
        records.iter().for_each(|record| sorter.push(*record).expect("room"));
        let sorted = sorter.sorted().expect("room");
        assert_eq!(dir.path().read_dir().expect("a directory").count(), 0, "files have no names");
        assert!(sorted.0.runs.len() <= FAN_IN && sorted.0.runs.is_empty() == (records.len() <= most_held));
        sorted
    }

    fn check<T: Fixed + std::fmt::Debug>(mut records: Vec<T>, most_held: usize) -> Result<(), TestCaseError> {
        let found = sorted(&records, most_held);
        records.sort();
        prop_assert_eq!(found.len(), records.len() as u64);
        prop_assert_eq!(&all(&found), &records);
        prop_assert_eq!(all(&found), records, "the same a second time");
        Ok(())
    }

    proptest! {
        #[test]
        fn records_match_a_sorted_vector(
            records in prop::collection::vec(any::<[u8; 28]>(), 0..300),
            few in prop::collection::vec([0u64..4, 0u64..4], 0..300),
            most_held in 1usize..400,
        ) {
            check(records, most_held)?;
            check(few, most_held)?;
        }

        #[test]
        fn distinct_records_come_once(records in prop::collection::vec(0u128..50, 0..200), most_held in 1usize..300) {
            let dir = tempfile::tempdir().expect("a directory");
            let mut sorter = Sorter { most_held, ..Sorter::new(dir.path(), 0, 0) };
            records.iter().for_each(|record| sorter.push(*record).expect("room"));
            let found = sorter.sorted().and_then(Sorted::distinct).expect("room");
            let expected: Vec<u128> = std::collections::BTreeSet::from_iter(records).into_iter().collect();
            prop_assert_eq!(found.len(), expected.len() as u64);
            prop_assert_eq!(all(&found), expected);
        }
    }

    #[test]
    fn many_runs_merge_in_rounds() {
        // 70 runs of 80 KB each are more than two rounds take, and more than a buffer.
        let records: Vec<u64> = (0..700_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let found = sorted(&records, 10_000);
        assert!(found.0.runs.len() > 1);
        let mut expected = records;
        expected.sort_unstable();
        assert!(all(&found) == expected, "not the records in order");
    }
}
