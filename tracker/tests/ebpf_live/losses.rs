//! What does not fit is counted, and charged to whose it is.

use rustix::process::Signal;
use tracker::source::Gap;
use tracker::source::ebpf::LoadOptions;
use tracker_tests::Scene;

use super::{Gate, events, id, load, now};

#[test]
fn no_member_is_lost_when_nobody_reads_the_ring() {
    let options = LoadOptions {
        ring_bytes: 4096,
        ..LoadOptions::standalone()
    };
    let Some(mut source) = load(options) else {
        return;
    };
    let mut scene = Scene::new();
    // A quiet session beside it has nothing to complain of.
    let quiet_scene = Scene::new();
    let quiet = Gate::script(&quiet_scene, "exit");
    let quiet_session = quiet.member_of(&mut source);
    let script = "i=0; while [ $i -lt 5000 ]; do (:); i=$((i+1)); done; \
                  j=0; while [ $j -lt 100 ]; do (setsid \"$V\" linger late &); j=$((j+1)); done";
    let mut gate = Gate::script(&scene, script);
    let session = gate.member_of(&mut source);
    assert!(gate.finish().success());
    let late = scene.await_cast("late", 100);
    let found = now(&mut source, session);
    for who in &late {
        assert!(found.running.contains(&id(*who)), "{who}");
    }
    assert!(found.gaps.is_empty(), "{:?}", found.gaps);
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    // The records that are there and those that were lost make the whole.
    let counters = source.counters().unwrap();
    assert!(counters.ring_full > 5000, "{counters:?}");
    let lost = format!("{} records of history", counters.ring_full);
    assert!(found.notes[0].starts_with(&lost), "{:?}", found.notes);
    assert!(!events(&mut source).is_empty());
    let beside = now(&mut source, quiet_session);
    assert!(beside.gaps.is_empty() && beside.notes.is_empty());
    for who in now(&mut source, session).running {
        late.iter()
            .filter(|one| id(**one) == who)
            .for_each(|one| one.signal(Signal::KILL));
    }
    drop(gate);
    scene.assert_all_dead();
}

#[test]
fn a_full_map_is_a_gap_of_the_session_whose_children_did_not_fit() {
    let options = LoadOptions {
        capacity: 16,
        ..LoadOptions::standalone()
    };
    let Some(mut source) = load(options) else {
        return;
    };
    let (scene, quiet_scene) = (Scene::new(), Scene::new());
    let mut quiet = Gate::script(&quiet_scene, "\"$V\" linger quiet");
    let quiet_session = quiet.member_of(&mut source);
    quiet.open();
    quiet_scene.await_cast("quiet", 1);
    let mut gate = Gate::script(
        &scene,
        "i=0; while [ $i -lt 40 ]; do \"$V\" linger many & i=$((i+1)); done; wait",
    );
    let session = gate.member_of(&mut source);
    gate.open();
    let many = scene.await_cast("many", 40);
    let found = now(&mut source, session);
    let lost = many
        .iter()
        .filter(|who| !found.running.contains(&id(**who)));
    let lost = u64::try_from(lost.count()).unwrap();
    assert!(lost > 0);
    assert_eq!(found.gaps, [Gap::MembersLost(lost)]);
    assert_eq!(source.counters().unwrap().insert_failed, lost);
    assert_eq!(now(&mut source, quiet_session).gaps, []);
    drop(gate);
}
