//! `run --workdir`: the command's session ends first, then its directory is swept.

use std::fs;

use tracker_tests::{Canary, Dweller, Need, Scene, Source, able, until};

/// Somebody outside of the session enters the directory while the command runs.
fn delegated(source: Source) {
    let mut scene = Scene::new();
    let canary = Canary::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let script =
        "\"$V\" double-fork; : >\"$DIR/ready\"; until [ -e \"$DIR/go\" ]; do sleep 0.01; done";
    let dir = job.to_str().expect("a name in UTF-8").to_owned();
    let flags = format!("--grace 60s --workdir {dir}");
    let running = scene.run(source, &flags).sh(script).start();
    until("the command", || {
        scene.dir().join("ready").exists().then_some(())
    });
    let stray = Dweller::new(&scene, &job);
    let beside = Dweller::new(&scene, &scene.dir().join("job-1"));
    scene.touch("go");
    let ended = running.finish();
    ended.assert_code(0);
    let report = ended.report();
    report.assert_complete();
    let entry = report.entry(stray.who());
    assert_eq!(entry.outcome(), "terminated", "{report}");
    assert!(entry.evidence().starts_with("cwd: "), "{report}");
    let orphan = scene.cast("orphan");
    assert!(!orphan.is_empty());
    for who in orphan {
        assert!(
            report.entry(who).evidence().contains("lineage: "),
            "{report}"
        );
    }
    assert!(beside.is_alive() && !stray.is_alive());
    canary.assert_lives();
    drop(beside);
    scene.assert_all_dead();
}

#[test]
fn what_lineage_could_not_own_is_swept_from_the_directory() {
    if able(&[Need::Ebpf]) {
        delegated(Source::Ebpf);
    }
}

#[test]
fn the_directory_is_swept_without_the_probe_as_well() {
    delegated(Source::Procfs);
}

#[test]
fn a_removed_workdir_is_known_when_another_has_its_path() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let dir = job.to_str().expect("a name in UTF-8");
    let script = ": >\"$DIR/ready\"; until [ -e \"$DIR/go\" ]; do sleep 0.01; done";
    let flags = format!("--grace 60s --workdir {dir}");
    let running = scene.run(Source::Procfs, &flags).sh(script).start();
    until("the command", || {
        scene.dir().join("ready").exists().then_some(())
    });
    let old = Dweller::new(&scene, &job.join("a"));
    fs::remove_dir_all(&job).expect("to remove it");
    let new = Dweller::new(&scene, &job.join("a"));
    scene.touch("go");
    running.finish().assert_code(0);
    assert!(new.is_alive() && !old.is_alive());
}

#[test]
fn a_workdir_that_makes_no_sense_keeps_the_command_from_starting() {
    let scene = Scene::new();
    for dir in ["job", "/nonexistent/job", "/"] {
        let flags = format!("--workdir {dir}");
        let ended = scene
            .run(Source::Procfs, &flags)
            .sh(": >\"$DIR/ran\"")
            .finish();
        ended.assert_code(125);
        ended.assert_one_line();
    }
    assert!(!scene.dir().join("ran").exists());
}
