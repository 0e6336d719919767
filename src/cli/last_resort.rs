//! The end of the program where no error can be returned: the system refuses memory or a thread inside RocksDB, whose
//! exceptions cannot be caught here, or in an allocation. What an import made durable stays so however the program ends:
//! it ends with an error, a hint and the exit code of a failure, and not with a signal.
//!
//! Only the program installs these handlers: a library must leave them to its process.

use bedload::Exit;

unsafe extern "C" {
    /// `std::set_new_handler` of the C++ library that RocksDB is linked with.
    #[link_name = "_ZSt15set_new_handlerPFvvE"]
    fn set_new_handler(handler: Option<extern "C" fn()>) -> Option<extern "C" fn()>;
}

const NO_MEMORY: &str = "error: the system gives no more memory\n\
    hint: raise the limit (ulimit -v) or lower --memory and --threads; then run the same command again\n";

const ABORTED: &str = "error: the program cannot go on; the reason is above\n\
    hint: most often the system refuses memory or threads: look at ulimit -a, lower --memory and --threads; then run \
    the same command again\n";

/// Installs the handlers: a file that may not grow is an error of the call that writes, and an abort prints an error.
pub fn install() {
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
        // Sent by another process, which wants what the signal does: it comes once this handler returns.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

fn end(text: &str) -> ! {
    // SAFETY: system calls on static memory; a line that cannot be written is lost. On a terminal the line of a bar is
    // erased first.
    unsafe {
        if libc::isatty(2) == 1 {
            libc::write(2, c"\r\x1b[K".as_ptr().cast(), 4);
        }
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(Exit::Failed as libc::c_int)
    }
}
