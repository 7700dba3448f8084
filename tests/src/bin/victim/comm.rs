//! A name that looks like the fields after it, with a newline and a byte that
//! is no UTF-8.

use nix::sys::prctl;
use tracker_tests::stage::{announce, await_cast, detach, linger};

pub fn play(_: &[String]) {
    detach(|| {
        prctl::set_name(c"x) R 1 (\n\xff").expect("prctl");
        announce("impostor");
        linger();
    });
    await_cast("impostor", 1);
}
