//! Needs a while for SIGTERM, then writes the file `handled`:
//! `slow-handler MILLISECONDS [stop]`. With `stop`, it is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tracker_tests::stage::{announce, await_cast, await_state, detach, linger};
use tracker_tests::{Who, raw, stage};

use crate::number;

static NEEDS: AtomicU64 = AtomicU64::new(0);

pub fn play(arguments: &[String]) {
    let milliseconds = u64::try_from(number(arguments, 0, 0)).expect("a time");
    NEEDS.store(milliseconds, Ordering::SeqCst);
    let stop = arguments.get(1).is_some_and(|argument| argument == "stop");
    detach(|| {
        raw::on_term(|| {
            std::thread::sleep(Duration::from_millis(NEEDS.load(Ordering::SeqCst)));
            std::fs::write(stage::dir().join("handled"), "").expect("a new file");
            raw::exit_now(0);
        });
        announce("handler");
        if stop {
            Who::own().signal(Signal::STOP);
        }
        linger();
    });
    let handler = await_cast("handler", 1)[0];
    if stop {
        await_state(handler, 'T');
    }
}
