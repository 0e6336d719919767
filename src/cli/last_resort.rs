//! Handlers for failures that cannot be returned as an error. RocksDB or the allocator aborts when the system refuses memory or
//! a thread; the program then exits with an error, a hint and the code of a failure. What an import has made durable stays.
//!
//! Only the program installs these handlers: a library must leave them to its process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::Exit;
use crate::cli::log::{self, LogLevel};
use crate::cli::output::error_document;

const ERROR: &str =
    "the program aborted: the system refused memory or a thread, unless another reason is printed above";
const HINT: &str =
    "raise the limits (ulimit -v, -u, -s) or lower --memory and --threads; then run the same command again";

/// The error as text, as a line of the log, and as a document for standard output if `--json` asks for one. A signal
/// handler must not allocate, so they are made before.
static TEXTS: OnceLock<[String; 3]> = OnceLock::new();

/// True once a thread prints the texts. Others that abort at the same moment wait for its end.
static PRINTS: AtomicBool = AtomicBool::new(false);

/// Installs the handlers: a write beyond the limit of a file's size returns an error, and an abort prints one.
pub fn install() {
    let line = json!({ "schema": log::SCHEMA, "level": LogLevel::Error, "message": ERROR, "hint": HINT, "exit": Exit::Failed as u8 });
    let document = format!("{:#}\n", error_document(ERROR, HINT, Exit::Failed));
    let is_json = std::env::args_os().any(|arg| arg == "--json");
    let document = if is_json { document } else { String::new() };
    let _ = TEXTS.set([format!("error: {ERROR}\nhint: {HINT}\n"), format!("{line}\n"), document]);
    // SAFETY: the handler makes only calls that are allowed in a signal handler; `action` is plain data.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_abort as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_abort(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO; the rest are plain system calls.
    unsafe {
        if (*info).si_pid() == libc::getpid() {
            exit_with_error();
        }
        // Another process sent the signal: it takes effect once this handler returns.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn exit_with_error() -> ! {
    let Some([text, line, document]) = TEXTS.get() else { std::process::abort() };
    let text = if log::is_json() { line } else { text };
    // SAFETY: system calls on texts that do not change. A failed write has no remedy here. On a terminal the progress bar is erased first.
    unsafe {
        while PRINTS.swap(true, Ordering::SeqCst) {
            libc::pause();
        }
        if libc::isatty(2) == 1 {
            libc::write(2, c"\r\x1b[K".as_ptr().cast(), 4);
        }
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::write(1, document.as_ptr().cast(), document.len());
        libc::_exit(Exit::Failed as libc::c_int)
    }
}
