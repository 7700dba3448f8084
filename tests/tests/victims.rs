//! Each victim is as odd as it says. A victim that behaves would make the
//! tests that use it pass for nothing.

use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use tracker_tests::{Cgroup, LastPid, Life, Need, Scene, Stat, able, proc, until, victim_binary};

/// Plays a victim to its end.
#[track_caller]
fn play(arguments: &[&str]) -> Scene {
    let scene = Scene::new();
    let status = scene.victim(arguments).status().unwrap();
    assert!(status.success(), "{arguments:?}: {status}");
    scene
}

#[track_caller]
fn alive(scene: &Scene, role: &str) -> Stat {
    match scene.who(role).life() {
        Life::Alive(stat) => stat,
        life => panic!("the {role} is {life:?}"),
    }
}

#[test]
fn double_fork_leaves_an_orphan_in_another_session() {
    let scene = play(&["double-fork"]);
    let orphan = alive(&scene, "orphan");
    assert_ne!(orphan.session, proc::stat(proc::own_pid()).unwrap().session);
    assert_ne!(orphan.session, orphan.who.pid);
}

#[test]
fn two_generations_leaves_an_orphan_whose_creator_is_dead() {
    let scene = play(&["two-generations"]);
    let creator = scene.who("creator");
    assert_ne!(alive(&scene, "orphan").parent, creator.pid);
    assert!(!creator.is_alive());
}

#[test]
fn clone_parent_makes_a_sibling() {
    let scene = play(&["clone-parent"]);
    // The victim was this process's child, and so is its own child.
    assert_eq!(alive(&scene, "sibling").parent, proc::own_pid());
    let sibling = scene.who("sibling");
    sibling.signal(Signal::KILL);
    waitpid(Pid::from_raw(sibling.pid), WaitOptions::empty()).unwrap();
}

#[test]
fn leader_exits_leaves_a_zombie_leader_that_forks() {
    let scene = play(&["leader-exits"]);
    assert_eq!(alive(&scene, "leaderless").state, 'Z');
    let creator = scene.who("leaderless").pid;
    assert_eq!(alive(&scene, "late-child").parent, creator);
}

#[test]
fn non_leader_exec_keeps_the_identity_and_leaves_one_thread() {
    let scene = play(&["non-leader-exec"]);
    assert_eq!(scene.who("before"), scene.who("after"));
    assert_eq!(alive(&scene, "after").threads, 1);
}

#[test]
fn thread_fork_leaves_a_child_of_the_whole_process() {
    let scene = play(&["thread-fork"]);
    assert_ne!(scene.who("creator"), scene.who("child-of-thread"));
    assert!(!scene.who("creator").is_alive());
    alive(&scene, "child-of-thread");
}

#[test]
fn stubborn_outlives_sigterm() {
    let scene = play(&["stubborn"]);
    scene.who("stubborn").signal(Signal::TERM);
    // A stop that is seen after it shows that the first signal was taken.
    scene.who("stubborn").signal(Signal::STOP);
    until("the stop", || {
        (alive(&scene, "stubborn").state == 'T').then_some(())
    });
}

#[test]
fn slow_handler_writes_its_file_when_it_is_continued() {
    let scene = play(&["slow-handler", "1", "stop"]);
    let handler = scene.who("handler");
    assert_eq!(alive(&scene, "handler").state, 'T');
    handler.signal(Signal::TERM);
    assert!(handler.is_alive());
    handler.signal(Signal::CONT);
    until("its end", || (!handler.is_alive()).then_some(()));
    assert!(scene.dir().join("handled").exists());
}

#[test]
fn fork_on_term_has_an_heir() {
    let scene = play(&["fork-on-term"]);
    let testator = scene.who("testator");
    testator.signal(Signal::TERM);
    let heir = scene.await_cast("heir", 1)[0];
    until("its end", || (!testator.is_alive()).then_some(()));
    assert!(heir.is_alive());
}

#[test]
fn hopper_is_somebody_else_all_the_time() {
    let scene = play(&["hopper", "200000"]);
    let mut seen: Vec<_> = Vec::new();
    until("ten hops", || {
        seen.extend(scene.alive().iter().map(|stat| stat.who));
        seen.sort_unstable();
        seen.dedup();
        (seen.len() >= 10).then_some(())
    });
    let alive = seen.iter().filter(|who| who.is_alive()).count();
    assert!(alive <= 2, "{alive} of {} live", seen.len());
}

#[test]
fn pair_replaces_who_dies() {
    let scene = play(&["pair"]);
    for _ in 0..10 {
        let twins = until("two of them", || {
            let alive = scene.alive();
            (alive.len() == 2).then_some(alive)
        });
        twins[0].who.signal(Signal::KILL);
        until("the death", || (!twins[0].who.is_alive()).then_some(()));
    }
}

