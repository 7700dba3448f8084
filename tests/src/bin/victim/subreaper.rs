//! A process to which orphans are given instead of to pid 1.
//! `subreaper PROGRAM [ARGUMENT]...` starts the program, waits for it and for
//! every orphan, leaves its exit status in the file `status`, and stays until
//! there is a file `leave`.
//! `foster PROGRAM [ARGUMENT]...` does likewise, but exits as the program did.
//! Without a program, it has an orphan of its own.

use std::process::Command;

use nix::sys::prctl;
use rustix::process::{WaitOptions, wait};
use tracker_tests::stage::{announce, await_cast, detach, linger};
use tracker_tests::{raw, stage, until};

pub fn play(arguments: &[String]) {
    let Some((program, arguments)) = arguments.split_first() else {
        detach(|| {
            prctl::set_child_subreaper(true).expect("prctl");
            announce("subreaper");
            detach(|| {
                announce("orphan");
                linger();
            });
            linger();
        });
        await_cast("orphan", 1);
        return;
    };
    announce("subreaper");
    let code = run(program, arguments);
    // Renamed, so that who reads it reads all of it.
    let new = stage::dir().join("status.new");
    std::fs::write(&new, code.to_string()).expect("a new file");
    std::fs::rename(new, stage::dir().join("status")).expect("rename");
    // The orphans that it was given are its children; an ignored SIGCHLD
    // makes the kernel wait for them.
    raw::ignore(libc::SIGCHLD);
    until("a file `leave`", || {
        stage::dir().join("leave").exists().then_some(())
    });
    raw::exit_now(code);
}

/// Not every pid 1 waits for orphans as fast as some victims leave them.
pub fn foster(arguments: &[String]) {
    let (program, arguments) = arguments.split_first().expect("a program");
    let code = run(program, arguments);
    // Who died just now is not left to pid 1.
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    raw::exit_now(code);
}

/// Runs a program, and waits for all orphans until it ends. Answers with its
/// exit status as a shell has it.
fn run(program: &str, arguments: &[String]) -> i32 {
    prctl::set_child_subreaper(true).expect("prctl");
    let program = Command::new(program).args(arguments).spawn();
    let program = program.expect("a program").id();
    loop {
        let (who, status) = wait(WaitOptions::empty())
            .expect("a child")
            .expect("it waits");
        if who.as_raw_pid().cast_unsigned() == program {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            return status.exit_status().or(signal).expect("it has ended");
        }
    }
}
