//! Children that are not made by `fork`.

use std::ffi::CString;
use std::process::Command;

use tracker_tests::raw;
use tracker_tests::stage::{await_cast, own_program};

/// `vfork`: the child runs on its parent's memory until it executes something.
pub fn vfork(_: &[String]) {
    let text = |text: &str| CString::new(text).expect("no NUL");
    let program = text(own_program().to_str().expect("a path of ours"));
    raw::vfork_exec(&program, &[text("victim"), text("linger"), text("vforked")]);
    await_cast("vforked", 1);
}

/// `posix_spawn`, which the standard library uses when nothing forbids it.
#[expect(clippy::zombie_processes, reason = "leaving it behind is the point")]
pub fn posix_spawn(_: &[String]) {
    let mut command = Command::new(own_program());
    command.args(["linger", "spawned"]).spawn().expect("spawn");
    await_cast("spawned", 1);
}
