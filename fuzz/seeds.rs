//! Valid first inputs for the fuzzer.

use std::path::PathBuf;

/// Writes `seeds` into the corpus folder of the fuzzer before it reads the folder.
pub fn plant(seeds: &[Vec<u8>]) {
    let folders = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).map(PathBuf::from);
    // The corpus is the first folder; a file instead means that one input is run again.
    let Some(folder) = folders.take(1).find(|path| path.is_dir()) else { return };
    for (index, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{index:02}")), seed).expect("a corpus folder that can be written");
    }
}

#[allow(dead_code, reason = "each target plants its own")]
fn section(cid: &[u8], data: &[u8]) -> Vec<u8> {
    let len = cid.len() + data.len();
    let len = if len < 0x80 { vec![len as u8] } else { vec![len as u8 | 0x80, (len >> 7) as u8] };
    [&len, cid, data].concat()
}

/// Blocks of every chain, each after a byte for the chain.
#[allow(dead_code, reason = "each target plants its own")]
pub fn blocks() -> Vec<Vec<u8>> {
    use bedload::testing::blocks::chain::Family;
    use bedload::testing::generate::log::{LogSpec, write};

    let logs = [
        (0, LogSpec::new(Family::Steem, 100 << 10), 0),
        (1, LogSpec::new(Family::Hive, 100 << 10), 0),
        (2, LogSpec::new(Family::Antelope, 100 << 10).savanna_from(Some(10)), 0),
        (3, LogSpec::new(Family::Antelope, 100 << 10).version(4).expect("a version"), 5),
    ];
    let mut seeds = Vec::new();
    for (kind, spec, front) in logs {
        let (mut log, mut entries) = (Vec::new(), Vec::new());
        write(&spec, &mut log, |entry| {
            entries.push(*entry);
            Ok(())
        })
        .expect("into memory");
        for entry in entries {
            let start = (entry.word & 0xffff_ffff_ffff) as usize;
            let stored = &log[start + front..start + entry.len as usize];
            if entry.word >> 63 == 0 && stored.len() < 4096 {
                seeds.push([&[kind], stored].concat());
            }
        }
    }
    seeds
}

/// Small logs of every family, each after the two bytes that choose the batch size and the treatment of a torn tail.
#[allow(dead_code, reason = "each target plants its own")]
pub fn logs() -> Vec<Vec<u8>> {
    use bedload::testing::blocks::chain::Family;
    use bedload::testing::generate::log::{LogSpec, write};

    let specs = [
        LogSpec::new(Family::Steem, 4 << 10),
        LogSpec::new(Family::Hive, 4 << 10),
        LogSpec::new(Family::Antelope, 4 << 10),
        LogSpec::new(Family::Antelope, 4 << 10).version(4).expect("a version"),
    ];
    let log = |spec: &LogSpec| {
        let mut log = vec![3, 0];
        write(spec, &mut log, |_| Ok(())).expect("into memory");
        log
    };
    specs.iter().map(log).collect()
}

/// CARs of every kind.
#[allow(dead_code, reason = "each target plants its own")]
pub fn cars() -> Vec<Vec<u8>> {
    let cids: Vec<Vec<u8>> = vec![
        [&[0x12, 0x20][..], &[7; 32]].concat(),
        [&[1, 0x71, 0xa0, 0xe4, 2, 32][..], &[8; 32]].concat(),
        [&[1, 0x55, 0x12, 32][..], &[9; 32]].concat(),
        vec![1, 0x55, 0, 3, b'a', b'b', b'c'],
        vec![1, 0x71, 0, 0],
    ];
    let blocks: Vec<u8> =
        cids.iter().zip([300, 20, 0, 3, 0]).flat_map(|(cid, len)| section(cid, &vec![b'x'; len])).collect();
    let header = |roots: &[Vec<u8>]| {
        let mut cbor = vec![0xa2, 0x65];
        cbor.extend(b"roots");
        cbor.push(0x80 | roots.len() as u8);
        for root in roots {
            cbor.extend([0xd8, 42, 0x58, root.len() as u8 + 1, 0]);
            cbor.extend(root);
        }
        cbor.extend(b"\x67version\x01");
        section(&[], &cbor)
    };
    let one = [header(&cids[..1]), blocks.clone()].concat();
    let v2 = |padding: usize, index: &[u8]| {
        let offset = 51 + padding as u64;
        let index_at = if index.is_empty() { 0 } else { offset + one.len() as u64 };
        let numbers = [offset, one.len() as u64, index_at].map(u64::to_le_bytes).concat();
        [&b"\x0a\xa1\x67version\x02"[..], &[0; 16], &numbers, &vec![0; padding], &one, index].concat()
    };
    vec![
        one.clone(),
        [header(&[]), blocks.clone()].concat(),
        [header(&cids[..3]), blocks].concat(),
        header(&cids[..1]),
        [&one[..], &[0; 20]].concat(),
        v2(0, &[]),
        v2(13, b"\x81\x08an index"),
    ]
}

/// Streams of records in every format.
#[allow(dead_code, reason = "each target plants its own")]
pub fn records() -> Vec<Vec<u8>> {
    let part = |text: &[u8]| [&(text.len() as u32).to_le_bytes(), text].concat();
    let records = [part(b"key"), part(b"value"), part(b""), part(b"")].concat();
    let head = [&b"BEDLOADK\x01\0\0\0\0\0\0\0\x02\0\0\0"[..], &part(b"a"), &part(b"b")].concat();
    let kv = [&head[..], &records, b"\xfe\xff\xff\xff\x01\0\0\0", &records].concat();
    let bit = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    let crc = !kv.iter().fold(!0, |crc: u32, byte| (0..8).fold(crc ^ u32::from(*byte), bit));
    let trailer = [&[0xff; 4][..], &4u64.to_le_bytes(), &crc.to_le_bytes()].concat();
    vec![
        [kv, trailer].concat(),
        [&b"ROCKDUMP\0\0\0\0\0\0\0\x01\x02\0\0\0{}"[..], &records].concat(),
        b"0x00FF ==> 0x\n0x ==> 0xAB\nKeys in range: 2\n".to_vec(),
    ]
}

/// Texts as bytes.
#[allow(dead_code, reason = "each target plants its own")]
pub fn texts(texts: Vec<String>) -> Vec<Vec<u8>> {
    texts.into_iter().map(String::into_bytes).collect()
}
