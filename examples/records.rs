//! Loads a million random records into two column families of a new RocksDB database, from all cores.
//!
//! ```text
//! cargo run --release --example records -- DIR [RECORDS]
//! ```

use bedload::progress::Silent;
use bedload::{ImportOptions, Sorter};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let dir = arguments.first().ok_or("name the directory of the new database")?;
    let records = arguments.get(1).map_or(Ok(1_000_000), |text| text.parse::<u64>())?;
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
    let report = sorter.finish()?;
    println!("{} records in {}", report.blocks.written, report.db);
    Ok(())
}
