//! Bad input: one clear line, and nothing happens.

use tracker_tests::{Canary, Need, Scene, Source, able};

/// Checks that tracker ends with this status and one line that contains all of
/// `words`.
#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    refused_on(&Scene::new(), arguments, code, words);
}

/// The same with a daemon.
#[track_caller]
fn refused_by_daemon(arguments: &[&str], code: i32, words: &[&str]) {
    if able(&[Need::Ebpf]) {
        refused_on(&Scene::on(Source::Daemon), arguments, code, words);
    }
}

#[track_caller]
fn refused_on(scene: &Scene, arguments: &[&str], code: i32, words: &[&str]) {
    let ended = scene.tracker(arguments).finish();
    ended.assert_code(code);
    let line = ended.assert_one_line();
    for word in words {
        assert!(line.contains(word), "no {word:?} in {line:?}");
    }
    assert_eq!(ended.stdout, "");
}

#[test]
fn pids_that_no_process_has() {
    let bad = [
        "0",
        "-1",
        "2147483648",
        "99999999999999999999",
        "banana",
        "",
        "1x",
        "+1",
        " 1",
        "1@",
        "@1",
        "1@x",
        "1@-1",
        "@",
        "1@1@1",
    ];
    let canary = Canary::new();
    for pid in bad {
        refused(
            &["reap", "--grace", "0", "--pid", pid],
            2,
            &["tracker reap"],
        );
        let pid = format!("--pid={pid}");
        refused(&["reap", "--grace", "0", &pid], 2, &["--pid"]);
    }
    let nobody = ["reap", "--grace", "0", "--pid", "99999999"];
    refused(&nobody, 1, &["99999999"]);
    refused_by_daemon(&nobody, 1, &["99999999"]);
    refused_by_daemon(&["session", "open", "--pid", "99999999"], 1, &["99999999"]);
    canary.assert_lives();
    refused(&["tree", "99999999"], 1, &["99999999"]);
    for pid in ["0", "2147483648", "1@x", "0@1"] {
        refused(&["tree", pid], 2, &[pid]);
    }
    // What is no number is the name of a session, which the daemon knows.
    for name in ["job", "000000000001"] {
        refused(
            &["tree", name],
            1,
            &["no.sock (No such file", "tracker serve"],
        );
    }
    refused(&["tree", "-1"], 2, &["-1"]);
}

#[test]
fn processes_that_are_never_ended() {
    let init = ["reap", "--grace", "0", "--pid", "1"];
    refused(&init, 5, &["init"]);
    refused_by_daemon(&init, 5, &["init"]);
    refused_by_daemon(&["session", "open", "--pid", "1"], 5, &["init"]);
    // kthreadd, where it can be seen.
    if tracker_tests::proc::stat(2).is_some_and(|stat| stat.comm == b"kthreadd") {
        let thread = ["reap", "--grace", "0", "--pid", "2"];
        refused(&thread, 5, &["kernel thread"]);
        refused_by_daemon(&thread, 5, &["kernel thread"]);
        refused_by_daemon(&["session", "open", "--pid", "2"], 5, &["kernel thread"]);
    }
}

#[test]
fn tracker_s_own_pid() {
    let scene = Scene::new();
    let tracker = scene.tracker(&["reap", "--grace", "0"]);
    let script = "exec \"$0\" \"$@\" --pid $$";
    let ended = tracker.through(&["sh", "-c", script]).finish();
    ended.assert_code(5);
    let line = ended.assert_one_line();
    assert!(line.contains("tracker itself"), "{line}");
}

#[test]
fn a_process_that_is_dead() {
    let scene = Scene::new();
    let mut zombie = scene.command("true").spawn().unwrap();
    let pid = zombie.id();
    tracker_tests::until("its end", || {
        let stat = tracker_tests::proc::stat(i32::try_from(pid).unwrap());
        stat.is_some_and(|stat| stat.is_zombie()).then_some(())
    });
    let pid = pid.to_string();
    refused_by_daemon(&["reap", "--grace", "0", "--pid", &pid], 1, &[&pid, "dead"]);
    refused_by_daemon(&["session", "open", "--pid", &pid], 1, &[&pid, "dead"]);
    zombie.wait().unwrap();
}

