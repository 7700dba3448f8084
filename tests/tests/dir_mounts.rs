//! `reap --dir` and mounts: what is told apart though its path is the same, and
//! what is the same though its path is another. All in mount namespaces of
//! their own.

use std::fs;
use std::path::Path;

use tracker_tests::{Dweller, Ended, Need, Report, Scene, able, until};

fn reap(scene: &Scene, dir: &Path) -> Ended {
    let dir = dir.to_str().expect("a name in UTF-8");
    let arguments = ["reap", "--grace", "60s", "--json", "--live", "--dir", dir];
    scene.tracker(&arguments).finish()
}

/// Runs a script in a mount namespace of its own; it sleeps when it is done.
fn elsewhere(scene: &Scene, script: &str) -> Dweller {
    let script = format!("set -e; {script}; exec sleep 600");
    let mut command = scene.command("unshare");
    let dweller = Dweller::from_command(command.args(["-m", "sh", "-c", &script]));
    dweller.await_comm("sleep");
    dweller
}

fn needs() -> bool {
    able(&[Need::Root, Need::Program("unshare")])
}

#[track_caller]
fn assert_only(report: &Report, dweller: &Dweller) {
    report.assert_complete();
    assert_eq!(report.processes().len(), 1, "{report}");
    assert_eq!(
        report.entry(dweller.who()).outcome(),
        "terminated",
        "{report}"
    );
}

#[test]
fn the_same_path_in_another_mount_namespace_is_another_directory() {
    if !needs() {
        return;
    }
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job.join("a"));
    let script = "mount -t tmpfs none \"$DIR/job\"; mkdir \"$DIR/job/a\"; cd \"$DIR/job/a\"";
    let other = elsewhere(&scene, script);
    let link = fs::read_link(format!("/proc/{}/cwd", other.who().pid));
    assert_eq!(
        link.expect("its link"),
        job.join("a"),
        "the paths were to be the same"
    );
    let ended = reap(&scene, &job);
    ended.assert_code(0);
    assert_only(&ended.printed_report(), &inside);
    assert!(other.is_alive() && !inside.is_alive());
}

#[test]
fn a_directory_that_is_mounted_elsewhere_is_the_same() {
    if !needs() {
        return;
    }
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir_all(job.join("a/b")).expect("a directory");
    fs::create_dir(scene.dir().join("m")).expect("a directory");
    // The directory, one inside of it, and one around it.
    let whole = elsewhere(
        &scene,
        "mount --bind \"$DIR/job\" \"$DIR/m\"; cd \"$DIR/m/a\"",
    );
    let part = elsewhere(
        &scene,
        "mount --bind \"$DIR/job/a\" \"$DIR/m\"; cd \"$DIR/m/b\"",
    );
    let around = elsewhere(
        &scene,
        "mount --bind \"$DIR\" \"$DIR/m\"; cd \"$DIR/m/job\"",
    );
    let beside = elsewhere(&scene, "mount --bind \"$DIR\" \"$DIR/m\"; cd \"$DIR/m\"");
    let ended = reap(&scene, &job);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    assert_eq!(report.processes().len(), 3, "{report}");
    for dweller in [&whole, &part, &around] {
        assert!(!dweller.is_alive(), "{report}");
    }
    assert!(beside.is_alive());
}

#[test]
fn a_file_system_that_is_mounted_inside_belongs_to_it() {
    if !needs() {
        return;
    }
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir_all(job.join("m")).expect("a directory");
    let script = "mount -t tmpfs none \"$DIR/job/m\"; mkdir \"$DIR/job/m/a\"; cd \"$DIR/job/m/a\"";
    let inside = elsewhere(&scene, script);
    let ended = reap(&scene, &job);
    ended.assert_code(0);
    assert_only(&ended.printed_report(), &inside);
}

#[test]
fn what_was_unmounted_lazily_is_not_the_directory_that_its_path_names_now() {
    if !needs() {
        return;
    }
    let scene = Scene::new();
    let sub = scene.dir().join("sub");
    let inside = Dweller::new(&scene, &sub);
    fs::create_dir(scene.dir().join("m")).expect("a directory");
    // Taken out of the tree, its link tells the path below its own root.
    let script = "mount -t tmpfs none \"$DIR/m\"; mkdir -p \"$DIR/m$DIR/sub\"; \
                  cd \"$DIR/m$DIR/sub\"; umount -l \"$DIR/m\"";
    let detached = elsewhere(&scene, script);
    let link = fs::read_link(format!("/proc/{}/cwd", detached.who().pid));
    assert_eq!(
        link.expect("its link"),
        sub,
        "the paths were to be the same"
    );
    let ended = reap(&scene, &sub);
    ended.assert_code(0);
    assert_only(&ended.printed_report(), &inside);
    assert!(detached.is_alive());
}

#[test]
fn a_workdir_that_was_unmounted_lazily_is_still_the_one_that_was_meant() {
    if !needs() {
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.dir().join("m")).expect("a directory");
    // Whoever is started by somebody outside is no descendant of the command.
    let script = "mount -t tmpfs none \"$DIR/m\"; mkdir \"$DIR/m/job\"; \
                  (until [ -e \"$DIR/go\" ]; do sleep 0.01; done; \
                   cd \"$DIR/m/job\"; umount -l \"$DIR/m\"; : >\"$DIR/went\"; exec sleep 600) & \
                  \"$T\" run --workdir \"$DIR/m/job\" --report \"$DIR/report\" -- \
                  sh -c ': >\"$DIR/go\"; until [ -e \"$DIR/went\" ]; do sleep 0.01; done'; \
                  echo $? >\"$DIR/status\"";
    let mut command = scene.command("unshare");
    command
        .args(["-m", "sh", "-c", script])
        .env("T", tracker_tests::tracker_binary());
    let shell = Dweller::from_command(&mut command);
    let status = until("its end", || {
        let status = fs::read_to_string(scene.dir().join("status")).ok()?;
        status.ends_with('\n').then_some(status)
    });
    assert_eq!(status, "0\n");
    let report = fs::read_to_string(scene.dir().join("report")).expect("a report");
    assert!(report.contains("\"cwd\""), "{report}");
    drop(shell);
    let left: Vec<_> = scene
        .alive()
        .into_iter()
        .filter(|stat| stat.comm == b"sleep")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
