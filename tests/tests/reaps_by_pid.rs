//! `reap --pid`: a process and its descendants, as far as `/proc` shows them.

use tracker_tests::{Canary, Life, Running, Scene, Who, until};

/// Starts a script that is in no session, and waits until somebody is in `role`.
fn start(scene: &Scene, script: &str, role: &str) -> (std::process::Child, Who) {
    let mut command = scene.command("sh");
    let child = command.args(["-c", script]).spawn().unwrap();
    scene.await_cast(role, 1);
    let who = Who::with_pid(child.id());
    (child, who)
}

const FAMILY: &str = "\"$V\" linger lone & \"$V\" never-waits & wait";

fn await_family(scene: &Scene) -> [Who; 3] {
    ["lone", "child", "parent"].map(|role| scene.await_cast(role, 1)[0])
}

#[test]
fn a_process_and_its_descendants_are_ended() {
    let mut scene = Scene::new();
    let canary = Canary::new();
    let (mut root, root_who) = start(&scene, FAMILY, "child");
    let family = await_family(&scene);
    let reap = [
        "reap",
        "--grace",
        "60s",
        "--json",
        "--pid",
        &root_who.to_string(),
    ];
    let ended = scene.tracker(&reap).finish();
    // What was reparented before is unknown to a look at /proc.
    ended.assert_code(4);
    let report = ended.printed_report();
    report.assert_consistent();
    assert_eq!(report.verdict(), "incomplete", "{report}");
    assert_eq!(report.0["source"], "procfs");
    assert_eq!(report.0["target"]["pid"], root_who.pid);
    assert_eq!(report.0["target"]["start_ticks"], root_who.start);
    assert_eq!(report.processes().len(), 4, "{report}");
    for who in family.into_iter().chain([root_who]) {
        assert_eq!(report.entry(who).outcome(), "terminated", "{report}");
        assert!(!who.is_alive());
    }
    // Its parent, this test, has not waited: a zombie is dead.
    assert_eq!(root_who.life(), Life::Zombie);
    root.wait().unwrap();
    canary.assert_lives();
    scene.assert_all_dead();
}

#[test]
fn a_bare_pid_will_do() {
    let scene = Scene::new();
    let (mut root, root_who) = start(&scene, "exec \"$V\" linger root", "root");
    let pid = root_who.pid.to_string();
    scene
        .tracker(&["reap", "--pid", &pid, "--grace", "60s"])
        .finish()
        .assert_code(4);
    assert_eq!(root_who.life(), Life::Zombie);
    root.wait().unwrap();
}

#[test]
fn the_root_is_left_alone_if_that_is_asked() {
    let scene = Scene::new();
    let (mut root, root_who) = start(&scene, FAMILY, "child");
    let [lone, grandchild, parent] = await_family(&scene);
    let parent_name = parent.to_string();
    let flags = [
        "reap",
        "--grace",
        "60s",
        "--json",
        "--exclude-root",
        "--pid",
        &parent_name,
    ];
    let report = scene.tracker(&flags).finish().printed_report();
    // The parent never waits for its child, which is dead all the same.
    assert_eq!(grandchild.life(), Life::Zombie);
    assert_eq!(report.entry(grandchild).outcome(), "terminated", "{report}");
    assert!(parent.is_alive() && lone.is_alive() && root_who.is_alive());
    assert_eq!(report.processes().len(), 1, "{report}");
    scene.clear();
    root.wait().unwrap();
}

#[test]
fn a_dry_run_signals_nobody_and_lists_everybody() {
    let scene = Scene::new();
    let (mut root, root_who) = start(&scene, FAMILY, "child");
    let family = await_family(&scene);
    let reap = [
        "reap",
        "--dry-run",
        "--json",
        "--pid",
        &root_who.to_string(),
    ];
    let report = scene.tracker(&reap).finish().printed_report();
    assert_eq!(report.0["dry_run"], true);
    assert_ne!(report.verdict(), "complete", "{report}");
    assert_eq!(report.processes().len(), 4, "{report}");
    for who in family.into_iter().chain([root_who]) {
        let entry = report.entry(who);
        assert_eq!(
            (entry.outcome(), entry.signals()),
            ("skipped", vec![]),
            "{report}"
        );
        assert!(who.is_alive());
    }
    scene.clear();
    root.wait().unwrap();
}