#[test]
fn a_process_with_another_start_time() {
    let canary = Canary::new();
    let who = canary.who();
    for start in [0, 1, who.start - 1, who.start + 1] {
        let named = format!("{}@{start}", who.pid);
        let reap = ["reap", "--grace", "0", "--pid", &named];
        refused(&reap, 1, &[&who.to_string()]);
        refused_by_daemon(&reap, 1, &[&who.to_string()]);
        let open = ["session", "open", "--pid", &named];
        refused_by_daemon(&open, 1, &[&who.to_string()]);
        refused(&["tree", &named], 1, &[&who.to_string()]);
    }
    canary.assert_lives();
}

#[test]
fn a_thread_that_is_no_process() {
    let scene = Scene::new();
    let mut python = scene.victim(&["linger", "target"]).spawn().unwrap();
    let target = scene.await_cast("target", 1)[0];
    // This test's own thread: its process is an ancestor of tracker, which must
    // not be reached through it either.
    let thread = rustix::thread::gettid().as_raw_pid().to_string();
    let reap = ["reap", "--grace", "0", "--pid", &thread];
    refused(&reap, 1, &[&thread]);
    refused_by_daemon(&reap, 1, &[&thread]);
    refused_by_daemon(&["session", "open", "--pid", &thread], 1, &[&thread]);
    assert!(target.is_alive());
    scene.clear();
    python.wait().unwrap();
}

#[test]
fn durations_that_mean_nothing() {
    let canary = Canary::new();
    let pid = canary.who().to_string();
    for grace in [
        "banana",
        "",
        "-1s",
        "5",
        "1e9s",
        "5 s",
        "99999999999999999999h",
        "inf",
        "NaN",
    ] {
        let grace = format!("--grace={grace}");
        refused(&["reap", "--pid", &pid, &grace], 2, &["--grace"]);
        // 125: 2 could be the command's own status.
        refused(
            &[
                "run",
                &grace,
                "--",
                "kill",
                "-9",
                pid.split('@').next().unwrap(),
            ],
            125,
            &["--grace"],
        );
    }
    canary.assert_lives();
}

#[test]
fn arguments_that_make_no_sense() {
    refused(&["run"], 125, &["tracker"]);
    refused(&["run", "--"], 125, &["tracker"]);
    refused(&["run", "--banana", "--", "true"], 125, &["--banana"]);
    refused(
        &["run", "--source", "banana", "--", "true"],
        125,
        &["banana"],
    );
    refused(&["run", "--keep", "", "--", "true"], 125, &["--keep"]);
    refused(&["run", "--keep", "[a", "--", "true"], 125, &["--keep"]);
    refused(&["reap"], 2, &["--pid"]);
    refused(&["tree", "1", "2"], 2, &["tracker tree"]);
    refused(&["banana"], 2, &["banana"]);
    refused(&["reap", "--pid", "1", "--pid", "2"], 2, &["--pid"]);
}

#[test]
fn a_report_that_cannot_be_written_is_found_out_before_the_command_runs() {
    let scene = Scene::new();
    let flags = [
        "run",
        "--report",
        "/no/such/dir/report",
        "--",
        "touch",
        "ran",
    ];
    let ended = scene.tracker(&flags).finish();
    ended.assert_code(125);
    let line = ended.assert_one_line();
    assert!(line.contains("/no/such/dir/report"), "{line}");
    assert!(!scene.dir().join("ran").exists());
}

#[test]
fn a_command_that_is_missing_leaves_no_traces() {
    let mut scene = Scene::new();
    for source in [Source::Ebpf, Source::Procfs] {
        let tracker = scene.run(source, "--name x").arg("no-such-program");
        tracker.finish().assert_code(127);
    }
    scene.assert_all_dead();
}
