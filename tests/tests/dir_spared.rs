//! `reap --dir`: who is in a directory, and is left alone all the same.

use std::fs;

use tracker_tests::{Dweller, Scene, until};

#[test]
fn who_asks_and_its_ancestors_are_spared_though_they_are_inside() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    let script = "\"$T\" reap --grace 60s --live --json --dir \"$DIR/job\" >\"$DIR/report\"; \
                  echo $? >\"$DIR/status\"; exec sleep 600";
    let mut command = scene.command("sh");
    command
        .args(["-c", script])
        .current_dir(&job)
        .env("T", tracker_tests::tracker_binary());
    let shell = Dweller::from_command(&mut command);
    let status = until("its end", || {
        let status = fs::read_to_string(scene.dir().join("status")).ok()?;
        status.ends_with('\n').then_some(status)
    });
    assert_eq!(status, "0\n");
    let report = fs::read_to_string(scene.dir().join("report")).expect("a report");
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let report = tracker_tests::Report(report);
    report.assert_complete();
    assert_eq!(
        report.spared_entry(shell.who()).reason(),
        "protected",
        "{report}"
    );
    // tracker itself as well.
    let spared = report.spared();
    assert!(
        spared.iter().any(|entry| entry.comm() == "tracker"),
        "{report}"
    );
    assert!(shell.is_alive() && !inside.is_alive());
}

#[test]
fn the_directory_among_somebodys_arguments_says_nothing() {
    let scene = Scene::new();
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    let mut command = scene.command("sh");
    let script = "sleep 600 & wait";
    let outsider = Dweller::from_command(command.args(["-c", script]).arg(&job).current_dir("/"));
    let dir = job.to_str().expect("a name in UTF-8");
    let ended = scene
        .tracker(&["reap", "--live", "--json", "--dir", dir])
        .finish();
    ended.assert_code(0);
    let report = ended.printed_report();
    assert!(!report.mentions(outsider.who()), "{report}");
    assert!(outsider.is_alive() && !inside.is_alive());
}
