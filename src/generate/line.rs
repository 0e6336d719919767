//! The assembly line of a snapshot.
//!
//! ```text
//! window N+1:  make (all threads) -> headers (in order) -> pack (all threads)
//! window N:                                                        write, at the same time
//! ```
//!
//! Memory: two windows of chunks, and the index of a `.forest.car.zst`.

use std::io::{self, Write};

use cid::Cid;
use rayon::prelude::*;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::cbor::{BLAKE2B_256, BlockName};
use super::chunk::{GeneratedChunk, Maker};
use super::pipeline;
use super::plan::ChunkPlan;
use super::spine::Spine;
use super::{Format, Spec, envelope};
use crate::progress::Progress;
use crate::source::forest::{Frame, Index, LEVEL, Packer, slot_hash};

/// The result of generating a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the CARv1 inside: the same as `bytes` where the format is `car`.
    pub car_bytes: u64,
    /// Sections of the CAR, repeated ones included.
    pub blocks: u64,
    /// Sections that repeat an earlier one.
    pub duplicates: u64,
    /// Bytes of all blocks without their CIDs, repeated ones included.
    pub payload_bytes: u64,
    /// The roots in the header, from which every block can be reached.
    #[serde(serialize_with = "as_text")]
    pub roots: Vec<Cid>,
}

fn as_text<S: serde::Serializer>(roots: &[Cid], to: S) -> std::result::Result<S::Ok, S::Error> {
    to.collect_seq(roots.iter().map(Cid::to_string))
}

#[derive(Default)]
struct PackedChunk {
    chunk: GeneratedChunk,
    state: BlockName,
    packed: Vec<u8>,
    frames: Vec<Frame>,
}

/// Writes everything after the prelude, which is `position` bytes long.
pub(super) fn run<W: Write + Send>(
    spec: &Spec,
    spine: &Spine,
    out: &mut W,
    position: u64,
    progress: &Progress<'_>,
) -> io::Result<Summary> {
    let maker = Maker::new(spec.seed);
    let car_bytes = envelope::car_header(&spine.blank_roots()).len() as u64;
    let mut made = Summary { bytes: position, car_bytes, ..Summary::default() };
    let mut index = Index::in_memory();
    let mut tip = Vec::new();
    pipeline::run(
        |first, width, pieces| {
            pieces.resize_with((spine.chunks - first).min(width as u64) as usize, PackedChunk::default);
            make(spec, spine, &maker, first, pieces);
            chain(spine, &maker, first, &mut tip, pieces);
            let chunks = pieces.iter().map(|piece| &piece.chunk);
            chunks.for_each(|chunk| progress.add(chunk.bytes.len() as u64, chunk.sections.len() as u64));
            pack(spec.format, pieces)
        },
        |pieces| emit(pieces, spec.format, &mut made, &mut index, out),
    )?;
    if spec.format == Format::ForestCarZst {
        made.bytes += index.write(out, made.bytes)?;
    }
    made.roots = tip.iter().map(BlockName::cid).collect();
    Ok(made)
}

fn make(spec: &Spec, spine: &Spine, maker: &Maker, first: u64, pieces: &mut [PackedChunk]) {
    pieces.par_iter_mut().enumerate().for_each(|(n, piece)| {
        let plan = ChunkPlan::new(spec, first + n as u64, |chunk| spine.budget(chunk));
        piece.state = maker.make(&plan, &mut piece.chunk);
    });
}

/// Adds the headers. `tip` has those of the chunk before, and of the last chunk at the end.
fn chain(spine: &Spine, maker: &Maker, first: u64, tip: &mut Vec<BlockName>, pieces: &mut [PackedChunk]) {
    for (piece, number) in pieces.iter_mut().zip(first..) {
        let headers = spine.headers(number, tip.first().copied(), piece.state);
        tip.clear();
        tip.extend(headers.iter().map(|header| maker.push(&mut piece.chunk, header)));
    }
}

fn pack(format: Format, pieces: &mut [PackedChunk]) -> io::Result<()> {
    match format {
        Format::Car | Format::CarV2 => Ok(()),
        Format::CarZst => pieces.par_iter_mut().try_for_each_init(checked_compressor, |zstd, piece| {
            let zstd = zstd.as_mut().map_err(|error| copy_of(error))?;
            piece.packed.resize(zstd::zstd_safe::compress_bound(piece.chunk.bytes.len()), 0);
            let len = zstd.compress_to_buffer(&piece.chunk.bytes, piece.packed.as_mut_slice())?;
            piece.packed.truncate(len);
            Ok(())
        }),
        Format::ForestCarZst => pieces.par_iter_mut().try_for_each_init(Packer::new, |packer, piece| {
            let packer = packer.as_mut().map_err(|error| copy_of(error))?;
            piece.packed.clear();
            piece.frames.clear();
            let ends = piece.chunk.sections.iter().map(|section| section.end);
            packer.pack(&piece.chunk.bytes, ends, &mut piece.packed, &mut piece.frames)
        }),
    }
}

fn checked_compressor() -> io::Result<Compressor<'static>> {
    let mut zstd = Compressor::new(LEVEL)?;
    zstd.set_parameter(CParameter::ChecksumFlag(true))?;
    Ok(zstd)
}

/// A copy of the error of a thread's compressor, which every piece of that thread reports.
pub(super) fn copy_of(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}

fn emit<W: Write>(
    pieces: &[PackedChunk],
    format: Format,
    made: &mut Summary,
    index: &mut Index,
    out: &mut W,
) -> io::Result<()> {
    for PackedChunk { chunk, packed, frames, .. } in pieces {
        if format == Format::ForestCarZst {
            let mut sections = chunk.sections.iter();
            let (mut start, mut before) = (0, 0);
            for frame in frames {
                for section in sections.by_ref().take(frame.sections - before) {
                    let BlockName { codec, digest } = &section.name;
                    index.add_hash(slot_hash(u64::from(*codec), BLAKE2B_256, digest), made.bytes + start)?;
                }
                (start, before) = (frame.end as u64, frame.sections);
            }
        }
        let bytes = if matches!(format, Format::Car | Format::CarV2) { &chunk.bytes } else { packed };
        out.write_all(bytes)?;
        made.bytes += bytes.len() as u64;
        made.car_bytes += chunk.bytes.len() as u64;
        made.blocks += chunk.sections.len() as u64;
        made.duplicates += chunk.repeats;
        made.payload_bytes += chunk.sections.iter().map(|section| (section.end - section.body) as u64).sum::<u64>();
    }
    Ok(())
}
