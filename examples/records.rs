//! Loads a million random records into two column families of a new RocksDB database, from all cores.
//!
//! ```text
//! cargo run --release --example records -- DIR [RECORDS]
//! ```

use bedload::progress::Silent;
use bedload::{ImportOptions, Sorter};

type Outcome = Result<u64, Box<dyn std::error::Error>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("name the directory of the new database")?;
    let records = arguments.get(1).map_or(Ok(1_000_000), |text| text.parse::<u64>())?;
    println!("{} records in {dir}", load(dir, records)?);
    Ok(())
}

/// Loads as many records into each column family. Returns the number of all.
fn load(dir: &str, records: u64) -> Outcome {
    let options = ImportOptions::of_records(dir).memory(256 << 20);
    let sorter = Sorter::new(options, ["default", "numbers"], Silent)?;
    let threads = std::thread::available_parallelism()?.get() as u64;
    std::thread::scope(|scope| -> bedload::Result<()> {
        let add = |thread: u64| {
            for number in (thread..records).step_by(threads as usize) {
                // Scatters the keys: each number has another one.
                let key = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                sorter.add("default", &key.to_be_bytes(), format!("record {number}").as_bytes())?;
                sorter.add("numbers", &number.to_be_bytes(), &key.to_be_bytes())?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || add(thread))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(sorter.finish()?.blocks.written)
}

#[test]
fn example_loads_a_million_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = dir.path().join("db");
    assert_eq!(load(db.to_str().expect("text"), 1_000_000).expect("loaded"), 2_000_000);
}
