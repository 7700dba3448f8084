//! `reap --dir` with many processes, of which some cannot be ended.

use std::fs;

use tracker_tests::{Cgroup, Need, Scene, able, proc};

const ALL: usize = 2000;
const FROZEN: usize = 500;

#[test]
fn those_that_cannot_be_ended_do_not_keep_the_others_alive() {
    // Of this hierarchy a frozen process does not even get SIGKILL.
    if !able(&[Need::Root, Need::Cgroup("freezer")]) {
        return;
    }
    let mut scene = Scene::new();
    let cgroup = Cgroup::new("freezer");
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let status = scene
        .victim(&["crowd", &ALL.to_string()])
        .current_dir(&job)
        .status();
    assert!(status.expect("the victim").success());
    let mut crowd = scene.cast("one-of-many");
    crowd.sort_unstable();
    assert_eq!(crowd.len(), ALL);
    let (frozen, others) = crowd.split_at(FROZEN);
    for who in frozen {
        cgroup.write("cgroup.procs", &who.pid.to_string());
    }
    cgroup.write("freezer.state", "FROZEN");
    cgroup.await_content("freezer.state", "FROZEN");
    let dir = job.to_str().expect("a name in UTF-8");
    let ended = scene
        .tracker(&["reap", "--grace", "0", "--live", "--json", "--dir", dir])
        .finish();
    let alive = |crowd: &[proc::Who]| crowd.iter().filter(|who| who.is_alive()).count();
    let left = (alive(frozen), alive(others));
    cgroup.write("freezer.state", "THAWED");
    ended.assert_code(3);
    assert_eq!(left, (FROZEN, 0));
    let report = ended.printed_report();
    assert_eq!(report.verdict(), "survivors");
    assert_eq!(report.count("survived"), FROZEN as u64);
    assert_eq!(report.count("killed"), (ALL - FROZEN) as u64);
    // They got the signal, and die as soon as they can.
    scene.assert_all_dead();
}
