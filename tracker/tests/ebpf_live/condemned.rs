//! A fork by a member of a condemned session is answered by SIGKILL.

use std::os::unix::process::ExitStatusExt;

use tracker::lineage::{SessionId, Tag};
use tracker::process::now_boot_ns;
use tracker::source::Source;
use tracker::source::ebpf::EbpfSource;
use tracker_tests::Scene;

use super::{Gate, id, probe};

/// Forks twice, and reports that it is still there.
const FORKER: &str = "(:); (:); exit 42";
const SIGKILL: i32 = 9;
const HOUR_NS: u64 = 3_600_000_000_000;

#[test]
fn a_member_that_forks_dies() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, FORKER);
    let session = gate.member_of(&mut source);
    source.condemn(&[session], now_boot_ns() + HOUR_NS).unwrap();
    assert_eq!(gate.finish().signal(), Some(SIGKILL));
    assert_eq!(source.counters().unwrap().condemned_forks, 1);
}

#[test]
fn a_member_that_does_not_fork_lives() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, "exit 42");
    let session = gate.member_of(&mut source);
    source.condemn(&[session], now_boot_ns() + HOUR_NS).unwrap();
    assert_eq!(gate.finish().code(), Some(42));
}

#[test]
fn a_kept_member_may_fork() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, FORKER);
    let session = SessionId::random().unwrap();
    gate.adopt(
        &mut source,
        Tag {
            session,
            exempt: true,
        },
    );
    source.condemn(&[session], now_boot_ns() + HOUR_NS).unwrap();
    assert_eq!(gate.finish().code(), Some(42));
}

#[test]
fn another_session_may_fork() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, FORKER);
    gate.member_of(&mut source);
    let other = SessionId::random().unwrap();
    source.condemn(&[other], now_boot_ns() + HOUR_NS).unwrap();
    assert_eq!(gate.finish().code(), Some(42));
}

#[test]
fn after_the_deadline_and_after_absolution_a_member_may_fork() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut late = Gate::script(&scene, FORKER);
    let session = late.member_of(&mut source);
    source.condemn(&[session], now_boot_ns()).unwrap();
    assert_eq!(late.finish().code(), Some(42));

    let mut absolved = Gate::script(&scene, FORKER);
    let session = absolved.member_of(&mut source);
    source.condemn(&[session], now_boot_ns() + HOUR_NS).unwrap();
    source.absolve(&[session]).unwrap();
    assert_eq!(absolved.finish().code(), Some(42));
}

#[test]
fn who_is_shielded_may_fork_until_absolution_and_its_children_may_not() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let until_ns = now_boot_ns() + HOUR_NS;
    let mut gate = Gate::script(&scene, "(sh -c '(:); exit 1'); [ $? = 137 ] && exit 42");
    let session = gate.member_of(&mut source);
    source.shield(&[id(gate.who)]).unwrap();
    source.condemn(&[session], until_ns).unwrap();
    assert_eq!(gate.finish().code(), Some(42));

    let mut gate = Gate::script(&scene, FORKER);
    let session = gate.member_of(&mut source);
    source.shield(&[id(gate.who)]).unwrap();
    source.absolve(&[session]).unwrap();
    source.condemn(&[session], until_ns).unwrap();
    assert_eq!(gate.finish().signal(), Some(SIGKILL));
}

#[test]
fn a_child_does_not_run_when_its_session_is_condemned_again() {
    let Some(mut source) = probe() else { return };
    let until_ns = now_boot_ns() + HOUR_NS;
    let is_born = |source: &mut EbpfSource, times: u32| {
        let mut scene = Scene::new();
        let mut gate = Gate::script(&scene, "(: >born); exit 42");
        let session = gate.member_of(source);
        for _ in 0..times {
            source.condemn(&[session], until_ns).unwrap();
        }
        assert_eq!(gate.finish().signal(), Some(SIGKILL));
        drop(gate);
        scene.assert_all_dead();
        let is_born = scene.dir().join("born").exists();
        // Who belongs to another session is not concerned.
        let other_scene = Scene::new();
        let mut other = Gate::script(&other_scene, FORKER);
        other.member_of(source);
        assert_eq!(other.finish().code(), Some(42));
        source.absolve(&[session]).unwrap();
        is_born
    };
    assert!(is_born(&mut source, 1), "nothing kills a child by itself");
    assert!(!is_born(&mut source, 2));
    assert!(is_born(&mut source, 1), "nor after absolution");
}
