//! Collects problems: all are counted, the first ten by key are kept, independent of the order of threads.

use std::collections::HashSet;
use std::path::Path;

use parking_lot::Mutex;

use crate::read::keys::key_text;
use crate::report::{ProblemKind, Problems, VerifyProblem};
use crate::rocks::DataFile;
use crate::sort::key::KeyLayout;

const LISTED: usize = 10;

pub(super) struct Collector<'a> {
    layout: KeyLayout,
    files: &'a [DataFile],
    found: Mutex<CollectedProblems>,
}

#[derive(Default)]
struct CollectedProblems {
    problems: Problems,
    /// Keys of `problems.first`, in the same order.
    keys: Vec<(bool, Vec<u8>, ProblemKind)>,
    /// RocksDB's messages about unreadable blocks: all workers that read a block get the same message.
    unreadable: HashSet<String>,
}

impl<'a> Collector<'a> {
    pub fn new(layout: KeyLayout, files: &'a [DataFile]) -> Self {
        Self { layout, files, found: Mutex::default() }
    }

    /// Adds a problem of the database or a file.
    pub fn add(&self, kind: ProblemKind, file: Option<&Path>, message: String) {
        self.insert((false, Vec::new(), kind), || VerifyProblem {
            kind,
            key: None,
            file: file.map(|file| file.display().to_string()),
            message,
        });
    }

    /// Adds a problem of a record of `family`.
    pub fn add_key(&self, kind: ProblemKind, family: &str, key: &[u8], message: impl FnOnce() -> String) {
        self.insert((true, key.to_vec(), kind), || VerifyProblem {
            kind,
            key: Some(key_text(self.layout, key)),
            file: self.file_of(family, key),
            message: message(),
        });
    }

    /// Adds, once, an unreadable block after `key`; `words` is RocksDB's message, which names the file.
    pub fn add_unreadable(&self, family: &str, key: &[u8], words: String) {
        if !self.found.lock().unreadable.insert(words.clone()) {
            return;
        }
        let named = words.split_whitespace().find(|word| word.contains(".sst")).map(|word| {
            word.trim_end_matches(|end: char| !end.is_ascii_alphanumeric()).trim_start_matches('"').to_owned()
        });
        let kind = ProblemKind::Checksum;
        self.insert((true, key.to_vec(), kind), || VerifyProblem {
            kind,
            key: (!key.is_empty()).then(|| key_text(self.layout, key)),
            file: named.or_else(|| self.file_of(family, key)),
            message: match key {
                [] => format!("the records at the start of the range cannot be read: {words}"),
                _ => format!("the records after this key cannot be read: {words}"),
            },
        });
    }

    pub fn kinds(&self) -> Vec<ProblemKind> {
        self.found.lock().problems.kinds.keys().copied().collect()
    }

    pub fn take(self) -> Problems {
        self.found.into_inner().problems
    }

    /// Builds the problem only if it is one of the first.
    fn insert(&self, order: (bool, Vec<u8>, ProblemKind), compose: impl FnOnce() -> VerifyProblem) {
        let mut found = self.found.lock();
        found.problems.total += 1;
        *found.problems.kinds.entry(order.2).or_default() += 1;
        let place = found.keys.partition_point(|known| known <= &order);
        if place < LISTED {
            found.keys.insert(place, order);
            found.problems.first.insert(place, compose());
            found.keys.truncate(LISTED);
            found.problems.first.truncate(LISTED);
        }
    }

    /// Returns the newest file that contains a key.
    fn file_of(&self, family: &str, key: &[u8]) -> Option<String> {
        let holds = |file: &&DataFile| {
            file.family == family && file.smallest.as_slice() <= key && key <= file.largest.as_slice()
        };
        self.files.iter().filter(holds).min_by_key(|file| file.level).map(|file| file.path.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_counted_and_sorted() {
        let collector = Collector::new(KeyLayout::Digest, &[]);
        for number in (0..100u8).rev() {
            collector.add_key(ProblemKind::Hash, "default", &[number], || format!("problem {number}"));
        }
        collector.add(ProblemKind::Count, None, "too few".into());
        let problems = collector.take();
        assert_eq!(problems.total, 101);
        assert_eq!(problems.kinds.into_iter().collect::<Vec<_>>(), [(ProblemKind::Count, 1), (ProblemKind::Hash, 100)]);
        let listed: Vec<_> = problems.first.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(listed.len(), LISTED);
        assert_eq!(listed[..3], ["too few", "problem 0", "problem 1"]);
    }

    #[test]
    fn unreadable_block_names_its_file() {
        let collector = Collector::new(KeyLayout::Digest, &[]);
        let words = "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in /db/000012.sst offset 0 size 9";
        collector.add_unreadable("default", &[1], words.into());
        collector.add_unreadable("default", &[2], words.into());
        let problems = collector.take();
        assert_eq!(problems.total, 1, "two ranges came upon the same block");
        assert!(problems.first[0].message.starts_with("the records after this key cannot be read: "));
        assert_eq!(problems.first[0].file.as_deref(), Some("/db/000012.sst"));

        let collector = Collector::new(KeyLayout::Digest, &[]);
        collector.add_unreadable("default", &[], words.into());
        let problem = &collector.take().first[0];
        assert_eq!(problem.key, None);
        assert!(problem.message.starts_with("the records at the start of the range cannot be read: "), "{problem:?}");
    }
}
