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
    println!("{} records in {dir}", convert(environment, dir, names)?);
    Ok(())
}

/// Returns the number of records.
fn convert(environment: &str, dir: &str, names: &[String]) -> Result<u64, Box<dyn std::error::Error>> {
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
    Ok(writer.finish()?.blocks.written)
}

#[test]
fn example_converts_two_databases() {
    let place = tempfile::tempdir().expect("a directory");
    let path = |name: &str| place.path().join(name).to_str().expect("text").to_owned();
    std::fs::create_dir(path("lmdb")).expect("created");
    {
        // SAFETY: nothing else has the new environment.
        let environment = unsafe { EnvOpenOptions::new().max_dbs(2).open(path("lmdb")) }.expect("an environment");
        let mut writing = environment.write_txn().expect("begun");
        for name in ["a", "b"] {
            let database: Database<Bytes, Bytes> =
                environment.create_database(&mut writing, Some(name)).expect("created");
            for number in 0..1000u32 {
                database.put(&mut writing, &number.to_be_bytes(), name.as_bytes()).expect("put");
            }
        }
        writing.commit().expect("committed");
    }
    let names = ["a", "b"].map(str::to_owned);
    assert_eq!(convert(&path("lmdb"), &path("db"), &names).expect("converted"), 2000);
}
