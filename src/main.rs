//! bedload: imports a blockchain snapshot into RocksDB.

fn main() -> std::process::ExitCode {
    bedload::main()
}
