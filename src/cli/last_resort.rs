//! The end of the program where no error can be returned: the system refuses memory or a thread inside RocksDB, whose
//! exceptions cannot be caught here, or in an allocation. What an import made durable stays so however the program ends:
//! it ends with an error, a hint and the exit code of a failure, and not with a signal.
//!
//! Only the program installs these handlers: a library must leave them to its process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Exit;
use crate::cli::log;

unsafe extern "C" {
    /// `std::set_new_handler` of the C++ library that RocksDB is linked with.
    #[link_name = "_ZSt15set_new_handlerPFvvE"]
    fn set_new_handler(handler: Option<extern "C" fn()>) -> Option<extern "C" fn()>;
}

/// The two lines, the same as a document, and as a line of a log.
macro_rules! said {
    ($error:literal, $hint:literal) => {
        (
            concat!("error: ", $error, "\nhint: ", $hint, "\n"),
            concat!(
                "{\n  \"schema\": \"bedload-error-1\",\n  \"error\": \"",
                $error,
                "\",\n  \"hint\": \"",
                $hint,
                "\",\n  \"exit\": 1\n}\n"
            ),
            concat!(
                "{\"schema\":\"bedload-log-1\",\"level\":\"error\",\"message\":\"",
                $error,
                "\",\"hint\":\"",
                $hint,
                "\",\"exit\":1}\n"
            ),
        )
    };
}

const NO_MEMORY: (&str, &str, &str) = said!(
    "the system gives no more memory",
    "raise the limit (ulimit -v) or lower --memory and --threads; then run the same command again"
);

const ABORTED: (&str, &str, &str) = said!(
    "the program cannot go on: a thread or memory was refused to it, if nothing above says otherwise",
    "raise the limits (ulimit -v, -u, -s) or lower --memory and --threads; then run the same command again"
);

/// Whether the error is also printed as a document on standard output.
static JSON: AtomicBool = AtomicBool::new(false);

/// Installs the handlers: a file that may not grow is an error of the call that writes, and an abort prints an error.
pub fn install() {
    JSON.store(std::env::args_os().any(|arg| arg == "--json"), Ordering::Relaxed);
    // SAFETY: the handlers only write and end the process, which is allowed in a signal handler; `action` is plain data.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        set_new_handler(Some(no_memory));
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_abort as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGABRT, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn no_memory() {
    end(NO_MEMORY)
}

extern "C" fn on_abort(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo to a handler with SA_SIGINFO; the rest are plain system calls.
    unsafe {
        if (*info).si_pid() == libc::getpid() {
            end(ABORTED);
        }
        // Sent by another process: the signal takes effect once this handler returns.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn end((text, document, line): (&str, &str, &str)) -> ! {
    let text = if log::is_json() { line } else { text };
    // SAFETY: system calls on memory that is always there; a line that cannot be written is lost. On a terminal the line
    // of a bar goes first.
    unsafe {
        if libc::isatty(2) == 1 {
            libc::write(2, c"\r\x1b[K".as_ptr().cast(), 4);
        }
        libc::write(2, text.as_ptr().cast(), text.len());
        if JSON.load(Ordering::Relaxed) {
            libc::write(1, document.as_ptr().cast(), document.len());
        }
        libc::_exit(Exit::Failed as libc::c_int)
    }
}
