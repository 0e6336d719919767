//! Parts of an import for `benches/`.

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::rocks::option_map::OptionMap;
use crate::rocks::{SstOptions, SstWriter};
use crate::sort::entries::{BlockArena, SortEntry};
use crate::sort::key::{KeyLayout, Record};
use crate::sort::router::{Route, Router};
use crate::source::car::chunk::Chunk;
use crate::source::car::chunks::{Chunks, Limits};
use crate::source::car::{DEFAULT_MAX_BLOCK, NullPadding, Section, Step, next_section};
use crate::source::input::Input;

/// Bytes of a chunk of an import with a budget of 64 MiB or more.
const CHUNK: usize = 2 << 20;

const LAYOUT: KeyLayout = KeyLayout::Cid;

fn open(input: Input, mapped: bool) -> Result<Chunks> {
    let null_padding = NullPadding::Error;
    let limits = Limits {
        max_block: DEFAULT_MAX_BLOCK,
        null_padding,
        fits: u64::MAX,
        budget: u64::MAX,
        chunk: CHUNK,
        records_roots: true,
    };
    let (_, mut chunks) = Chunks::open(input, limits)?;
    if mapped {
        crate::handle_sigbus();
        chunks.map();
    }
    Ok(chunks)
}

/// Frames a CAR, through one buffer or mapped. Returns the number of blocks.
pub fn frame(input: Input, mapped: bool) -> Result<u64> {
    let mut chunks = open(input, mapped)?;
    let (mut blocks, mut spare) = (0, None);
    while let Some(chunk) = chunks.next(spare.take())? {
        blocks += chunk.starts.len() as u64;
        spare = chunk.bytes.release();
    }
    Ok(blocks)
}

pub struct ChunkedCar(Vec<Chunk>);

impl ChunkedCar {
    pub fn read(input: Input) -> Result<Self> {
        let mut chunks = open(input, false)?;
        std::iter::from_fn(|| chunks.next(None).transpose()).collect::<Result<_>>().map(Self)
    }

    fn sections(&self) -> impl Iterator<Item = (&Chunk, Section)> {
        self.0.iter().flat_map(|chunk| {
            chunk.starts.iter().filter_map(move |&start| {
                match next_section(&chunk.bytes, start as usize, DEFAULT_MAX_BLOCK) {
                    Ok(Step::Section(section)) => Some((chunk, section)),
                    _ => None,
                }
            })
        })
    }

    fn routes(&self, routing: &Routing) -> impl Iterator<Item = (&Chunk, Section, Route)> {
        self.sections().map(|(chunk, section)| {
            let (key, digest_at) = key(chunk, &section);
            (chunk, section, routing.0.route(key, digest_at))
        })
    }

    pub fn learn(&self, bits: u32) -> Routing {
        Routing(Router::learn(self.sections().map(|(chunk, section)| key(chunk, &section)), bits))
    }

    /// The blocks in memory, and their unsorted entries in partitions.
    pub fn into_partitions(self, routing: &Routing) -> (BenchBlocks, BenchEntries) {
        let mut entries = vec![Vec::new(); routing.0.partitions() as usize];
        for (chunk, section, route) in self.routes(routing) {
            entries[route.partition as usize].push(SortEntry::new(route.prefix, chunk.index, section.start as u32));
        }
        let mut arena = BlockArena::new(LAYOUT);
        self.0.into_iter().for_each(|chunk| arena.insert(chunk.index, chunk.bytes, Vec::new()));
        (BenchBlocks(arena), BenchEntries(entries))
    }
}

fn key<'a>(chunk: &'a Chunk, section: &Section) -> (&'a [u8], usize) {
    let key = Record::new(&chunk.bytes, section, LAYOUT).key();
    (key, LAYOUT.digest_in_key(&section.cid))
}

pub struct Routing(Router);

pub struct BenchBlocks(BlockArena);

/// One entry a block, partition by partition.
#[derive(Clone)]
pub struct BenchEntries(Vec<Vec<SortEntry>>);

impl BenchEntries {
    /// Sets all prefixes to zero, so that every comparison reads the keys.
    pub fn alike(mut self) -> Self {
        self.0.iter_mut().flatten().for_each(|entry| entry.prefix = 0);
        self
    }
}

impl BenchBlocks {
    pub fn sort(&self, entries: &mut BenchEntries) {
        entries.0.iter_mut().for_each(|partition| self.0.sort(partition));
    }

    fn records<'a>(&'a self, sorted: &'a BenchEntries) -> impl Iterator<Item = Record<'a>> {
        sorted.0.iter().flat_map(|partition| self.0.walk(partition)).map(|(_, record)| record)
    }
}

pub struct Ssts {
    options: SstOptions,
    path: PathBuf,
}

impl Ssts {
    pub fn new(map: &OptionMap, dir: &Path) -> Result<Self> {
        Ok(Self { options: SstOptions::new(map, dir)?, path: dir.join("bench.sst") })
    }

    /// Builds a file of all records, and replaces the file before.
    pub fn build(&self, blocks: &BenchBlocks, sorted: &BenchEntries) -> Result<PathBuf> {
        let mut writer = SstWriter::create(&self.options, self.path.clone())?;
        for record in blocks.records(sorted) {
            writer.put(record.key(), record.value())?;
        }
        writer.finish()
    }
}
