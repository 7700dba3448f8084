//! Directories and a daemon: whose the processes in them are.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;

use serde_json::{Value, json};
use tracker_tests::{
    Canary, Daemon, Dweller, Need, Report, Scene, Shell, Source, Who, able, copy_program, until,
};

const NOBODY: u32 = 65534;

fn text(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// A session for a shell that works in a directory.
fn open(daemon: &Daemon<'_>, name: &str, root: Who, workdir: &Path) {
    let request = json!({"name": name, "pid": root.to_string(), "workdir": text(workdir)});
    daemon.post("/v1/sessions", &request);
}

#[track_caller]
fn close(daemon: &Daemon<'_>, name: &str) -> Report {
    let path = format!("/v1/sessions/{name}/close");
    Report(daemon.post(&path, &json!({"grace_ms": 20_000})))
}

fn reap_dir(daemon: &Daemon<'_>, path: &Path) -> tracker_tests::Ended {
    let arguments = [
        "reap",
        "--json",
        "--grace",
        "20s",
        "--live",
        "--dir",
        text(path),
    ];
    daemon.tracker(&arguments).finish()
}

/// Everybody of the scene who lives.
fn living(scene: &Scene) -> BTreeSet<Who> {
    scene.alive().into_iter().map(|stat| stat.who).collect()
}

/// A worker of a job: a shell with a session and a directory, an orphan of it
/// in the directory, one that went elsewhere, and somebody delegated.
struct Job {
    name: String,
    shell: Shell,
    own: BTreeSet<Who>,
    delegated: Dweller,
}

impl Job {
    fn start(daemon: &Daemon<'_>, scene: &Scene, dir: &str, given: &Path) -> Job {
        let path = scene.dir().join(dir);
        fs::create_dir_all(&path).expect("a directory");
        let mut shell = Shell::from_command(scene.command("sh").current_dir(&path));
        let name = dir.replace('/', "-");
        open(daemon, &name, shell.who(), given);
        let before = living(scene);
        shell.tell("(setsid sleep 600 &); cd /; (setsid nohup sleep 601 >/dev/null 2>&1 &)");
        let mut own = until("both orphans", || {
            let new: BTreeSet<_> = living(scene).difference(&before).copied().collect();
            let asleep = scene.alive().into_iter();
            let asleep = asleep.filter(|stat| new.contains(&stat.who) && stat.comm == b"sleep");
            (asleep.count() == 2 && new.len() == 2).then_some(new)
        });
        own.insert(shell.who());
        let delegated = Dweller::new(scene, &path);
        own.insert(delegated.who());
        Job {
            name,
            shell,
            own,
            delegated,
        }
    }
}

#[test]
fn of_ten_sessions_side_by_side_each_ends_with_exactly_its_own() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let canary = Canary::new();
    symlink(scene.dir().join("w"), scene.dir().join("l")).expect("a link");
    // A helper that they all use, and somebody who only looks on.
    let helper = Dweller::new(&scene, &scene.dir().join("w"));
    let names = [
        "job-1",
        "job-10",
        "job-1 (deleted)",
        "job",
        "job-1/.wt/nested",
        "Job-1",
        "job-1.bak",
        "job-2",
        "job-2/job-1",
        "other",
    ];
    let jobs: Vec<Job> = names
        .iter()
        .map(|name| {
            // Through the link, as callers do.
            let given = scene.dir().join("l").join(name);
            Job::start(&daemon, &scene, &format!("w/{name}"), &given)
        })
        .collect();
    for job in jobs {
        let mut expected = living(&scene);
        assert!(expected.is_superset(&job.own), "{}", job.name);
        expected.retain(|who| !job.own.contains(who));
        let report = close(&daemon, &encoded(&job.name));
        report.assert_complete();
        let left = living(&scene);
        assert_eq!(left, expected, "after {}: {report}", job.name);
        let entry = report.entry(job.delegated.who());
        assert!(entry.evidence().starts_with("cwd: "), "{report}");
        job.shell.wait();
    }
    assert!(helper.is_alive());
    canary.assert_lives();
}

fn encoded(name: &str) -> String {
    name.replace(' ', "%20")
        .replace('(', "%28")
        .replace(')', "%29")
}

