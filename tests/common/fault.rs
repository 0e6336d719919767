//! The library that lets system calls of the real binary fail: `fault.c`, compiled here.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rustix::io::Errno;

use super::crash::{Case, succeeds};

/// The preloaded library; `None`, with a notice, if it cannot be compiled.
pub fn library() -> Option<&'static PathBuf> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = LIBRARY.get_or_init(|| {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/fault.c");
        // Each run its own: another may be reading it.
        let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("fault-{}.so", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).args([source, "-ldl"]);
        succeeds(&mut compile).then_some(library)
    });
    if made.is_none() {
        super::skipped("no C compiler makes the library that lets disks fail");
    }
    made.as_ref()
}

/// Calls of `call` on files named like `text`, from the `number`-th on, fail with `errno`.
pub fn failing(case: &Case, call: &str, number: u32, errno: Errno, text: &str) -> Option<Case> {
    with_fault(case, &format!("{call}:{number}:{}:{text}", errno.raw_os_error()))
}

/// Dies at the `number`-th call that changes a file of `case`, or of its database.
pub fn killed_at_change(case: &Case, number: usize) -> Option<Case> {
    let dir = case.db.parent().expect("a folder").display();
    with_fault(case, &format!("change:{number}:0:{dir}"))
}

fn with_fault(case: &Case, fault: &str) -> Option<Case> {
    let library = library()?.to_str().expect("text");
    Some(case.clone().env("LD_PRELOAD", library).env("BEDLOAD_FAULT", fault))
}
