//! Daemons that are killed and stopped while there is work to do.

use std::fs;

use rustix::process::Signal;
use serde_json::json;
use tracker_tests::{
    Canary, Daemon, GlobalLock, LastPid, Life, Need, Scene, Shell, Source, Who, able, copy_program,
    until,
};

/// The pids that a session's tree shows.
fn members(daemon: &Daemon<'_>, session: &str) -> Vec<i64> {
    let tree = daemon.get(&format!("/v1/tree?session={session}"));
    let processes = tree["processes"].as_array().expect("a list");
    processes
        .iter()
        .filter_map(|process| process["pid"].as_i64())
        .collect()
}

#[track_caller]
fn close(daemon: &Daemon<'_>, session: &str) -> serde_json::Value {
    daemon.post(
        &format!("/v1/sessions/{session}/close"),
        &json!({"grace_ms": 20_000}),
    )
}

#[test]
fn a_daemon_that_is_killed_during_fifty_thousand_forks_loses_nobody() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut busy = Shell::new(&scene);
    let mut calm = Shell::new(&scene);
    daemon.open("busy", busy.who());
    daemon.open("calm", calm.who());
    calm.tell("(setsid sleep 600 &)");
    let asleep = scene.await_named("sleep");
    busy.tell("$V forks 50000");
    scene.await_named("victim");
    let mut daemon = daemon;
    daemon.kill();
    let left = scene.await_cast("left", 1)[0];
    let daemon = daemon.restart();
    for (session, who) in [
        ("busy", busy.who()),
        ("busy", left),
        ("calm", calm.who()),
        ("calm", asleep),
    ] {
        assert!(
            members(&daemon, session).contains(&i64::from(who.pid)),
            "{who} of {session}"
        );
    }
    let report = close(&daemon, "calm");
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!asleep.is_alive() && left.is_alive());
    let report = close(&daemon, "busy");
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!left.is_alive());
}

#[test]
fn a_daemon_that_is_stopped_during_fifty_thousand_forks_loses_nobody() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut busy = Shell::new(&scene);
    let mut calm = Shell::new(&scene);
    daemon.open("busy", busy.who());
    daemon.open("calm", calm.who());
    calm.tell("(setsid sleep 600 &)");
    let asleep = scene.await_named("sleep");
    daemon.who().signal(Signal::STOP);
    busy.tell("$V forks 50000");
    let left = scene.await_cast("left", 1)[0];
    daemon.who().signal(Signal::CONT);
    let lost = daemon.get("/v1/status")["kernel"]["ring_full"].as_u64();
    assert!(
        lost.is_some_and(|lost| lost > 0),
        "the ring buffer is smaller than that: {lost:?}"
    );
    assert!(members(&daemon, "busy").contains(&i64::from(left.pid)));
    let report = close(&daemon, "busy");
    assert_eq!(report["verdict"], "complete", "{report}");
    let reasons = report["reasons"].to_string();
    assert!(
        reasons.contains("records of history"),
        "what was lost is said: {reasons}"
    );
    assert!(!left.is_alive() && asleep.is_alive());
    let report = close(&daemon, "calm");
    assert_eq!(
        (&report["verdict"], &report["reasons"]),
        (&json!("complete"), &json!([]))
    );
    assert!(!asleep.is_alive());
}

#[test]
fn without_the_probe_a_daemon_that_was_killed_states_the_gap() {
    if !able(&[Need::Root]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Procfs);
    let mut shell = Shell::new(&scene);
    daemon.open("job", shell.who());
    daemon.kill();
    shell.tell("sleep 600 &");
    let child = scene.await_named("sleep");
    let daemon = daemon.restart();
    let report = close(&daemon, "job");
    assert_eq!(report["verdict"], "incomplete", "{report}");
    assert!(
        report["reasons"].to_string().contains("was not running"),
        "{report}"
    );
    assert!(!child.is_alive());
}

#[test]
fn a_reap_that_was_cut_short_goes_on() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    let id = daemon.open("job", shell.who());
    // It needs SIGKILL, for which there is much time.
    shell.tell("trap '' TERM; touch ready; sleep 600 & wait; sleep 600");
    until("the trap", || {
        scene.dir().join("ready").exists().then_some(())
    });
    let client = daemon
        .tracker(&["session", "close", "job", "--grace", "3s"])
        .start();
    until("a reap", || {
        let reaps = daemon.get(&format!("/v1/reaps?session={id}"));
        (reaps["reaps"][0]["state"] == "running").then_some(())
    });
    daemon.kill();
    client.finish().assert_code(1);
    assert!(shell.who().is_alive());
    let daemon = daemon.restart();
    let reap = until("the end of the reap", || {
        let reaps = daemon.get(&format!("/v1/reaps?session={id}"));
        let reap = reaps["reaps"][0].clone();
        (reap["state"] != "running").then_some(reap)
    });
    assert_eq!(
        (&reap["state"], &reap["attempts"]),
        (&json!("done"), &json!(2)),
        "{reap}"
    );
    let whole = daemon.get(&format!(
        "/v1/reaps/{}",
        reap["id"].as_str().expect("an id")
    ));
    assert_eq!(whole["report"]["verdict"], "complete", "{whole}");
    assert!(!shell.who().is_alive());
    assert_eq!(daemon.get("/v1/sessions")["sessions"], json!([]));
}

