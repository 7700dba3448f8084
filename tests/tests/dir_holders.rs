//! `reap --dir`: who uses files of a directory without being in it.

use std::fs;

use tracker_tests::{Dweller, Need, Scene, able};

/// Somebody outside who holds a file of the directory open that is deleted.
fn holder(scene: &Scene) -> Dweller {
    let job = scene.dir().join("job");
    fs::create_dir_all(&job).expect("a directory");
    // Sparse: its size is what counts.
    let file = fs::File::create(job.join("log")).expect("a file");
    file.set_len(200_000_000).expect("200 MB");
    let mut command = scene.command("sh");
    let script = "exec 7<\"$DIR/job/log\"; exec sleep 600";
    let holder = Dweller::from_command(command.args(["-c", script]).current_dir("/"));
    holder.await_comm("sleep");
    fs::remove_dir_all(&job).expect("to remove it");
    holder
}

fn reap(scene: &Scene, flags: &[&str]) -> tracker_tests::Ended {
    let job = scene.dir().join("job");
    let dir = job.to_str().expect("a name in UTF-8");
    scene
        .tracker(&["reap", "--grace", "60s", "--dir", dir])
        .args(flags)
        .finish()
}

#[test]
fn a_large_deleted_file_that_is_held_is_reported_and_its_holder_spared() {
    let scene = Scene::new();
    let holder = holder(&scene);
    let ended = reap(&scene, &["--json"]);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    assert!(report.processes().is_empty(), "{report}");
    let holders = report.0["holders"].as_array().expect("holders");
    let [one] = holders.as_slice() else {
        panic!("{report}")
    };
    assert_eq!(one["pid"], holder.who().pid, "{report}");
    let file = &one["files"][0];
    assert_eq!(file["size"], 200_000_000, "{report}");
    assert_eq!(
        (&file["kind"], &file["deleted"]),
        (&"file".into(), &true.into())
    );
    let path = scene.dir().join("job/log");
    assert_eq!(file["path"], path.to_str().expect("a name in UTF-8"));
    // And for people.
    let said = reap(&scene, &[]).stdout;
    assert!(
        said.contains("still uses: ") && said.contains("(deleted, 200.0 MB)"),
        "{said}"
    );
    assert!(holder.is_alive());
}

#[test]
fn a_holder_is_ended_when_that_is_asked_for() {
    let scene = Scene::new();
    let holder = holder(&scene);
    let ended = reap(&scene, &["--json", "--open-files"]);
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    let entry = report.entry(holder.who());
    assert_eq!(entry.outcome(), "terminated", "{report}");
    assert!(entry.evidence().starts_with("open_file: "), "{report}");
    assert!(!holder.is_alive());
}

#[test]
fn a_file_of_a_directory_that_had_the_path_before_is_no_reason() {
    let scene = Scene::new();
    let holder = holder(&scene);
    // Another directory, at the path that the kernel remembers of the file.
    let inside = Dweller::new(&scene, &scene.dir().join("job"));
    let ended = reap(&scene, &["--json", "--open-files", "--live"]);
    let report = ended.printed_report();
    assert_eq!(
        report.spared_entry(holder.who()).reason(),
        "inconclusive",
        "{report}"
    );
    assert!(holder.is_alive() && !inside.is_alive());
}

#[test]
fn a_file_at_the_same_path_of_another_mount_namespace_is_no_reason() {
    if !able(&[Need::Root, Need::Program("unshare")]) {
        return;
    }
    let scene = Scene::new();
    let inside = Dweller::new(&scene, &scene.dir().join("job"));
    let script = "mount -t tmpfs none \"$DIR/job\" && exec 7>\"$DIR/job/log\" && cd / && \
                  exec sleep 600";
    let mut command = scene.command("unshare");
    let other = Dweller::from_command(command.args(["-m", "sh", "-c", script]));
    other.await_comm("sleep");
    let ended = reap(&scene, &["--json", "--open-files", "--live"]);
    let report = ended.assert_code(0).printed_report();
    assert!(!report.mentions(other.who()), "{report}");
    let holders = report.0["holders"].to_string();
    assert!(!holders.contains(&other.who().pid.to_string()), "{report}");
    assert!(other.is_alive() && !inside.is_alive());
}
