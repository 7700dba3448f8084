//! Who is a member, from its creation until the kernel lets go of it.

use rustix::process::Signal;
use tracker::lineage::Event;
use tracker::source::Source;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::{Canary, Life, Need, Scene, able, proc, until};

use super::{Gate, events, id, load, now, probe};

/// Plays a victim in a session; those in its roles must be members.
#[track_caller]
fn members_are(arguments: &[&str], roles: &[&str]) {
    let Some(mut source) = probe() else { return };
    let mut scene = Scene::new();
    let outsider = Canary::new();
    let mut gate = Gate::victim(&scene, arguments);
    let session = gate.member_of(&mut source);
    assert!(gate.finish().success());
    let now = now(&mut source, session);
    assert!(now.gaps.is_empty(), "{:?}", now.gaps);
    for role in roles {
        for who in scene.cast(role) {
            assert!(
                now.running.contains(&id(who)),
                "{role} {who}: {:?}",
                now.all
            );
        }
    }
    assert!(now.all.iter().all(|member| member.id != id(outsider.who())));
    // Ending the members ends everybody who holds the pipe.
    for who in roles.iter().flat_map(|role| scene.cast(role)) {
        who.signal(Signal::KILL);
    }
    scene.assert_all_dead();
}

#[test]
fn a_double_forked_orphan_is_a_member() {
    members_are(&["double-fork"], &["orphan"]);
}

#[test]
fn a_sibling_by_clone_parent_is_a_member_and_its_creator_is_who_cloned() {
    members_are(&["clone-parent"], &["sibling"]);
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["clone-parent"]);
    let session = gate.member_of(&mut source);
    assert!(gate.finish().success());
    let sibling = scene.who("sibling");
    // The parent is this process.
    let parent = proc::stat(sibling.pid).unwrap().parent;
    assert_eq!(parent, proc::own_pid());
    let members = now(&mut source, session).all;
    let sibling = members.iter().find(|member| member.id == id(sibling));
    assert_eq!(sibling.unwrap().creator, Some(id(gate.who)));
}

#[test]
fn children_by_vfork_posix_spawn_and_threads_are_members() {
    members_are(&["vfork"], &["vforked"]);
    members_are(&["posix-spawn"], &["spawned"]);
    members_are(&["thread-fork"], &["child-of-thread"]);
}

#[test]
fn a_child_by_a_32_bit_call_is_a_member() {
    if able(&[Need::Syscalls32]) {
        members_are(&["fork-32bit"], &["compat"]);
    }
}

#[test]
fn an_orphan_of_a_subreaper_is_a_member() {
    members_are(&["subreaper"], &["subreaper", "orphan"]);
}

#[test]
fn a_child_of_a_process_whose_leader_exited_is_a_member() {
    members_are(&["leader-exits"], &["leaderless", "late-child"]);
}

#[test]
fn a_process_lives_until_its_last_thread_ends() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["leader-exits"]);
    let session = gate.member_of(&mut source);
    assert!(gate.finish().success());
    let leaderless = scene.who("leaderless");
    assert_eq!(proc::stat(leaderless.pid).unwrap().state, 'Z');
    assert!(now(&mut source, session).running.contains(&id(leaderless)));
    let is_exit = |event: &Event| matches!(event, Event::Exit(exit) if exit.id == id(leaderless));
    assert!(!events(&mut source).iter().any(is_exit));
    leaderless.signal(Signal::KILL);
    until("its exit", || {
        events(&mut source).iter().any(is_exit).then_some(())
    });
    assert!(!now(&mut source, session).running.contains(&id(leaderless)));
}

#[test]
fn threads_are_no_processes() {
    let Some(mut source) = load(LoadOptions::daemon()) else {
        return;
    };
    events(&mut source);
    let who = std::thread::spawn(|| rustix::thread::gettid().as_raw_pid());
    let thread = who.join().unwrap();
    let forked = events(&mut source)
        .iter()
        .any(|event| matches!(event, Event::Fork(fork) if fork.child.pid.raw() == thread));
    assert!(!forked);
}

#[test]
fn a_zombie_stays_as_one_that_cannot_fork_until_it_is_waited_for() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, "exit 3");
    let session = gate.member_of(&mut source);
    gate.open();
    until("a zombie", || {
        (gate.who.life() == Life::Zombie).then_some(())
    });
    let found = now(&mut source, session);
    assert_eq!(found.running, []);
    assert_eq!(found.all.len(), 1, "{:?}", found.all);
    assert!(found.all[0].exiting && found.all[0].id == id(gate.who));
    gate.child.wait().unwrap();
    until("the entry to go", || {
        now(&mut source, session).all.is_empty().then_some(())
    });
    assert_eq!(source.tag_of(id(gate.who)).unwrap(), None);
}

#[test]
fn two_probes_do_not_disturb_each_other() {
    let Some(mut one) = probe() else { return };
    let Some(mut other) = load(LoadOptions::daemon()) else {
        return;
    };
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["double-fork"]);
    let session = gate.member_of(&mut one);
    let of_other = gate.member_of(&mut other);
    assert!(gate.finish().success());
    let orphan = id(scene.who("orphan"));
    assert_eq!(now(&mut other, of_other).running, [orphan]);
    drop(other);
    assert_eq!(now(&mut one, session).running, [orphan]);
}

#[test]
fn a_probe_for_sessions_records_nobody_else_and_one_for_the_host_everybody() {
    let Some(mut sessions) = probe() else { return };
    let Some(mut host) = load(LoadOptions::daemon()) else {
        return;
    };
    let outsider = Canary::new();
    let of_outsider = |events: Vec<Event>| {
        events
            .iter()
            .any(|event| matches!(event, Event::Fork(fork) if fork.child == id(outsider.who())))
    };
    assert!(!of_outsider(events(&mut sessions)));
    assert!(of_outsider(events(&mut host)));
    assert_eq!(host.tag_of(id(outsider.who())).unwrap(), None);
}

#[test]
fn who_was_there_before_a_probe_for_the_host_is_reported() {
    let before = Canary::new();
    let Some(mut host) = load(LoadOptions::daemon()) else {
        return;
    };
    let snapshot = events(&mut host).into_iter().find_map(|event| match event {
        Event::Snapshot(snapshot) if snapshot.id == id(before.who()) => Some(snapshot),
        _ => None,
    });
    let snapshot = snapshot.expect("a snapshot");
    assert_eq!(snapshot.parent.unwrap().pid.raw(), proc::own_pid());
    assert_eq!(snapshot.comm, b"sleep");
    assert_eq!(snapshot.argv.unwrap(), [b"sleep".to_vec(), b"600".to_vec()]);
}
