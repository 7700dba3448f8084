//! Many members at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tracker_tests::{Daemon, Need, PidMax, Scene, Shell, Source, able, until};

use super::size;

/// Room for all of them, and for everybody else.
const PIDS: u32 = 131_072;

/// The most descriptors that a process has had at once while `f` ran.
fn descriptors_during<T>(pid: i32, f: impl FnOnce() -> T) -> (T, usize) {
    let over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&over);
    let watch = std::thread::spawn(move || {
        let mut most = 0;
        while !watched.load(Ordering::Relaxed) {
            let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
            most = most.max(open.map_or(0, Iterator::count));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        most
    });
    let answer = f();
    over.store(true, Ordering::Relaxed);
    (answer, watch.join().unwrap())
}

#[test]
fn a_crowd_is_listed_and_ended_with_few_descriptors() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let count = size(1000);
    let _pids = PidMax::set(PIDS);
    let mut scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::from_command(scene.victim(&["foster"]).arg("sh"));
    // The shell is the foster parent's child.
    let root = until("the shell", || {
        let children = tracker_tests::proc::children(shell.who().pid);
        children.first().map(|child| child.who)
    });
    let session = daemon.open("crowd", root);
    shell.tell(&format!("\"$V\" crowd {count}"));
    let begin = Instant::now();
    let crowd = scene.await_cast("one-of-many", usize::try_from(count).unwrap());
    let created = begin.elapsed();
    let begin = Instant::now();
    let tree = daemon.get(&format!("/v1/tree?session={session}"));
    let listed = begin.elapsed();
    let there = tree["processes"].as_array().unwrap();
    let pids: std::collections::BTreeSet<_> =
        there.iter().filter_map(|one| one["pid"].as_i64()).collect();
    assert!(crowd.iter().all(|who| pids.contains(&i64::from(who.pid))));
    let path = format!("/v1/sessions/{session}/close");
    let request = serde_json::json!({"grace_ms": 0});
    let begin = Instant::now();
    let (report, most) = descriptors_during(daemon.who().pid, || daemon.post(&path, &request));
    let ended = begin.elapsed();
    assert_eq!(report["verdict"], "complete", "{}", report["reasons"]);
    println!(
        "{count} members created in {created:?}, listed in {listed:?}, ended in {ended:?} \
         with at most {most} descriptors"
    );
    // However many there are: half of what it may open, and what it has at rest.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.who().pid)).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let limit: usize = line
        .unwrap()
        .split_ascii_whitespace()
        .nth(3)
        .unwrap()
        .parse()
        .unwrap();
    assert!(most <= limit / 2 + 64, "{most} of {limit} descriptors");
    shell.wait();
    drop(daemon);
    scene.assert_all_dead();
}
