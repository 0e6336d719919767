//! The count of skipped tests that `scripts/run-tests` reports.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Runs a program that prints `text` and exits with `code`, as cargo runs a test binary.
fn run(text: &str, code: i32) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().expect("a folder");
    let deps = dir.path().join("deps");
    std::fs::create_dir(&deps).expect("a folder");
    let (output, program) = (deps.join("output"), deps.join("program"));
    std::fs::write(&output, text).expect("written");
    std::fs::write(&program, format!("#!/bin/sh\ncat {}\nexit {code}\n", output.display())).expect("written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("executable");
    let runner = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/run-tests");
    let ran = Command::new(runner).arg(program).output().expect("it runs");
    (String::from_utf8(ran.stdout).expect("text"), ran.status.code())
}

#[test]
fn skipped_tests_count_as_ignored() {
    for (text, code, expected) in [
        (
            "running 3 tests\n\
             SKIPPED: a::b: no disk\n\
             test a::b ... ok\n\
             test c ... SKIPPED: d: no strace\n\
             ok\n\
             SKIPPED: a::b: no disk\n\
             test d ... ok\n\
             \n\
             test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            0,
            "running 3 tests\n\
             test a::b ... ignored, no disk\n\
             test c ... ok\n\
             test d ... ignored, no strace\n\
             \n\
             test result: ok. 1 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        ),
        // On one thread the thread has no name of a test.
        (
            "test a ... SKIPPED: main: no disk\nok\ntest result: ok. 1 passed; 0 failed; 0 ignored;\n",
            0,
            "test a ... ignored, no disk\ntest result: ok. 0 passed; 0 failed; 1 ignored;\n",
        ),
        // A failure stays one.
        (
            "running 1 test\nSKIPPED: a: no disk\ntest a ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\n",
            101,
            "running 1 test\ntest a ... FAILED\ntest result: FAILED. 0 passed; 1 failed; 0 ignored;\n",
        ),
    ] {
        assert_eq!(run(text, code), (expected.to_owned(), Some(code)));
    }
}
