//! A thread that is not the first one executes a program: the others vanish,
//! and it takes over the leader's pid.

use std::os::unix::process::CommandExt;
use std::process::Command;

use tracker_tests::stage::{announce, await_cast, detach, linger, own_program};

pub fn play(_: &[String]) {
    detach(|| {
        announce("before");
        std::thread::spawn(|| {
            let error = Command::new(own_program()).args(["linger", "after"]).exec();
            panic!("exec: {error}");
        });
        linger();
    });
    await_cast("after", 1);
}