#[test]
fn supervisor_starts_another_worker() {
    let scene = play(&["supervisor"]);
    for count in 1..10 {
        let workers = scene.await_cast("worker", count);
        workers[count - 1].signal(Signal::TERM);
    }
    scene.await_cast("worker", 10);
    assert!(scene.who("supervisor").is_alive());
}

#[test]
fn fork_bomb_refills_itself() {
    let scene = play(&["fork-bomb", "4"]);
    for round in 1..5 {
        let alive = until("a full house", || {
            let alive = scene.alive();
            (alive.len() >= 4).then_some(alive)
        });
        for stat in alive.into_iter().skip(1) {
            stat.who.signal(Signal::KILL);
        }
        scene.await_cast("bomb", 4 + 3 * round);
    }
}

#[test]
fn crowd_ignores_sigterm() {
    let scene = play(&["crowd", "20"]);
    let crowd = scene.cast("one-of-many");
    assert_eq!(crowd.len(), 20);
    for who in &crowd {
        who.signal(Signal::TERM);
    }
    assert!(crowd.iter().all(|who| who.is_alive()));
    assert_eq!(scene.alive().len(), 20);
}

#[test]
fn subreaper_adopts_the_orphan() {
    let scene = play(&["subreaper"]);
    let subreaper = scene.who("subreaper").pid;
    assert_eq!(alive(&scene, "orphan").parent, subreaper);
}

#[test]
fn subreaper_stays_after_its_program() {
    let scene = Scene::new();
    let program = victim_binary().to_str().unwrap();
    let mut host = scene
        .victim(&["subreaper", program, "double-fork"])
        .spawn()
        .unwrap();
    let status = scene.dir().join("status");
    let code = until("the program's end", || fs::read_to_string(&status).ok());
    assert_eq!(code, "0");
    let subreaper = scene.who("subreaper").pid;
    assert_eq!(alive(&scene, "orphan").parent, subreaper);
    scene.clear();
    host.wait().unwrap();
}

#[test]
fn never_waits_keeps_its_zombie() {
    let scene = Scene::new();
    let mut parent = scene.victim(&["never-waits"]).spawn().unwrap();
    let child = scene.await_cast("child", 1)[0];
    child.signal(Signal::KILL);
    until("a zombie", || (child.life() == Life::Zombie).then_some(()));
    assert!(scene.who("parent").is_alive());
    scene.clear();
    parent.wait().unwrap();
}

#[test]
fn traced_is_stopped_by_its_tracer() {
    let scene = play(&["traced"]);
    assert_eq!(alive(&scene, "tracee").state, 't');
    assert_eq!(alive(&scene, "tracee").parent, scene.who("tracer").pid);
}

#[test]
fn hostile_comm_looks_like_other_fields() {
    let scene = play(&["hostile-comm"]);
    assert_eq!(alive(&scene, "impostor").comm, b"x) R 1 (\n\xff");
}

#[test]
fn big_argv_has_an_empty_and_a_huge_argument() {
    let scene = play(&["big-argv"]);
    let orator = scene.who("orator");
    let cmdline = fs::read(format!("/proc/{}/cmdline", orator.pid)).unwrap();
    let lengths: Vec<usize> = cmdline.split(|byte| *byte == 0).map(<[u8]>::len).collect();
    assert_eq!(lengths[3..5], [0, 100_000]);
}

#[test]
fn vfork_and_posix_spawn_leave_a_child() {
    alive(&play(&["vfork"]), "vforked");
    alive(&play(&["posix-spawn"]), "spawned");
}

#[test]
fn fork_32bit_leaves_a_child() {
    if able(&[Need::Syscalls32]) {
        alive(&play(&["fork-32bit"]), "compat");
    }
}

#[test]
fn low_pid_has_a_child_with_a_lower_pid() {
    if !able(&[Need::Root, Need::File("/proc/sys/kernel/ns_last_pid")]) {
        return;
    }
    let _lock = LastPid::take();
    let scene = Scene::new();
    let mut victim = scene.victim(&["low-pid"]).spawn().unwrap();
    assert!(victim.wait().unwrap().success());
    assert!(alive(&scene, "junior").who.pid.cast_unsigned() < victim.id());
}

#[test]
fn move_cgroup_leaves_for_the_cgroup() {
    if !able(&[Need::Root, Need::Cgroup("cgroup2")]) {
        return;
    }
    let cgroup = Cgroup::new("cgroup2");
    let file = cgroup.file("cgroup.procs");
    let scene = play(&["move-cgroup", file.to_str().unwrap()]);
    let procs = fs::read_to_string(file).unwrap();
    assert_eq!(procs.trim(), scene.who("emigrant").pid.to_string());
    scene.clear();
}
