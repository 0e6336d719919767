//! Compresses batches on all threads and writes them in order on one.
//!
//! ```text
//! loader --batch, reply--> packers (threads)         at most a few batches are under way
//!        --reply-------------------------> writer    waits for each in turn, notes it in the index
//!        <--------------------------------- empty batches
//! ```

use std::io::{self, Write};
use std::path::Path;

use crossbeam_channel::{Receiver, Sender, bounded};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::batch::{ExportSum, SectionBatch, SectionLoader};
use super::options::{ExportFormat, ExportOptions, interrupted};
use crate::error::{Error, Result};
use crate::parallel;
use crate::progress::Progress;
use crate::source::forest::{Index, LEVEL, Packer};

pub(super) struct WriterPool<'a> {
    pub format: ExportFormat,
    pub options: &'a ExportOptions,
    pub path: &'a Path,
    pub progress: &'a Progress<'a>,
}

type Packing = (SectionBatch, Sender<io::Result<SectionBatch>>);

impl WriterPool<'_> {
    /// Writes the batches of `load` to `out`, which already has `position` bytes. Returns the result of `load`, the sum of its
    /// records, and the length of the file.
    pub fn run<W: Write + Send, R>(
        &self,
        position: u64,
        out: &mut W,
        load: impl FnOnce(&mut SectionLoader<'_>) -> Result<R>,
    ) -> Result<(R, ExportSum, u64)> {
        let (resources, index_memory) = (&self.options.resources, self.options.memory()? / 4);
        let threads = resources.thread_count();
        let (to_pack, packing) = bounded::<Packing>(threads);
        let (to_write, writing) = bounded::<Receiver<io::Result<SectionBatch>>>(2 * threads);
        let (back, spare) = bounded::<SectionBatch>(4 * threads);
        let index = || Index::within(index_memory, resources.scratch_parent());
        let index = (self.format == ExportFormat::ForestCarZst).then(index);
        let sink = &mut *out;
        let (loaded, written) = std::thread::scope(|scope| {
            for _ in 0..threads {
                let packing = packing.clone();
                parallel::start(scope, move || pack_all(self.format, &packing))?;
            }
            drop(packing);
            let writer = parallel::start(scope, move || write_all(sink, position, index, &writing, &back))?;
            let send = move |batch: SectionBatch| {
                let (reply, packed) = bounded(1);
                // If the writer has ended, its own error is returned.
                to_pack.send((batch, reply)).map_err(|_| interrupted())?;
                to_write.send(packed).map_err(|_| interrupted())?;
                Ok(spare.try_recv().unwrap_or_default())
            };
            let mut loader = SectionLoader::new(self.format, self.progress, send);
            let loaded = load(&mut loader).and_then(|loaded| Ok((loaded, loader.finish()?)));
            let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok::<_, Error>((loaded, written))
        })?;
        let failed = || Error::io("write", self.path);
        let (mut position, index) = written.map_err(failed())?;
        let (loaded, sum) = loaded?;
        if let Some(index) = index {
            position += index.write(out, position).map_err(failed())?;
        }
        out.flush().map_err(failed())?;
        Ok((loaded, sum, position))
    }
}

fn pack_all(format: ExportFormat, packing: &Receiver<Packing>) {
    let mut pack = packer(format);
    for (mut batch, reply) in packing {
        let packed = match &mut pack {
            Ok(pack) => pack(&mut batch).map(|()| batch),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        // The writer is gone after a failure, which it reports itself.
        let _ = reply.send(packed);
    }
}

type Pack = Box<dyn FnMut(&mut SectionBatch) -> io::Result<()>>;

fn packer(format: ExportFormat) -> io::Result<Pack> {
    Ok(match format {
        ExportFormat::Car | ExportFormat::Log => Box::new(|_| Ok(())),
        ExportFormat::CarZst | ExportFormat::LogZst => {
            let mut zstd = Compressor::new(LEVEL)?;
            zstd.set_parameter(CParameter::ChecksumFlag(true))?;
            Box::new(move |batch| {
                batch.packed.resize(zstd::zstd_safe::compress_bound(batch.bytes.len()), 0);
                let len = zstd.compress_to_buffer(&batch.bytes, batch.packed.as_mut_slice())?;
                batch.packed.truncate(len);
                Ok(())
            })
        }
        ExportFormat::ForestCarZst => {
            let mut packer = Packer::new()?;
            Box::new(move |batch| {
                packer.pack(&batch.bytes, batch.ends.iter().copied(), &mut batch.packed, &mut batch.frames)
            })
        }
    })
}

/// Writes batches to `out`, which has `position` bytes, until all senders are gone. Returns its length and the index.
fn write_all(
    out: &mut impl Write,
    mut position: u64,
    mut index: Option<Index>,
    writing: &Receiver<Receiver<io::Result<SectionBatch>>>,
    back: &Sender<SectionBatch>,
) -> io::Result<(u64, Option<Index>)> {
    for packed in writing {
        // A packer drops its reply only when it panics; the scope propagates that.
        let Ok(batch) = packed.recv() else { break };
        let mut batch = batch?;
        if let Some(index) = &mut index {
            batch.add_to(index, position)?;
        }
        let bytes = if batch.packed.is_empty() { &batch.bytes } else { &batch.packed };
        out.write_all(bytes)?;
        position += bytes.len() as u64;
        batch.clear();
        let _ = back.try_send(batch);
    }
    Ok((position, index))
}
