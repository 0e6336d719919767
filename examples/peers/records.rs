//! Ways to make a database of a stream of records.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Stdio;

use crc_fast::{CrcAlgorithm, Digest};
use rust_rocksdb::{DB, Options, SstFileWriter, WriteBatch, WriteOptions};

use crate::{BATCH, Outcome, Places, Records, compact_all, compare, copy, import, options, timed};

/// Bytes of the header of a stream of one column family `default`, and of a file that is written.
const HEADER: u64 = 31;
const FILE: u64 = 256 << 20;

pub fn measure(places: &Places, rounds: u64, name: &str, records: impl Fn() -> Records) -> Outcome<()> {
    let sorted = Places {
        old: places.old.with_extension("sorted.kv"),
        work: places.work.clone(),
        bedload: places.bedload.clone(),
    };
    if !places.old.exists() {
        let mut writer = Stream::create(&places.old, false)?;
        records().each(|key, value| writer.put(key, value))?;
        writer.finish()?;
    }
    if !sorted.old.exists() {
        let mut all = Vec::new();
        records().each(|key, value| {
            all.push((*key, value.to_vec()));
            Ok(())
        })?;
        all.sort_unstable();
        let mut writer = Stream::create(&sorted.old, true)?;
        all.iter().try_for_each(|(key, value)| writer.put(key, value))?;
        writer.finish()?;
    }
    let of = |more: &'static [&'static str]| move |places: &Places| import(places, &places.old, more, Stdio::null());
    let piped = |more: &'static [&'static str]| {
        move |places: &Places| import(places, Path::new("-"), more, File::open(&places.old)?.into())
    };
    let small: &[&str] = &["--memory", "256MiB"];
    compare(
        places,
        rounds,
        name,
        &[
            ("`cp` and sync", &copy),
            ("`bedload import` of a file", &of(&[])),
            ("`bedload import -`", &piped(&[])),
            ("`bedload import --memory 256MiB` of a file", &of(small)),
            ("`bedload import --memory 256MiB -`", &piped(small)),
            ("`bedload import` of sorted records", &|_| import(&sorted, &sorted.old, &[], Stdio::null())),
            ("SstFileWriter alone, sorted records, two threads", &|_| write_files(&sorted)),
            ("WriteBatch without WAL and compaction, then CompactRange on two threads", &|places| load(places, true)),
            ("WriteBatch with RocksDB's defaults", &|places| load(places, false)),
        ],
    )
}

/// Writes a `kv` stream.
struct Stream {
    out: BufWriter<File>,
    crc: Digest,
    count: u64,
}

impl Stream {
    fn create(path: &Path, is_sorted: bool) -> Outcome<Self> {
        let out = BufWriter::with_capacity(BATCH, File::create(path)?);
        let mut stream = Self { out, crc: Digest::new(CrcAlgorithm::Crc32IsoHdlc), count: 0 };
        stream.write(b"BEDLOADK")?;
        [1, u32::from(is_sorted), 1].into_iter().try_for_each(|field| stream.write(&field.to_le_bytes()))?;
        stream.part(b"default")?;
        Ok(stream)
    }

    fn write(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.crc.update(bytes);
        Ok(self.out.write_all(bytes)?)
    }

    fn part(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.write(&(bytes.len() as u32).to_le_bytes())?;
        self.write(bytes)
    }

    fn put(&mut self, key: &[u8; 32], value: &[u8]) -> Outcome<()> {
        self.count += 1;
        self.part(key)?;
        self.part(value)
    }

    fn finish(mut self) -> Outcome<()> {
        let crc = self.crc.finalize() as u32;
        self.out.write_all(&[&[0xFF; 4][..], &self.count.to_le_bytes(), &crc.to_le_bytes()].concat())?;
        Ok(self.out.flush()?)
    }
}

/// Writes SST files of sorted records of one size, half of them in each thread: nothing is checked, and no database is made.
fn write_files(places: &Places) -> Outcome<f64> {
    let record = |stream: &mut BufReader<File>, key: &mut Vec<u8>, value: &mut Vec<u8>| -> Outcome<bool> {
        Ok(read_part(stream, key)? && read_part(stream, value)?)
    };
    let half = |number: u64| -> Outcome<()> {
        let mut stream = BufReader::with_capacity(BATCH, File::open(&places.old)?);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        stream.seek(SeekFrom::Start(HEADER))?;
        record(&mut stream, &mut key, &mut value)?;
        let len = (8 + key.len() + value.len()) as u64;
        let count = (places.old.metadata()?.len() - HEADER) / len;
        let (from, to) = (number * count / 2, (number + 1) * count / 2);
        stream.seek(SeekFrom::Start(HEADER + from * len))?;
        let own = options();
        let mut writer = None;
        for at in from..to {
            record(&mut stream, &mut key, &mut value)?;
            if writer.as_ref().is_some_and(|writer: &SstFileWriter<'_>| writer.file_size() > FILE) {
                writer.take().map_or(Ok(()), |mut writer| writer.finish())?;
            }
            if writer.is_none() {
                let mut new = SstFileWriter::create(&own);
                new.open(places.work.join(format!("{at}.sst")))?;
                writer = Some(new);
            }
            writer.as_mut().map_or(Ok(()), |writer| writer.put(&key, &value))?;
        }
        Ok(writer.map_or(Ok(()), |mut writer| writer.finish())?)
    };
    timed(places, || {
        std::fs::create_dir(&places.work)?;
        let half = &|number| half(number).map_err(|error| error.to_string());
        let [first, second] = std::thread::scope(|scope| {
            [0, 1].map(|number| scope.spawn(move || half(number))).map(|half| half.join().expect("no panic"))
        });
        Ok(first.and(second)?)
    })
}

/// Writes all records of the stream in batches.
fn load(places: &Places, is_best: bool) -> Outcome<f64> {
    timed(places, || {
        let mut own = if is_best { options() } else { Options::default() };
        own.create_if_missing(true);
        let mut writing = WriteOptions::default();
        if is_best {
            own.prepare_for_bulk_load();
            own.set_write_buffer_size(256 << 20);
            own.set_max_write_buffer_number(4);
            own.set_max_subcompactions(2);
            writing.disable_wal(true);
        }
        let db = DB::open(&own, &places.work)?;
        let mut stream = BufReader::with_capacity(BATCH, File::open(&places.old)?);
        stream.seek(SeekFrom::Start(HEADER))?;
        let (mut batch, mut key, mut value) = (WriteBatch::default(), Vec::new(), Vec::new());
        while read_part(&mut stream, &mut key)? {
            read_part(&mut stream, &mut value)?;
            batch.put(&key, &value);
            if batch.size_in_bytes() > BATCH {
                db.write_opt(&std::mem::take(&mut batch), &writing)?;
            }
        }
        db.write_opt(&batch, &writing)?;
        db.flush()?;
        if is_best {
            compact_all(&db);
        }
        Ok(())
    })
}

/// Reads a length and as many bytes. False at the trailer.
fn read_part(stream: &mut impl Read, to: &mut Vec<u8>) -> Outcome<bool> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len == u32::MAX {
        return Ok(false);
    }
    to.resize(len as usize, 0);
    stream.read_exact(to)?;
    Ok(true)
}
