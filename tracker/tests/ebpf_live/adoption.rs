//! Sessions that begin with a process that is running already.

use rustix::process::Signal;
use tracker::lineage::{SessionId, Tag};
use tracker::process::{Pid, ProcessId, StartTime};
use tracker::source::ebpf::{EbpfSource, LoadOptions};
use tracker::source::{Adoption, Gap, Source, SourceError};
use tracker_tests::{Scene, Who, until};

use super::{Gate, id, load, now, probe};

#[track_caller]
fn adopt(
    source: &mut EbpfSource,
    root: Who,
    tag: Tag,
    instead_of: Option<SessionId>,
) -> Vec<ProcessId> {
    let adoption = Adoption {
        root: id(root),
        tag,
        fresh: false,
    };
    source.adopt(adoption, instead_of).unwrap()
}

fn new_session() -> SessionId {
    SessionId::random().unwrap()
}

/// A tree of three generations, which lasts.
fn family(scene: &Scene) -> (Gate, Vec<Who>) {
    let mut gate = Gate::script(
        scene,
        "sh -c '\"$V\" linger grandchild & wait' & \"$V\" linger child & wait",
    );
    gate.open();
    let mut all = vec![gate.who];
    all.extend(scene.await_cast("grandchild", 1));
    all.extend(scene.await_cast("child", 1));
    (gate, all)
}

#[test]
fn a_running_tree_is_tagged_whole_and_its_past_is_a_gap() {
    for options in [LoadOptions::standalone(), LoadOptions::daemon()] {
        let Some(mut source) = load(options) else {
            return;
        };
        let scene = Scene::new();
        let (gate, family) = family(&scene);
        let session = new_session();
        let tagged = adopt(&mut source, gate.who, Tag::member(session), None);
        let found = now(&mut source, session);
        for who in family {
            assert!(found.running.contains(&id(who)), "{who} {:?}", found.all);
            assert!(tagged.contains(&id(who)));
        }
        assert_eq!(found.gaps, [Gap::AdoptedLate]);
        // Twice changes nothing.
        assert_eq!(adopt(&mut source, gate.who, Tag::member(session), None), []);
    }
}

#[test]
fn children_of_who_was_adopted_are_members_by_themselves() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, "\"$V\" double-fork; exit 0");
    let session = new_session();
    adopt(&mut source, gate.who, Tag::member(session), None);
    assert!(gate.finish().success());
    assert_eq!(now(&mut source, session).running, [id(scene.who("orphan"))]);
}

#[test]
fn the_innermost_session_keeps_its_members() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let (gate, family) = family(&scene);
    let child = family[2];
    let (inner, outer, third) = (new_session(), new_session(), new_session());
    adopt(&mut source, child, Tag::member(inner), None);
    adopt(&mut source, gate.who, Tag::member(outer), None);
    assert_eq!(now(&mut source, inner).running, [id(child)]);
    assert!(!now(&mut source, outer).running.contains(&id(child)));
    // A session inside of the outer one takes over what was the outer's.
    adopt(&mut source, gate.who, Tag::member(third), Some(outer));
    assert_eq!(now(&mut source, outer).running, []);
    assert_eq!(now(&mut source, inner).running, [id(child)]);
}

#[test]
fn who_is_kept_stays_kept() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let (gate, family) = family(&scene);
    let session = new_session();
    let kept = Tag {
        session,
        exempt: true,
    };
    adopt(&mut source, family[2], kept, None);
    adopt(&mut source, gate.who, Tag::member(session), None);
    assert_eq!(source.tag_of(id(family[2])).unwrap(), Some(kept));
    assert_eq!(
        source.tag_of(id(family[1])).unwrap(),
        Some(Tag::member(session))
    );
}

#[test]
fn a_tree_that_forks_while_it_is_adopted_is_tagged_whole() {
    let Some(mut source) = probe() else { return };
    let mut scene = Scene::new();
    // A chain: each link waits for the next one, so no one is reparented.
    let chain = "#!/bin/sh\n[ -e \"$DIR/on\" ] && [ $1 -lt 300 ] && \"$0\" $(($1+1))\nexit 0\n";
    let program = scene.dir().join("chain");
    std::fs::write(&program, chain).unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let mut gate = Gate::script(
        &scene,
        "while [ -e \"$DIR/on\" ]; do \"$DIR/chain\" 0; done",
    );
    gate.open();
    until("a few links", || (scene.alive().len() > 5).then_some(()));
    let session = new_session();
    adopt(&mut source, gate.who, Tag::member(session), None);
    // Whoever is not a member now would outlive this.
    until("their end", || {
        for member in now(&mut source, session).running {
            let who = Who {
                pid: member.pid.raw(),
                start: member.start_time.ticks(),
            };
            who.signal(Signal::KILL);
        }
        let _ = gate.child.try_wait();
        scene.alive().is_empty().then_some(())
    });
    scene.assert_all_dead();
}

#[test]
fn a_released_session_has_no_members_and_gets_none() {
    for options in [LoadOptions::standalone(), LoadOptions::daemon()] {
        let Some(mut source) = load(options) else {
            return;
        };
        let scene = Scene::new();
        let mut gate = Gate::victim(&scene, &["double-fork"]);
        let session = gate.member_of(&mut source);
        source.release(session).unwrap();
        assert_eq!(now(&mut source, session).running, []);
        assert!(gate.finish().success());
        assert!(scene.who("orphan").is_alive());
        assert_eq!(now(&mut source, session).all, []);
    }
}

#[test]
fn who_is_gone_or_is_another_process_is_not_adopted() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let gate = Gate::script(&scene, "exit");
    let later = StartTime::from_ticks(gate.who.start + 1);
    for root in [
        ProcessId::new(id(gate.who).pid, later),
        ProcessId::new(Pid::new(i64::from(i32::MAX)).unwrap(), later),
    ] {
        for fresh in [true, false] {
            let tag = Tag::member(new_session());
            let answer = source.adopt(Adoption { root, tag, fresh }, None);
            assert!(matches!(answer, Err(SourceError::Gone(id)) if id == root));
        }
    }
}