#[test]
fn a_worktree_inside_is_left_alone_and_the_same_directory_is_not() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let outer = scene.dir().join("w");
    let inner = outer.join(".wt/b");
    fs::create_dir_all(&inner).expect("a directory");
    let own = Shell::from_command(scene.command("sh").current_dir(&outer));
    let other = Shell::from_command(scene.command("sh").current_dir(&inner));
    // Its cwd is in the directory, and its session's is elsewhere.
    let visitor = Shell::from_command(scene.command("sh").current_dir(&outer));
    open(&daemon, "own", own.who(), &outer);
    open(&daemon, "other", other.who(), &inner);
    daemon.open("visitor", visitor.who());
    let nobodys = Dweller::new(&scene, &outer.join("a"));
    let nobodys_inside = Dweller::new(&scene, &inner.join("a"));
    let mut command = scene.command("sh");
    let outsider = Dweller::from_command(
        command
            .args(["-c", "sleep 600 & wait", text(&outer)])
            .current_dir("/"),
    );
    let ended = reap_dir(&daemon, &outer);
    let report = ended.assert_code(0).printed_report();
    for (who, reason) in [
        (other.who(), "other_session"),
        (visitor.who(), "other_session"),
        (nobodys_inside.who(), "other_session"),
    ] {
        assert_eq!(report.spared_entry(who).reason(), reason, "{report}");
        assert!(who.is_alive());
    }
    assert!(!report.mentions(outsider.who()) && outsider.is_alive());
    assert!(!nobodys.is_alive() && !own.who().is_alive());
    let metrics = metrics(&daemon);
    assert!(
        metrics.contains("tracker_spared_total{reason=\"other_session\"} 3\n"),
        "{metrics}"
    );
    let log = daemon.log();
    assert!(log.contains("3 spared (of another session)"), "{log}");
}

fn metrics(daemon: &Daemon<'_>) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(daemon.socket()).expect("a socket");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n")
        .expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_removed_directory_inside_somebodys_worktree_is_still_reaped() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let outer = scene.dir().join("w");
    let inner = outer.join("job");
    fs::create_dir_all(&inner).expect("a directory");
    let around = Shell::from_command(scene.command("sh").current_dir(&outer));
    let own = Shell::from_command(scene.command("sh").current_dir(&inner));
    open(&daemon, "around", around.who(), &outer);
    open(&daemon, "own", own.who(), &inner);
    let stray = Dweller::new(&scene, &inner);
    fs::remove_dir_all(&inner).expect("to remove it");
    // Another one at the same path is somebody else's business.
    let later = Dweller::new(&scene, &inner);
    close(&daemon, "own").assert_complete();
    assert!(!own.who().is_alive() && !stray.is_alive());
    assert!(around.who().is_alive() && later.is_alive());
}

#[test]
fn a_removed_directory_is_told_by_what_it_was() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let shell = Shell::new(&scene);
    open(&daemon, "job", shell.who(), &job);
    let old = Dweller::new(&scene, &job);
    // Moved before it is removed, so that its path says nothing.
    fs::rename(&job, scene.dir().join("trash")).expect("to move it");
    fs::remove_dir_all(scene.dir().join("trash")).expect("to remove it");
    let new = Dweller::new(&scene, &scene.dir().join("trash"));
    let arguments = ["reap", "--json", "--dir", text(&job)];
    let ended = daemon.tracker(&arguments).finish();
    ended.assert_code(0).printed_report().assert_complete();
    assert!(!old.is_alive() && new.is_alive());
    // Again: nobody is there, and that is known.
    daemon.tracker(&arguments).finish().assert_code(0);
    assert!(shell.who().is_alive());
}

#[test]
fn who_left_the_directory_is_found_by_its_session_alone() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let mut shell = Shell::from_command(scene.command("sh").current_dir(&job));
    open(&daemon, "job", shell.who(), &job);
    shell.tell("cd /; setsid nohup sleep 600 >/dev/null 2>&1 &");
    let asleep = scene.await_named("sleep");
    let report = reap_dir(&daemon, &job).assert_code(0).printed_report();
    assert!(!report.mentions(asleep) && asleep.is_alive(), "{report}");
    assert!(report.reasons().contains("not covered"), "{report}");
    close(&daemon, "job").assert_complete();
    assert!(!asleep.is_alive());
}

