//! Ways to rebuild a database.

use std::process::Stdio;

use rust_rocksdb::{DB, FlushOptions, IteratorMode, ReadOptions, SstFileWriter, WriteBatch, WriteOptions};

use crate::{BATCH, Outcome, Places, Records, compact_all, compare, copy, import, options, timed};

/// Bytes that a scan reads ahead.
const AHEAD: usize = 2 << 20;

pub fn measure(places: &Places, rounds: u64, name: &str, records: impl Fn() -> Records) -> Outcome<()> {
    if !places.old.exists() {
        make(places, records())?;
    }
    let of = |more: &'static [&'static str]| move |places: &Places| import(places, &places.old, more, Stdio::null());
    compare(
        places,
        rounds,
        name,
        &[
            ("`cp -r` and sync", &copy),
            ("`bedload import`", &of(&[])),
            ("`bedload import --memory 256MiB`", &of(&["--memory", "256MiB"])),
            ("CompactRange, two threads", &|places| compact(places, 2)),
            ("CompactRange, one thread (RocksDB's default)", &|places| compact(places, 1)),
            ("iterator and WriteBatch, one thread", &batches),
            ("iterators and SstFileWriter, two threads", &tables),
        ],
    )
}

fn make(places: &Places, records: Records) -> Outcome<()> {
    let db = DB::open(&options(), &places.old)?;
    let mut writing = WriteOptions::default();
    writing.disable_wal(true);
    let mut batch = WriteBatch::default();
    records.each(|key, value| {
        batch.put(key, value);
        if batch.size_in_bytes() > BATCH {
            db.write_opt(&std::mem::take(&mut batch), &writing)?;
        }
        Ok(())
    })?;
    db.write_opt(&batch, &writing)?;
    db.flush()?;
    Ok(())
}

/// Compacts a copy, which is made before the clock starts.
fn compact(places: &Places, subcompactions: u32) -> Outcome<f64> {
    copy(places)?;
    timed(places, || {
        let mut own = options();
        own.set_max_subcompactions(subcompactions);
        compact_all(&DB::open(&own, &places.work)?);
        Ok(())
    })
}

fn scan() -> ReadOptions {
    let mut reading = ReadOptions::default();
    reading.set_readahead_size(AHEAD);
    reading.fill_cache(false);
    reading
}

fn batches(places: &Places) -> Outcome<f64> {
    timed(places, || {
        let old = DB::open_for_read_only(&options(), &places.old, false)?;
        let new = DB::open(&options(), &places.work)?;
        let mut writing = WriteOptions::default();
        writing.disable_wal(true);
        let mut batch = WriteBatch::default();
        for record in old.iterator_opt(IteratorMode::Start, scan()) {
            let (key, value) = record?;
            batch.put(key, value);
            if batch.size_in_bytes() > BATCH {
                new.write_opt(&std::mem::take(&mut batch), &writing)?;
            }
        }
        new.write_opt(&batch, &writing)?;
        let mut flushing = FlushOptions::default();
        flushing.set_wait(true);
        new.flush_opt(&flushing)?;
        Ok(())
    })
}

/// The least that a copy does with RocksDB's iterators and builders: nothing is checked, and no database is made.
fn tables(places: &Places) -> Outcome<f64> {
    timed(places, || {
        let old = DB::open_for_read_only(&options(), &places.old, false)?;
        std::fs::create_dir(&places.work)?;
        let write_half = |from: u8, to: Option<u8>| -> Result<(), rust_rocksdb::Error> {
            let (options, mut reading) = (options(), scan());
            to.into_iter().for_each(|to| reading.set_iterate_upper_bound([to]));
            let mut writer = SstFileWriter::create(&options);
            writer.open(places.work.join(format!("{from}.sst")))?;
            let mut records = old.raw_iterator_opt(reading);
            records.seek([from]);
            while let Some((key, value)) = records.item() {
                writer.put(key, value)?;
                records.next();
            }
            records.status()?;
            writer.finish()
        };
        std::thread::scope(|threads| {
            let halves = [(0, Some(0x80)), (0x80, None)].map(|(from, to)| threads.spawn(move || write_half(from, to)));
            halves.into_iter().try_for_each(|half| half.join().map_err(|_| "a thread failed")?.map_err(Into::into))
        })
    })
}
