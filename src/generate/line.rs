//! The assembly line of a snapshot.
//!
//! ```text
//! window N+1:  make (all threads) -> headers (in order) -> pack (all threads)
//! window N:                                                        write, at the same time
//! ```
//!
//! Memory: two windows of chunks, and the index of a `.forest.car.zst`.

use std::io::{self, Write};

use rayon::prelude::*;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::progress::Progress;
use crate::source::forest::{Frame, Index, LEVEL, Packer, slot_hash};

use super::cbor::{BLAKE2B_256, BlockName};
use super::chunk::{GeneratedChunk, Maker};
use super::pipeline;
use super::plan::ChunkPlan;
use super::spine::Spine;
use super::{Format, Spec};

/// The output of the line.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) roots: Vec<BlockName>,
    pub(super) blocks: u64,
    pub(super) duplicates: u64,
    pub(super) payload_bytes: u64,
    /// Bytes of the sections before compression.
    pub(super) section_bytes: u64,
    pub(super) written: u64,
}

struct Piece {
    chunk: GeneratedChunk,
    state: BlockName,
    packed: Vec<u8>,
    frames: Vec<Frame>,
}

impl Piece {
    fn new() -> Self {
        Self { chunk: GeneratedChunk::default(), state: BlockName::BLANK, packed: Vec::new(), frames: Vec::new() }
    }
}

/// Writes everything after the prelude, which is `position` bytes long.
pub(super) fn run<W: Write + Send>(
    spec: &Spec,
    spine: &Spine,
    out: &mut W,
    position: u64,
    progress: &Progress<'_>,
) -> io::Result<Made> {
    let maker = Maker::new(spec.seed);
    let mut made = Made::default();
    let mut index = Index::in_memory();
    let mut tip = Vec::new();
    pipeline::run(
        |first, width, pieces| {
            pieces.resize_with((spine.chunks - first).min(width as u64) as usize, Piece::new);
            make(spec, spine, &maker, first, pieces);
            chain(spine, &maker, first, &mut tip, pieces);
            for Piece { chunk, .. } in &*pieces {
                progress.add(chunk.bytes.len() as u64, chunk.sections.len() as u64);
            }
            pack(spec.format, pieces)
        },
        |pieces| emit(pieces, spec.format, &mut made, &mut index, out, position),
    )?;
    if spec.format == Format::ForestCarZst {
        made.written += index.write(out, position + made.written)?;
    }
    made.roots = tip;
    Ok(made)
}

fn make(spec: &Spec, spine: &Spine, maker: &Maker, first: u64, pieces: &mut [Piece]) {
    pieces.par_iter_mut().enumerate().for_each(|(n, piece)| {
        let plan = ChunkPlan::new(spec, first + n as u64, |chunk| spine.budget(chunk));
        piece.state = maker.make(&plan, &mut piece.chunk);
    });
}

/// Adds the headers. `tip` has those of the chunk before, and of the last chunk at the end.
fn chain(spine: &Spine, maker: &Maker, first: u64, tip: &mut Vec<BlockName>, pieces: &mut [Piece]) {
    for (piece, number) in pieces.iter_mut().zip(first..) {
        let headers = spine.headers(number, tip.first().copied(), piece.state);
        tip.clear();
        tip.extend(headers.iter().map(|header| maker.push(&mut piece.chunk, header)));
    }
}

fn pack(format: Format, pieces: &mut [Piece]) -> io::Result<()> {
    match format {
        Format::Car | Format::CarV2 => Ok(()),
        Format::CarZst => pieces.par_iter_mut().try_for_each_init(
            || {
                let mut zstd = Compressor::new(LEVEL)?;
                zstd.set_parameter(CParameter::ChecksumFlag(true))?;
                Ok(zstd)
            },
            |zstd: &mut io::Result<Compressor<'_>>, piece| {
                let zstd = zstd.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
                piece.packed.resize(zstd::zstd_safe::compress_bound(piece.chunk.bytes.len()), 0);
                let len = zstd.compress_to_buffer(&piece.chunk.bytes, piece.packed.as_mut_slice())?;
                piece.packed.truncate(len);
                Ok(())
            },
        ),
        Format::ForestCarZst => pieces.par_iter_mut().try_for_each_init(Packer::new, |packer, piece| {
            let packer = packer.as_mut().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
            piece.packed.clear();
            piece.frames.clear();
            let ends = piece.chunk.sections.iter().map(|section| section.end);
            packer.pack(&piece.chunk.bytes, ends, &mut piece.packed, &mut piece.frames)
        }),
    }
}

fn emit<W: Write>(
    pieces: &[Piece],
    format: Format,
    made: &mut Made,
    index: &mut Index,
    out: &mut W,
    position: u64,
) -> io::Result<()> {
    for Piece { chunk, packed, frames, .. } in pieces {
        if format == Format::ForestCarZst {
            let base = position + made.written;
            let mut sections = chunk.sections.iter();
            let (mut start, mut before) = (0, 0);
            for frame in frames {
                for section in sections.by_ref().take(frame.sections - before) {
                    let BlockName { codec, digest } = &section.name;
                    index.add_hash(slot_hash(u64::from(*codec), BLAKE2B_256, digest), base + start)?;
                }
                (start, before) = (frame.end as u64, frame.sections);
            }
        }
        let bytes = if matches!(format, Format::Car | Format::CarV2) { &chunk.bytes } else { packed };
        out.write_all(bytes)?;
        made.written += bytes.len() as u64;
        made.section_bytes += chunk.bytes.len() as u64;
        made.blocks += chunk.sections.len() as u64;
        made.duplicates += chunk.repeats;
        made.payload_bytes += chunk.sections.iter().map(|section| section.body_len() as u64).sum::<u64>();
    }
    Ok(())
}
