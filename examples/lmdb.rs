//! Converts an LMDB environment into a RocksDB database. The named databases of the environment become column families, the unnamed
//! one becomes `default`. LMDB has the keys in order, so nothing is sorted.
//!
//! ```text
//! cargo run --release --example lmdb -- ENVIRONMENT DIR [NAME...]
//! ```

use bedload::progress::Silent;
use bedload::{ImportOptions, SortedWriter};
use heed::types::Bytes;
use heed::{Database, EnvFlags, EnvOpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [environment, dir, names @ ..] = &arguments[..] else {
        return Err("name an environment and a directory".into());
    };
    let mut opening = EnvOpenOptions::new();
    opening.max_dbs(names.len() as u32);
    // SAFETY: nothing changes the files in another way than LMDB does.
    let environment = unsafe { opening.flags(EnvFlags::READ_ONLY).open(environment)? };
    let reading = environment.read_txn()?;
    let names: Vec<Option<&str>> = match names {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let families = names.iter().map(|name| name.unwrap_or("default"));
    let mut writer = SortedWriter::new(ImportOptions::of_records(dir), families, Silent)?;
    for name in names {
        let database: Database<Bytes, Bytes> =
            environment.open_database(&reading, name)?.ok_or_else(|| format!("there is no database {name:?}"))?;
        for record in database.iter(&reading)? {
            let (key, value) = record?;
            writer.put(name.unwrap_or("default"), key, value)?;
        }
    }
    let report = writer.finish()?;
    println!("{} records in {}", report.blocks.written, report.db);
    Ok(())
}
