//! The oracles are judged first: one that always says yes proves nothing.

use std::time::Duration;

use rustix::process::Signal;
use tracker_tests::{Canary, GlobalLock, Life, Lifeline, Need, PATIENCE, Scene, Who, able, until};

#[test]
fn the_lifeline_ends_when_the_last_descendant_dies() {
    let scene = Scene::new();
    let mut lifeline = Lifeline::new();
    let mut command = scene.command("sh");
    lifeline.hand_to(&mut command);
    command.args(["-c", "setsid sleep 600 & exit"]);
    assert!(command.status().unwrap().success());
    let orphan = scene.await_named("sleep");
    assert!(!lifeline.all_dead(Duration::from_millis(50)), "held by it");
    orphan.signal(Signal::KILL);
    assert!(lifeline.all_dead(PATIENCE));
}

#[test]
fn a_zombie_does_not_hold_the_lifeline() {
    let scene = Scene::new();
    let mut lifeline = Lifeline::new();
    let mut command = scene.command("true");
    lifeline.hand_to(&mut command);
    let mut child = command.spawn().unwrap();
    let who = Who::with_pid(child.id());
    assert!(lifeline.all_dead(PATIENCE));
    until("a zombie", || (who.life() == Life::Zombie).then_some(()));
    child.wait().unwrap();
    assert_eq!(who.life(), Life::Gone);
}

#[test]
fn a_scene_finds_who_dropped_its_environment_its_session_and_its_directory() {
    let mut scene = Scene::new();
    let script = "cd /; env -i setsid sleep 600 &";
    let mut command = scene.command("sh");
    assert!(command.args(["-c", script]).status().unwrap().success());
    let orphan = scene.await_named("sleep");
    scene.clear();
    assert!(!orphan.is_alive());
    drop(command);
    scene.assert_all_dead();
}

#[test]
fn a_scene_finds_who_closed_the_lifeline() {
    if !able(&[Need::Program("python3")]) {
        return;
    }
    let scene = Scene::new();
    let script = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)";
    let mut command = scene.command("python3");
    assert!(command.args(["-c", script]).status().unwrap().success());
    let orphan = scene.await_named("sleep");
    scene.clear();
    assert!(!orphan.is_alive());
}

#[test]
fn dropping_a_scene_ends_who_is_stopped_or_ignores_signals() {
    let scene = Scene::new();
    for arguments in [["stubborn"].as_slice(), &["slow-handler", "0", "stop"]] {
        assert!(scene.victim(arguments).status().unwrap().success());
    }
    let (stubborn, stopped) = (scene.who("stubborn"), scene.who("handler"));
    assert!(stubborn.is_alive() && stopped.is_alive());
    drop(scene);
    assert!(!stubborn.is_alive() && !stopped.is_alive());
}

#[test]
fn a_scene_ends_its_processes_when_the_test_fails() {
    let (tell, told) = std::sync::mpsc::channel();
    let failure = std::thread::spawn(move || {
        let scene = Scene::new();
        assert!(scene.victim(&["double-fork"]).status().unwrap().success());
        tell.send(scene.who("orphan")).unwrap();
        scene.who("nobody has this role");
    });
    assert!(failure.join().is_err());
    assert!(!told.recv().unwrap().is_alive());
}

#[test]
fn scenes_do_not_see_each_other() {
    let (one, other) = (Scene::new(), Scene::new());
    assert!(one.victim(&["double-fork"]).status().unwrap().success());
    assert!(!one.alive().is_empty());
    assert!(other.alive().is_empty());
    other.clear();
    assert!(one.who("orphan").is_alive());
}

#[test]
#[should_panic(expected = "left alive")]
fn a_survivor_fails_the_test() {
    let mut scene = Scene::new();
    assert!(scene.victim(&["double-fork"]).status().unwrap().success());
    scene.assert_all_dead();
}

#[test]
#[should_panic(expected = "is not alive but")]
fn a_dead_canary_is_noticed() {
    let canary = Canary::new();
    canary.assert_lives();
    canary.who().signal(Signal::TERM);
    until("its death", || (!canary.who().is_alive()).then_some(()));
    canary.assert_lives();
}

#[test]
#[should_panic(expected = "was stopped")]
fn a_stopped_canary_is_noticed() {
    let canary = Canary::new();
    canary.who().signal(Signal::STOP);
    until("the stop", || match canary.who().life() {
        Life::Alive(stat) => (stat.state == 'T').then_some(()),
        life => panic!("{life:?}"),
    });
    canary.assert_lives();
}

#[test]
fn somebody_else_with_the_same_pid_is_somebody_else() {
    let canary = Canary::new();
    let other = Who {
        start: canary.who().start - 1,
        ..canary.who()
    };
    assert_eq!(other.life(), Life::Gone);
    other.signal(Signal::KILL);
    canary.assert_lives();
}

#[test]
fn a_leader_that_left_its_thread_behind_is_alive_and_found() {
    let scene = Scene::new();
    assert!(scene.victim(&["leader-exits"]).status().unwrap().success());
    let leaderless = scene.who("leaderless");
    let Life::Alive(stat) = leaderless.life() else {
        panic!("a thread of it lives");
    };
    assert_eq!((stat.state, stat.threads), ('Z', 2));
    // Its leader shows neither environment nor descriptors.
    assert!(scene.alive().contains(&stat));
    scene.clear();
    assert!(!leaderless.is_alive());
}

#[test]
fn the_lock_belongs_to_one_test_at_a_time() {
    let lock = GlobalLock::take();
    let (tell, told) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let _lock = GlobalLock::take();
        tell.send(()).unwrap();
    });
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err());
    drop(lock);
    told.recv_timeout(PATIENCE).unwrap();
    other.join().unwrap();
}
