//! When the reader of the ring buffer is woken.

use std::fs;
use std::os::fd::AsFd;
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags};
use tracker::source::Source;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::{PATIENCE, Scene, until};

use super::{Gate, events, load, probe};

/// Waits for news on a thread of its own, without end; returns once that
/// thread sleeps. The answer tells when it is woken.
fn sleeper(source: &impl Source) -> mpsc::Receiver<()> {
    let news = source.news().unwrap().as_fd().try_clone_to_owned().unwrap();
    let (tell_thread, thread) = mpsc::channel();
    let (tell_woken, woken) = mpsc::channel();
    std::thread::spawn(move || {
        tell_thread
            .send(rustix::thread::gettid().as_raw_pid())
            .unwrap();
        // Without a limit: when that ends, the kernel looks once more.
        let mut fds = [PollFd::new(&news, PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
        let _ = tell_woken.send(());
    });
    let thread = thread.recv().unwrap();
    // The first word is the number of the system call that it sleeps in.
    until("a sleeping reader", || {
        let call = fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).ok()?;
        let number: i64 = call.split(' ').next()?.parse().ok()?;
        [libc::SYS_poll, libc::SYS_ppoll]
            .contains(&number)
            .then_some(())
    });
    woken
}

#[test]
fn an_eager_reader_is_woken_by_a_members_fork() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, "(:); read -r _");
    gate.member_of(&mut source);
    events(&mut source);
    source.wake_eagerly(true).unwrap();
    let sleeper = sleeper(&source);
    gate.open();
    sleeper.recv_timeout(PATIENCE).expect("a wakeup");
}

#[test]
fn a_reader_is_woken_before_the_ring_is_full() {
    let options = LoadOptions {
        ring_bytes: 1 << 16,
        ..LoadOptions::standalone()
    };
    let Some(mut source) = load(options) else {
        return;
    };
    let scene = Scene::new();
    let mut gate = Gate::script(
        &scene,
        "i=0; while [ $i -lt 400 ]; do (:); i=$((i+1)); done; read -r _",
    );
    gate.member_of(&mut source);
    events(&mut source);
    let sleeper = sleeper(&source);
    gate.open();
    sleeper.recv_timeout(PATIENCE).expect("a wakeup");
    assert_eq!(source.counters().unwrap().ring_full, 0);
}

#[test]
fn what_happened_before_a_drain_is_in_it() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    for _ in 0..100 {
        let mut gate = Gate::script(&scene, "exit");
        gate.member_of(&mut source);
        assert!(gate.finish().success());
        let events = events(&mut source);
        let exits = events
            .iter()
            .filter(|event| matches!(event, tracker::lineage::Event::Exit(_)));
        assert_eq!(exits.count(), 1, "{events:?}");
    }
}