#[test]
fn the_daemon_and_its_client_are_spared_though_they_are_inside() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let inside = Dweller::new(&scene, &job);
    let pins = format!(
        "/sys/fs/bpf/{}-w8",
        text(scene.dir().file_name().expect("a name").as_ref())
    );
    let script = format!(
        "\"$T\" serve --source ebpf --socket \"$DIR/s\" --state-dir \"$DIR/state\" --pin-dir {pins} \
           2>\"$DIR/log\" & until [ -S \"$DIR/s\" ]; do sleep 0.01; done; \
         TRACKER_SOCKET=\"$DIR/s\" \"$T\" reap --grace 60s --live --json --dir \"$DIR/job\" \
           >\"$DIR/report\"; echo $? >\"$DIR/status\"; kill $!; wait $!; \
         \"$T\" serve --unpin --pin-dir {pins}; rmdir {pins}; echo over >>\"$DIR/status\"; exec sleep 600"
    );
    let mut command = scene.command("sh");
    command
        .args(["-c", &script])
        .current_dir(&job)
        .env("T", tracker_tests::tracker_binary());
    let shell = Dweller::from_command(&mut command);
    let status = until("its end", || {
        let status = fs::read_to_string(scene.dir().join("status")).ok()?;
        status.ends_with("over\n").then_some(status)
    });
    let log = fs::read_to_string(scene.dir().join("log")).unwrap_or_default();
    assert_eq!(status, "0\nover\n", "{log}");
    let report = fs::read_to_string(scene.dir().join("report")).expect("a report");
    let report = Report(serde_json::from_str(&report).expect("JSON"));
    assert_eq!(
        report.spared_entry(shell.who()).reason(),
        "protected",
        "{report}"
    );
    // The daemon as well, and the client.
    let spared = report.spared().into_iter();
    let trackers = spared.filter(|entry| entry.comm() == "tracker").count();
    assert_eq!(trackers, 2, "{report}");
    assert!(shell.is_alive() && !inside.is_alive());
}

#[test]
fn what_makes_no_sense_is_refused_and_leaves_no_trace() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    let inside = Dweller::new(&scene, &job);
    fs::write(scene.dir().join("file"), "").expect("a file");
    let shell = Shell::new(&scene);
    let dir = |path: &str, more: Value| {
        let mut target = json!({"kind": "directory", "path": path});
        for (key, value) in more.as_object().into_iter().flatten() {
            target[key] = value.clone();
        }
        json!({"target": target})
    };
    let reap = "/v1/reaps";
    let root = shell.who().to_string();
    let session = |path: &str| json!({"pid": root, "workdir": path});
    let file = scene.dir().join("file");
    for (path, body, status, code) in [
        (reap, dir(text(&job), json!({})), 409, "refused"),
        (reap, dir("/", json!({"live": true})), 409, "refused"),
        (reap, dir("job", json!({})), 400, "bad_request"),
        (reap, dir(text(&file), json!({})), 400, "bad_request"),
        (reap, dir("/nonexistent/x", json!({})), 404, "not_found"),
        (
            reap,
            dir(text(&job), json!({"lief": true})),
            400,
            "bad_request",
        ),
        ("/v1/sessions", session("job"), 400, "bad_request"),
        ("/v1/sessions", session("/nonexistent/x"), 404, "not_found"),
        ("/v1/sessions", session("/"), 409, "refused"),
    ] {
        let answer = daemon.ask("POST", path, &body.to_string());
        let got = (answer.status, answer.body["error"]["code"].as_str());
        assert_eq!(got, (status, Some(code)), "{body}: {}", answer.body);
    }
    let mut excluded = dir(text(&job), json!({"live": true}));
    excluded["exclude_root"] = json!(true);
    let answer = daemon.ask("POST", reap, &excluded.to_string());
    assert_eq!(answer.status, 400, "{}", answer.body);
    daemon
        .tracker(&["reap", "--dir", text(&job)])
        .finish()
        .assert_code(5)
        .assert_one_line();
    assert!(inside.is_alive());
    assert_eq!(daemon.get("/v1/reaps")["reaps"], json!([]));
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}

#[test]
fn a_user_reaps_their_own_directories_and_learns_of_no_others() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (own, roots) = (scene.dir().join("own"), scene.dir().join("roots"));
    let root_inside = Dweller::new(&scene, &own);
    let in_roots = Dweller::new(&scene, &roots);
    chown(&own, Some(NOBODY), Some(NOBODY)).expect("chown");
    let mut command = scene.command("sleep");
    command.arg("600").current_dir(&own).uid(NOBODY).gid(NOBODY);
    let user_inside = Dweller::from_command(&mut command);
    let program = scene.dir().join("tracker");
    copy_program(tracker_tests::tracker_binary(), &program);
    let nobody = |dir: &Path| {
        let mut command = scene.command(&program);
        command
            .args([
                "reap",
                "--json",
                "--grace",
                "20s",
                "--live",
                "--dir",
                text(dir),
            ])
            .env("TRACKER_SOCKET", daemon.socket())
            .uid(NOBODY)
            .gid(NOBODY);
        command.output().expect("tracker runs")
    };
    // Of what is not theirs, one answer: whether it is there or not.
    let mut answers = BTreeSet::new();
    for dir in [&roots, &scene.dir().join("nothing"), Path::new("/root/x")] {
        let output = nobody(dir);
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        answers.insert(output.stderr);
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
    let output = nobody(&own);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = Report(serde_json::from_slice(&output.stdout).expect("JSON"));
    assert_eq!(report.entry(user_inside.who()).outcome(), "terminated");
    assert!(!report.mentions(root_inside.who()), "{report}");
    assert!(report.reasons().contains("of other users"), "{report}");
    assert!(root_inside.is_alive() && in_roots.is_alive() && !user_inside.is_alive());
}

