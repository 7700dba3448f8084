//! `reap --dir`: who is in a directory, and who only seems to be by a name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tracker_tests::{Canary, Dweller, Ended, Scene, until};

fn reap(scene: &Scene, dir: &Path, flags: &[&str]) -> Ended {
    let dir = dir.to_str().expect("a name in UTF-8");
    let arguments = ["reap", "--grace", "60s", "--json", "--dir", dir];
    scene.tracker(&arguments).args(flags).finish()
}

#[test]
fn a_directory_that_is_reached_by_a_link_is_not_the_one_with_a_longer_name() {
    let scene = Scene::new();
    let canary = Canary::new();
    symlink("w", scene.dir().join("l")).expect("a link");
    let inside = Dweller::new(&scene, &scene.dir().join("w/job-1"));
    let longer = Dweller::new(&scene, &scene.dir().join("w/job-10"));
    let through_link = Dweller::new(&scene, &scene.dir().join("l/job-1/a"));
    let ended = reap(&scene, &scene.dir().join("l/job-1"), &["--live"]);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    assert_eq!(report.processes().len(), 2, "{report}");
    for dweller in [&inside, &through_link] {
        let entry = report.entry(dweller.who());
        assert_eq!(entry.outcome(), "terminated", "{report}");
        assert!(entry.evidence().starts_with("cwd: "), "{report}");
        assert!(!dweller.is_alive());
    }
    assert!(longer.is_alive() && !report.mentions(longer.who()));
    canary.assert_lives();
}

#[test]
fn a_removed_directory_is_not_the_one_that_is_called_removed() {
    let scene = Scene::new();
    let removed = scene.dir().join("w/job");
    let inside = [
        Dweller::new(&scene, &removed),
        Dweller::new(&scene, &removed.join("a/b")),
    ];
    let outside = [
        Dweller::new(&scene, &scene.dir().join("w/job (deleted)")),
        Dweller::new(&scene, &scene.dir().join("w/job (deleted)/a")),
        Dweller::new(&scene, &scene.dir().join("w/other (deleted)")),
        Dweller::new(&scene, &scene.dir().join("w")),
    ];
    fs::remove_dir_all(&removed).expect("to remove it");
    fs::remove_dir_all(scene.dir().join("w/other (deleted)")).expect("to remove it");
    let ended = reap(&scene, &removed, &[]);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    assert_eq!(report.processes().len(), 2, "{report}");
    assert!(!inside.iter().any(Dweller::is_alive));
    assert!(outside.iter().all(Dweller::is_alive));
    // Nobody is left, so nothing says that there ever was one.
    let again = reap(&scene, &removed, &[]);
    again.assert_code(1);
    assert!(again.assert_one_line().contains("there is no directory"));
    assert!(again.stdout.is_empty());
}

#[test]
fn who_left_the_directory_is_not_covered_and_the_report_says_so() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let script = "cd /; exec sleep 600";
    let mut command = scene.command("sh");
    let left = Dweller::from_command(command.args(["-c", script]).current_dir(&job));
    left.await_comm("sleep");
    let ended = reap(&scene, &job, &["--live"]);
    ended.assert_code(0);
    let report = ended.printed_report();
    assert!(report.processes().is_empty(), "{report}");
    assert!(report.reasons().contains("not covered"), "{report}");
    assert!(left.is_alive());
}

#[test]
fn a_leader_that_has_exited_hides_nobody() {
    let mut scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let status = scene.victim(&["leader-exits"]).current_dir(&job).status();
    assert!(status.expect("the victim").success());
    let (leaderless, child) = (scene.who("leaderless"), scene.who("late-child"));
    let link = fs::read_link(format!("/proc/{}/cwd", leaderless.pid));
    assert!(link.is_err(), "its leader was to hide it: {link:?}");
    let ended = reap(&scene, &job, &["--live"]);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    for who in [leaderless, child] {
        assert_eq!(report.entry(who).outcome(), "terminated", "{report}");
    }
    scene.assert_all_dead();
}

#[test]
fn a_directory_that_stays_is_refused_and_bad_names_are_errors() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    fs::write(scene.dir().join("file"), "").expect("a file");
    let refused = reap(&scene, &job, &[]);
    refused.assert_code(5);
    assert!(refused.assert_one_line().contains("--live"));
    for (dir, code, says) in [
        ("job", 1, "not an absolute path"),
        ("/", 5, "/ is nobody's"),
        ("/nonexistent/job", 1, "there is no directory"),
    ] {
        let ended = reap(&scene, Path::new(dir), &["--live"]);
        ended.assert_code(code);
        assert!(ended.assert_one_line().contains(says), "{ended:?}");
    }
    let file = reap(&scene, &scene.dir().join("file"), &["--live"]);
    file.assert_code(1);
    assert!(file.assert_one_line().contains("not a directory"));
    assert!(inside.is_alive());
}

#[test]
fn a_dry_run_names_them_and_leaves_them_alone() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    let ended = reap(&scene, &job, &["--live", "--dry-run"]);
    ended.assert_code(4);
    let report = ended.printed_report();
    assert_eq!(report.entry(inside.who()).outcome(), "skipped", "{report}");
    assert!(inside.is_alive());
}

#[test]
fn whoever_writes_into_a_directory_from_inside_does_not_bring_it_back() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let writer = "trap '' TERM; while :; do mkdir -p t; : >t/$$; done";
    let mut command = scene.command("setsid");
    let _writer = Dweller::from_command(command.args(["sh", "-c", writer]).current_dir(&job));
    until("what it writes", || job.join("t").exists().then_some(()));
    let dir = job.to_str().expect("a name in UTF-8");
    let ended = scene
        .tracker(&["reap", "--grace", "0", "--live", "--dir", dir])
        .finish();
    ended.assert_code(0);
    fs::remove_dir_all(&job).expect("nobody writes into it any more");
    assert!(!job.exists());
}
