//! A process is its pid and its start time, never the pid alone.

use rustix::process::Signal;
use tracker_tests::{Canary, LastPid, Life, Need, Scene, Who, able, on_all_sources, until};

/// An outsider with a pid that was somebody else's. One tick of its start time
/// is all that tells them apart at the least.
fn outsider_with_pid_of(other: Who) -> Canary {
    until("an outsider with that pid", || {
        LastPid::next_is(other.pid);
        let canary = Canary::new();
        let who = canary.who();
        (who.pid == other.pid && who.start != other.start).then_some(canary)
    })
}

/// Waits until nobody has the pid any more.
fn await_release(who: Who) {
    until("a free pid", || (who.life() == Life::Gone).then_some(()));
}

on_all_sources!(an_outsider_with_a_dead_member_s_pid_is_spared needs [Need::Root], |source| {
    let _lock = LastPid::take();
    let mut scene = Scene::on(source);
    // The shell waits for its child, so that the pid is free.
    let script = "\"$V\" linger member & wait; until [ -e go ]; do sleep .02; done; \"$V\" double-fork";
    let running = scene.run(source, "--grace 60s").sh(script).start();
    let member = scene.await_cast("member", 1)[0];
    member.signal(Signal::KILL);
    await_release(member);
    let outsider = outsider_with_pid_of(member);
    scene.touch("go");
    let report = running.finish().assert_ended(&mut scene, source, &["orphan"]);
    outsider.assert_lives();
    let processes = report.processes();
    assert!(processes.iter().all(|entry| entry.who().pid != member.pid), "{report}");
    for spared in report.spared() {
        if spared.who().pid == member.pid {
            assert_eq!(spared.reason(), "identity_changed", "{report}");
        }
    }
});

#[test]
fn a_reap_of_a_dead_process_spares_who_has_its_pid() {
    if !able(&[Need::Root]) {
        return;
    }
    let _lock = LastPid::take();
    let scene = Scene::new();
    let mut child = scene.victim(&["linger", "member"]).spawn().unwrap();
    let member = scene.await_cast("member", 1)[0];
    child.kill().unwrap();
    child.wait().unwrap();
    let outsider = outsider_with_pid_of(member);
    let named = member.to_string();
    let ended = scene
        .tracker(&["reap", "--grace", "0", "--pid", &named])
        .finish();
    ended.assert_code(1);
    let line = ended.assert_one_line();
    assert!(line.contains(&outsider.who().to_string()), "{line}");
    outsider.assert_lives();
}

#[test]
fn every_look_finds_a_process_that_is_there_all_the_time() {
    let scene = Scene::new();
    let script = "for i in 1 2 3 4 5 6 7 8; do (while :; do /bin/true; done) & done
                  \"$V\" linger fixed & wait";
    let mut root = scene.command("sh").args(["-c", script]).spawn().unwrap();
    let fixed = scene.await_cast("fixed", 1)[0];
    let pid = root.id().to_string();
    for look in 0..50 {
        let ended = scene.tracker(&["tree", &pid, "--json"]).finish();
        ended.assert_code(0);
        let found = ended.json()["processes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["pid"] == fixed.pid && one["start_ticks"] == fixed.start);
        assert!(found, "look {look}: {}", ended.stdout);
    }
    scene.clear();
    root.wait().unwrap();
}