#[test]
fn who_makes_the_directory_again_is_gone_when_the_session_is() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let mut shell = Shell::from_command(scene.command("sh").current_dir(&job));
    open(&daemon, "job", shell.who(), &job);
    shell.tell(
        "setsid sh -c 'cd /; while :; do mkdir -p \"$DIR/job/t\"; : >\"$DIR/job/t/$$\"; done' \
         >/dev/null 2>&1 &",
    );
    until("a writer", || job.join("t").exists().then_some(()));
    close(&daemon, "job").assert_complete();
    fs::remove_dir_all(&job).expect("nobody writes into it any more");
    assert!(!job.exists());
    // Who makes sure afterwards is told that nobody is left, and not that there
    // never was such a directory.
    reap_dir(&daemon, &job)
        .assert_code(0)
        .printed_report()
        .assert_complete();
}

#[test]
fn run_leaves_the_sweep_to_the_daemon() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let mut scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let script =
        "\"$V\" double-fork; : >\"$DIR/ready\"; until [ -e \"$DIR/go\" ]; do sleep 0.01; done";
    let report = scene.dir().join("report");
    let arguments = [
        "run",
        "--grace",
        "60s",
        "--workdir",
        text(&job),
        "--report",
        text(&report),
    ];
    let running = daemon.tracker(&arguments).sh(script).start();
    until("the command", || {
        scene.dir().join("ready").exists().then_some(())
    });
    let sessions = daemon.get("/v1/sessions");
    assert_eq!(sessions["sessions"][0]["workdir"], text(&job), "{sessions}");
    let stray = Dweller::new(&scene, &job);
    scene.touch("go");
    running.finish().assert_code(0);
    let report = fs::read_to_string(report).expect("a report");
    let report = Report(serde_json::from_str(&report).expect("JSON"));
    report.assert_complete();
    assert_eq!(
        report.entry(stray.who()).outcome(),
        "terminated",
        "{report}"
    );
    assert!(!stray.is_alive());
    drop(daemon);
    scene.assert_all_dead();
}

#[test]
fn who_is_kept_stays_so_when_its_session_is_over() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    for name in ["ruled", "byhand"] {
        copy_program("/bin/sleep".as_ref(), &scene.dir().join(name));
    }
    let job = scene.dir().join("job");
    fs::create_dir(&job).expect("a directory");
    let mut shell = Shell::from_command(scene.command("sh").current_dir(&job));
    let request = json!({"name": "job", "pid": shell.who().to_string(), "keep": ["ruled"]});
    daemon.post("/v1/sessions", &request);
    shell.tell("(setsid ../ruled 600 &); (setsid ../byhand 600 &)");
    let ruled = scene.await_named("ruled");
    let by_hand = scene.await_named("byhand");
    // Nobody's, as a helper that many use.
    let helper = Dweller::new(&scene, &job);
    let nobodys = Dweller::new(&scene, &job);
    for who in [by_hand, helper.who()] {
        let keep = daemon.tracker(&["keep", &who.to_string()]).finish();
        keep.assert_code(0);
    }
    close(&daemon, "job").assert_complete();
    let report = reap_dir(&daemon, &job).assert_code(0).printed_report();
    let kept = [ruled, by_hand, helper.who()];
    for who in kept {
        assert_eq!(report.spared_entry(who).reason(), "kept", "{report}");
    }
    assert!(!nobodys.is_alive());
    // The next daemon knows as well.
    let daemon = daemon.restart();
    let report = reap_dir(&daemon, &job).assert_code(0).printed_report();
    for who in kept {
        assert_eq!(report.spared_entry(who).reason(), "kept", "{report}");
        assert!(who.is_alive());
    }
}

#[test]
fn who_works_elsewhere_is_not_even_mentioned() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let (job, other) = (scene.dir().join("job-1"), scene.dir().join("job-10"));
    fs::create_dir(&job).expect("a directory");
    fs::create_dir(&other).expect("a directory");
    let own = Shell::from_command(scene.command("sh").current_dir(&job));
    let beside = Shell::from_command(scene.command("sh").current_dir(&other));
    open(&daemon, "own", own.who(), &job);
    open(&daemon, "beside", beside.who(), &other);
    fs::remove_dir_all(&job).expect("to remove it");
    let report = reap_dir(&daemon, &job).assert_code(0).printed_report();
    assert!(!report.mentions(beside.who()), "{report}");
    assert!(beside.who().is_alive() && !own.who().is_alive());
}
