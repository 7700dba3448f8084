//! Many processes that come and go leave nothing behind.

use std::time::{Duration, Instant};

use tracker::source::ebpf::LoadOptions;
use tracker_tests::{Need, Scene, able, until};

use super::{Gate, Sessions, resident, size};

/// So many are created between two looks.
const BATCH: u64 = 20_000;

#[test]
fn memory_is_flat_and_the_map_holds_the_living() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    // Seconds, which a drill is asked for; the number that was reached is told.
    let end = Instant::now() + Duration::from_secs(size(0));
    let sessions = Sessions::new(LoadOptions::standalone());
    let (mut forks, mut dead, mut sizes) = (0, 0, Vec::new());
    loop {
        let mut scene = Scene::new();
        let mut gate = Gate::new(&scene, &format!("exec \"$V\" forks {BATCH}"));
        let session = sessions.open(gate.who);
        gate.open();
        while gate.child.try_wait().unwrap().is_none() {
            sessions.lock().pump().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        forks += BATCH;
        sizes.push(resident());
        // Of all of them one is left, and the kernel's map says so. It may hold
        // some of the dead as well, marked as such: not every kernel tells of
        // every release.
        let left = scene.who("left");
        let members = until("a map of the living", || {
            let members = sessions.lock().members(session).unwrap().found;
            let living = members.iter().filter(|member| !member.exiting);
            (living.count() == 1).then_some(members)
        });
        let living = members.iter().find(|member| !member.exiting);
        assert_eq!(living.map(|member| member.id), Some(super::id(left)));
        dead += members.len() - 1;
        sessions.reap(session, Duration::ZERO);
        scene.assert_all_dead();
        sessions.lock().close(session).unwrap();
        if Instant::now() >= end && sizes.len() >= 2 {
            break;
        }
    }
    // What is remembered of the dead is bounded; it fills up first.
    let (early, late) = sizes.split_at(sizes.len().div_ceil(2));
    let (before, after) = (early.iter().max().unwrap(), late.iter().max().unwrap());
    println!(
        "{forks} forks: {before} KiB in the first half, {after} KiB in the second; the map held \
         the living, and {dead} of the dead right after their death"
    );
    if sizes.len() > 20 {
        assert!(
            *after < before + 2048,
            "it grew from {before} to {after} KiB"
        );
    }
}
