//! `bedload bench` and `doctor`.

#[path = "../common/mod.rs"]
mod common;

mod bench;
mod doctor;
mod tune;

/// Sends a signal to a program that runs.
fn send(child: &std::process::Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("it runs");
}
