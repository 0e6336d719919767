//! Finds damage in blocks of an SST file that no scan reads, such as filters. RocksDB reads them when it opens the
//! file. If a filter does not match its checksum, RocksDB works without it and counts the mismatch.

use std::path::Path;

use rust_rocksdb::statistics::Ticker;
use rust_rocksdb::{ColumnFamilyDescriptor, Options, Range};

use super::merge_operator::{is_foreign, refuse_operands};
use super::{DataFile, Group, OptionMap, OptionsFile, Reader, ReaderOptions, options};
use crate::error::{Error, Result};

/// The options of a column family with a known filter policy: an OPTIONS file may name a policy that RocksDB does not
/// know, and its own policies read each other's filters. `None` if RocksDB refuses the options, or for tables without
/// such filters.
fn with_filters(file: Option<&OptionsFile>, family: &str) -> Option<Options> {
    let mut map = OptionMap::default();
    if let Some(file) = file {
        let family = file.family(family)?;
        if family.table_format.as_deref() != Some("BlockBasedTable") {
            return None;
        }
        map = file.options(family);
    }
    map.set(Group::Table, "filter_policy", "bloomfilter:10:false");
    // RocksDB must read the filters of all levels when it opens a file.
    map.set(Group::Table, "cache_index_and_filter_blocks", "false");
    map.set(Group::Cf, "optimize_filters_for_hits", "false");
    let mut options = options::build(&map).ok()?;
    if file.is_some_and(|file| is_foreign(file, family)) {
        refuse_operands(&mut options);
    }
    Some(options)
}

/// A database whose files are opened one after the other, by one thread. RocksDB's counts during an opening belong to
/// that file.
pub(crate) struct TableCheck {
    reader: Reader,
    options: Options,
    mismatch_at_open: bool,
}

impl TableCheck {
    pub fn open(path: &Path) -> Result<Self> {
        let options = ReaderOptions { lenient: true, ..ReaderOptions::scans() };
        let (reader, options) = Reader::open_with(path, &options, |options, families| {
            options.enable_statistics();
            let file = OptionsFile::latest(path).ok();
            let described = |family: ColumnFamilyDescriptor| match with_filters(file.as_ref(), family.name()) {
                Some(options) => ColumnFamilyDescriptor::new(family.name(), options),
                None => family,
            };
            families.into_iter().map(described).collect()
        })?;
        let mut check = Self { reader, options, mismatch_at_open: false };
        check.mismatch_at_open = check.mismatches() > 0;
        Ok(check)
    }

    /// Checks all `files` of the database at `path`, and fails at the first fault.
    pub fn check_all(path: &Path, files: &[DataFile]) -> Result<()> {
        let check = Self::open(path)?;
        if let Some((_, error)) = check.fault_at_open(files) {
            return Err(error);
        }
        let fault = check.faults(files).find_map(|(file, fault)| Some((file, fault?)));
        fault.map_or(Ok(()), |(file, message)| Err(Error::Rocks { action: "verify", path: file.path.clone(), message }))
    }