#[test]
fn what_is_kept_stays_kept_and_a_rule_goes_on_while_nobody_serves() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    for name in ["ruled", "late", "byhand"] {
        copy_program("/bin/sleep".as_ref(), &scene.dir().join(name));
    }
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    let keep = ["ruled", "late"];
    let request = json!({"name": "job", "pid": shell.who().to_string(), "keep": keep});
    daemon.post("/v1/sessions", &request);
    shell.tell("./ruled 600 & ./byhand 600 &");
    let ruled = scene.await_named("ruled");
    let by_hand = scene.await_named("byhand");
    daemon
        .tracker(&["keep", &by_hand.to_string()])
        .finish()
        .assert_code(0);
    daemon.kill();
    shell.tell("(setsid ./late 600 &)");
    let late = scene.await_named("late");
    let daemon = daemon.restart();
    let report = close(&daemon, "job");
    assert_eq!(report["verdict"], "complete", "{report}");
    for who in [ruled, by_hand, late] {
        assert!(who.is_alive(), "{who}: {report}");
    }
    assert!(!shell.who().is_alive());
}

#[test]
fn a_pid_that_was_reused_while_the_daemon_was_blind_is_spared() {
    if !able(&[Need::Ebpf, Need::File("/proc/sys/kernel/ns_last_pid")]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    daemon.open("job", shell.who());
    shell.tell("sleep 601 & echo $! >pid");
    let member = scene.await_named("sleep");
    // Its exit is lost: the daemon does not read, and the ring buffer overflows.
    daemon.who().signal(Signal::STOP);
    shell.tell("$V forks 30000");
    scene.await_cast("left", 1);
    member.signal(Signal::KILL);
    until("its end", || {
        matches!(member.life(), Life::Gone | Life::Zombie).then_some(())
    });
    shell.tell("wait $(cat pid)");
    until("its pid to be free", || {
        matches!(member.life(), Life::Gone).then_some(())
    });
    let outsider = reuse(member.pid);
    daemon.who().signal(Signal::CONT);
    let child = outsider.who();
    let report = close(&daemon, "job");
    assert_eq!(report["verdict"], "complete", "{report}");
    outsider.assert_lives();
    assert_ne!(child, member);
}

/// A process of nobody's that has this pid.
fn reuse(pid: i32) -> Canary {
    let _last = LastPid::take();
    until("the pid", || {
        LastPid::next_is(pid);
        let canary = Canary::new();
        (canary.who().pid == pid).then_some(canary)
    })
}

#[test]
fn a_clock_that_is_set_changes_no_identity() {
    if !able(&[Need::Ebpf, Need::Program("date")]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    daemon.open("job", shell.who());
    shell.tell("(setsid sleep 600 &)");
    let asleep = scene.await_named("sleep");
    let daemon = {
        let _clock = HourAhead::new();
        let _ = fs::write("/proc/sys/vm/drop_caches", "3");
        daemon.kill();
        daemon.restart()
    };
    let report = close(&daemon, "job");
    assert_eq!(report["verdict"], "complete", "{report}");
    assert!(!asleep.is_alive() && !shell.who().is_alive());
}

/// The time of day, an hour ahead until this is dropped.
struct HourAhead(GlobalLock);

impl HourAhead {
    fn new() -> HourAhead {
        let lock = GlobalLock::take();
        step("+1 hour");
        HourAhead(lock)
    }
}

impl Drop for HourAhead {
    fn drop(&mut self) {
        step("-1 hour");
        let _ = &self.0;
    }
}

fn step(by: &str) {
    let status = std::process::Command::new("date")
        .args(["--set", by])
        .stdout(std::process::Stdio::null())
        .status();
    assert!(
        status.is_ok_and(|status| status.success()),
        "date --set '{by}'"
    );
}

#[test]
fn what_was_tracked_is_not_when_it_is_unpinned() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let mut daemon = Daemon::start(&scene, Source::Ebpf);
    let pins = daemon.pin_dir();
    daemon.kill();
    assert!(fs::read_dir(&pins).is_ok_and(|mut entries| entries.next().is_some()));
    let unpin = |daemon: &Daemon<'_>| {
        let dir = pins.to_str().expect("a path of ours");
        daemon
            .tracker(&["serve", "--unpin", "--pin-dir", dir])
            .finish()
    };
    unpin(&daemon).assert_code(0);
    assert!(fs::read_dir(&pins).is_ok_and(|mut entries| entries.next().is_none()));
    assert_eq!(unpin(&daemon).assert_code(0).stdout, "nothing is tracked\n");
    let daemon = daemon.restart();
    assert!(
        !unpin(&daemon).status.success(),
        "a daemon that runs has it"
    );
    let own = Who::own();
    assert_eq!(
        daemon
            .ask("GET", &format!("/v1/tree?pid={}", own.pid), "")
            .status,
        200
    );
}
