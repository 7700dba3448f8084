//! A tracer, and a tracee that it has stopped and never lets go on.

use nix::sys::ptrace;
use rustix::process::Signal;
use tracker_tests::stage::{announce, await_cast, await_state, detach, linger};
use tracker_tests::{Who, raw};

pub fn play(_: &[String]) {
    detach(|| {
        raw::fork(|| {
            ptrace::traceme().expect("ptrace");
            announce("tracee");
            Who::own().signal(Signal::STOP);
            linger();
        });
        announce("tracer");
        linger();
    });
    await_cast("tracer", 1);
    await_state(await_cast("tracee", 1)[0], 't');
}