#[test]
fn an_orphan_that_left_before_makes_it_incomplete() {
    let scene = Scene::new();
    let script = "\"$V\" two-generations; exec \"$V\" linger root";
    let (mut root, root_who) = start(&scene, script, "root");
    let orphan = scene.who("orphan");
    let reap = [
        "reap",
        "--grace",
        "60s",
        "--json",
        "--pid",
        &root_who.to_string(),
    ];
    let ended = scene.tracker(&reap).finish();
    ended.assert_code(4);
    let report = ended.printed_report();
    assert_eq!(report.verdict(), "incomplete", "{report}");
    assert!(!report.reasons().is_empty(), "{report}");
    assert!(orphan.is_alive(), "nothing told whose it is");
    assert!(!report.mentions(orphan), "{report}");
    root.wait().unwrap();
}

#[test]
fn who_asks_is_spared_with_its_ancestors() {
    let scene = Scene::new();
    // The shell asks for its own end and for that of its child.
    let script = "\"$V\" linger child & until grep -q child cast; do sleep .02; done
                  \"$0\" \"$@\" --pid $$; echo $? >status; exec \"$V\" linger shell";
    let tracker = scene.tracker(&["reap", "--grace", "60s", "--json"]);
    let running: Running = tracker.through(&["sh", "-c", script]).start();
    let shell = scene.await_cast("shell", 1)[0];
    let child = scene.who("child");
    assert!(!child.is_alive());
    assert!(shell.is_alive());
    assert_eq!(running.who(), shell);
    scene.clear();
    let report = running.finish().printed_report();
    assert_eq!(report.spared_entry(shell).reason(), "protected", "{report}");
    assert_eq!(report.entry(child).outcome(), "terminated", "{report}");
}

#[test]
fn who_ignores_sigterm_is_killed() {
    let scene = Scene::new();
    let script = "trap '' TERM; exec \"$V\" linger root";
    let (mut root, root_who) = start(&scene, script, "root");
    let reap = [
        "reap",
        "--grace",
        "200ms",
        "--json",
        "--pid",
        &root_who.to_string(),
    ];
    let report = scene.tracker(&reap).finish().printed_report();
    assert_eq!(
        report.entry(root_who).signals(),
        ["TERM", "KILL"],
        "{report}"
    );
    assert_eq!(root_who.life(), Life::Zombie);
    root.wait().unwrap();
}

#[test]
fn a_parent_that_never_waits_holds_nobody_up() {
    let scene = Scene::new();
    let (mut parent, parent_who) = start(&scene, "exec \"$V\" never-waits", "child");
    let child = scene.who("child");
    // There is more grace than patience.
    let reap = [
        "reap",
        "--grace",
        "1h",
        "--json",
        "--pid",
        &child.to_string(),
    ];
    let report = scene.tracker(&reap).finish().printed_report();
    assert_eq!(child.life(), Life::Zombie);
    assert_eq!(report.entry(child).outcome(), "terminated", "{report}");
    // And again, now that it is a zombie from the start.
    let ended = scene.tracker(&reap).finish();
    assert_eq!(child.life(), Life::Zombie);
    assert!(ended.status.code().is_some(), "{ended:?}");
    assert!(parent_who.is_alive());
    scene.clear();
    parent.wait().unwrap();
}

#[test]
fn a_tree_shows_descendants_with_hostile_names_on_one_line_each() {
    let scene = Scene::new();
    let script = "\"$V\" linger 'a\nb\x1b[2J' & exec \"$V\" linger root";
    let (mut root, root_who) = start(&scene, script, "root");
    until("the child", || (scene.alive().len() == 2).then_some(()));
    let ended = scene.tracker(&["tree", &root_who.pid.to_string()]).finish();
    ended.assert_code(0);
    assert!(!ended.stdout.contains('\x1b'), "{:?}", ended.stdout);
    assert_eq!(ended.stdout.lines().count(), 2, "{}", ended.stdout);
    let json = scene
        .tracker(&["tree", &root_who.to_string(), "--json"])
        .finish()
        .json();
    assert_eq!(json["processes"].as_array().unwrap().len(), 2, "{json:#}");
    scene.clear();
    root.wait().unwrap();
}