    /// A mismatch in one of the files that RocksDB opens with the database: the file and RocksDB's error. All files are
    /// read, if there was a mismatch.
    pub fn fault_at_open<'a>(&self, files: &'a [DataFile]) -> Option<(Option<&'a Path>, Error)> {
        let error = self.mismatch_at_open.then(|| self.reader.verify_checksum().err()).flatten()?;
        let words = error.to_string();
        let named = files.iter().map(|file| file.path.as_path()).find(|path| words.contains(&*path.to_string_lossy()));
        Some((named, error))
    }

    /// Checks `files`, and returns each with its fault. Leaves out those that RocksDB has opened for the one before: files of level 0
    /// may all overlap.
    pub fn faults<'a>(&'a self, files: &'a [DataFile]) -> impl Iterator<Item = (&'a DataFile, Option<String>)> {
        let mut ordered: Vec<&DataFile> = files.iter().collect();
        ordered.sort_by(|a, b| (&a.family, &a.largest).cmp(&(&b.family, &b.largest)));
        let mut sound: Option<&DataFile> = None;
        ordered.into_iter().filter_map(move |file| {
            let has_end_of = |other: &DataFile| file.smallest < other.largest && other.largest <= file.largest;
            if sound.is_some_and(|sound| sound.family == file.family && has_end_of(sound)) {
                return None;
            }
            let fault = self.fault(file, files);
            sound = fault.is_none().then_some(file);
            Some((file, fault))
        })
    }

    /// Opens `file`, one of `files`. Returns a message if a block other than its records does not match its checksum. A
    /// file that cannot be opened, or whose first record cannot be read, is left to the scan.
    fn fault(&self, file: &DataFile, files: &[DataFile]) -> Option<String> {
        let before = self.mismatches();
        let sized = self.reader.approximate_size(&file.family, Range::new(&file.smallest, &file.largest));
        let found = self.reader.has_key(&file.family, &file.smallest);
        if self.mismatches() == before || sized.is_err() || found.is_err() {
            return None;
        }
        // RocksDB opens the files of all levels that may have a key.
        let is_alone = !files.iter().any(|other| {
            (other.path != file.path && other.family == file.family)
                && (other.smallest <= file.largest && file.smallest <= other.largest)
        });
        let place = if is_alone { "" } else { ", or beside those of a file with the same keys," };
        Some(format!("a block beside its records{place} does not match its checksum; filters are such blocks"))
    }

    fn mismatches(&self) -> u64 {
        self.options.get_ticker_count(Ticker::BlockChecksumMismatchCount)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rust_rocksdb::{
        BlockBasedOptions, ChecksumType, DB, DBCompressionType, KeyEncodingType, PlainTableFactoryOptions,
    };

    use super::*;

    /// A database of two files with a filter each.
    fn database(dir: &Path, table: &mut BlockBasedOptions, for_hits: bool) {
        table.set_bloom_filter(10.0, false);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_optimize_filters_for_hits(for_hits);
        options.set_block_based_table_factory(table);
        let db = DB::open(&options, dir).expect("open");
        for file in 0..2u32 {
            for number in 0..2000u32 {
                db.put((file * 2000 + number).to_be_bytes(), [7; 100]).expect("put");
            }
            db.flush().expect("flush");
        }
        // Both go to the last level, as files of their own.
        if for_hits {
            db.compact_range(None::<&[u8]>, None::<&[u8]>);
        }
    }

    #[test]
    fn filter_flip_is_found_in_every_format() {
        let cases = [
            (5, ChecksumType::CRC32c, false, false),
            (5, ChecksumType::XXHash, false, false),
            (5, ChecksumType::XXHash64, false, false),
            (5, ChecksumType::XXH3, true, false),
            (6, ChecksumType::XXH3, false, true),
            (6, ChecksumType::CRC32c, true, true),
            (7, ChecksumType::XXH3, false, false),
        ];
        for (number, (version, kind, cached, for_hits)) in cases.into_iter().enumerate() {
            let case = format!("version {version}, case {number}, cached: {cached}, for hits: {for_hits}");
            let dir = tempfile::tempdir().expect("a directory");
            let mut table = BlockBasedOptions::default();
            table.set_format_version(version);
            table.set_checksum_type(kind);
            table.set_cache_index_and_filter_blocks(cached);
            database(dir.path(), &mut table, for_hits);
            let faults = || {
                let check = TableCheck::open(dir.path()).expect("open");
                let files = check.reader.files().expect("files");
                let at_open = check.fault_at_open(&files).map(|(file, _)| file.expect("a file is named"));
                let is_faulty = |file: &DataFile| at_open == Some(&*file.path) || check.fault(file, &files).is_some();
                let faults: Vec<bool> = files.iter().map(is_faulty).collect();
                (files.clone(), faults)
            };
            let (files, found) = faults();
            assert!(!found.contains(&true), "{case}");
            let damaged = &files[number % files.len()];
            let reader = Reader::open(dir.path(), &ReaderOptions::once()).expect("open");
            let totals = reader.totals("default").expect("totals");
            let (filter, index) = (totals.filter_bytes / files.len() as u64, totals.index_bytes / files.len() as u64);
            assert!(filter > 2000);
            // data | filter | index | properties and the rest, some 1,300 bytes
            let at = damaged.size - 1300 - index - filter / 2;
            let file = std::fs::File::options().read(true).write(true).open(&damaged.path).expect("open");
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("read");
            file.write_all_at(&[byte[0] ^ 4], at).expect("write");
            let (again, found) = faults();
            let expected: Vec<bool> = again.iter().map(|file| file.path == damaged.path).collect();
            assert_eq!(found, expected, "{case}");
            let reader = Reader::open(dir.path(), &ReaderOptions::once()).expect("open");
            let mut scan = reader.scan("default", None, None).expect("a scan");
            let mut records = 0;
            while scan.item().is_some() {
                records += 1;
                scan.next();
            }
            scan.status().expect("every record can be read");
            assert_eq!(records, 4000, "{case}: the damage is beside the records");
        }
    }

    /// The bug: for each file of level 0, all files that overlap with it were opened.
    #[test]
    fn overlapping_files_are_opened_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        options.set_target_file_size_base(64 << 10);
        let mut table = BlockBasedOptions::default();
        table.set_bloom_filter(10.0, false);
        options.set_block_based_table_factory(&table);
        let db = DB::open(&options, dir.path()).expect("open");
        for file in 0..40u32 {
            if file == 20 {
                // Files of the last level have the keys of those at level 0 as well.
                db.compact_range(None::<&[u8]>, None::<&[u8]>);
            }
            for number in 0..2000u32 {
                db.put((number * 40 + file).wrapping_mul(2_654_435_761).to_be_bytes(), [7; 10]).expect("put");
            }
            db.flush().expect("flush");
        }
        drop(db);
        let reader = Reader::open(dir.path(), &ReaderOptions::once()).expect("open");
        let (totals, files) = (reader.totals("default").expect("totals"), reader.files().expect("files"));
        let check = TableCheck::open(dir.path()).expect("open");
        let checked = check.faults(&files).map(|(_, fault)| assert_eq!(fault, None)).count();
        let below = files.iter().filter(|file| file.level > 0).count();
        assert!(files.len() == below + 20 && below > 3 && checked <= below + 8, "{checked} of {}", files.len());
        let bytes: u64 = files.iter().map(|file| file.size).sum();
        drop(check);
        for damaged in &files {
            let beside = (totals.index_bytes + totals.filter_bytes / 2) * damaged.size / bytes;
            let at = damaged.size - 1300 - beside;
            let file = std::fs::File::options().read(true).write(true).open(&damaged.path).expect("open");
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("read");
            file.write_all_at(&[byte[0] ^ 4], at).expect("write");
            let check = TableCheck::open(dir.path()).expect("open");
            let is_found = check.mismatch_at_open || check.faults(&files).any(|(_, fault)| fault.is_some());
            assert!(is_found, "{}", damaged.path.display());
            file.write_all_at(&byte, at).expect("restored");
        }
    }

    #[test]
    fn database_opens_with_its_own_options() {
        let plain = PlainTableFactoryOptions {
            user_key_length: 0,
            bloom_bits_per_key: 10,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            huge_page_tlb_size: 0,
            encoding_type: KeyEncodingType::Plain,
            full_scan_mode: false,
            store_index_in_file: false,
        };
        for (line, plain) in [
            ("comparator=rocksdb.ReverseBytewiseComparator", None),
            ("num_levels=40", None),
            ("prefix_extractor=rocksdb.FixedPrefix.3", Some(plain)),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let mut options = Options::default();
            options.create_if_missing(true);
            let mut options = options.get_options_from_string(line).expect("RocksDB knows it");
            let has_filters = plain.is_none();
            if let Some(plain) = plain {
                options.set_plain_table_factory(&plain);
            }
            let db = DB::open(&options, dir.path()).expect("open");
            db.put("abc1", "a value").expect("put");
            db.flush().expect("flush");
            drop(db);
            let check = TableCheck::open(dir.path()).expect(line);
            let files = check.reader.files().expect("files");
            let file = OptionsFile::latest(dir.path()).expect("a file");
            assert_eq!(with_filters(Some(&file), "default").is_some(), has_filters, "{line}");
            assert!(files.iter().all(|file| check.fault(file, &files).is_none()), "{line}");
            assert!(check.fault_at_open(&files).is_none(), "{line}");
        }
    }
}
