//! Handlers for failures that cannot be returned as an error. RocksDB or the allocator aborts when the system refuses memory or
//! a thread; the program then exits with an error, a hint and the code of a failure. What an import has made durable stays.
//!
//! Only the program installs these handlers: a library must leave them to its process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Exit;
use crate::cli::log;

macro_rules! error {
    () => {
        "the program aborted: the system refused memory or a thread, unless another reason is printed above"
    };
}

macro_rules! hint {
    () => {
        "raise the limits (ulimit -v, -u, -s) or lower --memory and --threads; then run the same command again"
    };
}

const TEXT: &str = concat!("error: ", error!(), "\nhint: ", hint!(), "\n");
const LOG_LINE: &str = concat!(
    r#"{"schema":"bedload-log-1","level":"error","message":""#,
    error!(),
    r#"","hint":""#,
    hint!(),
    "\",\"exit\":1}\n"
);
const DOCUMENT: &str = concat!(
    "{\n  \"schema\": \"bedload-error-1\",\n  \"error\": \"",
    error!(),
    "\",\n  \"hint\": \"",
    hint!(),
    "\",\n  \"exit\": 1\n}\n"
);

/// True if the error is also printed as a document on standard output.
static JSON: AtomicBool = AtomicBool::new(false);

/// Installs the handlers: a write beyond the limit of a file's size returns an error, and an abort prints one.
pub fn install() {
    JSON.store(std::env::args_os().any(|arg| arg == "--json"), Ordering::Relaxed);
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
    let text = if log::is_json() { LOG_LINE } else { TEXT };
    // SAFETY: system calls on constants. A failed write has no remedy here. On a terminal the progress bar is erased first.
    unsafe {
        if libc::isatty(2) == 1 {
            libc::write(2, c"\r\x1b[K".as_ptr().cast(), 4);
        }
        libc::write(2, text.as_ptr().cast(), text.len());
        if JSON.load(Ordering::Relaxed) {
            libc::write(1, DOCUMENT.as_ptr().cast(), DOCUMENT.len());
        }
        libc::_exit(Exit::Failed as libc::c_int)
    }
}
