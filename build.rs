//! Has the linker send RocksDB's calls of its CRC-32C to the one in src/main.rs; programs that embed the library link as they like.

// One dash: the linkers of GNU and LLVM and mold take it with one or two, zig with one.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,-wrap=_ZN7rocksdb6crc32c6ExtendEjPKcm");
}
