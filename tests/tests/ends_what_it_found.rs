//! A teardown goes on until nothing is left, and takes no longer and no more
//! force than that needs.

use std::collections::BTreeSet;
use std::process::Command;

use rustix::process::Signal;
use tracker_tests::{
    Canary, Daemon, GlobalLock, Need, Scene, Shell, Source, able, on_all_sources, raw, until,
    victim_binary,
};

/// Orphans are waited for by somebody who is quick at it: pid 1 need not be.
fn foster() -> [&'static str; 2] {
    [victim_binary().to_str().unwrap(), "foster"]
}

on_all_sources!(a_stopped_process_runs_its_handler, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 60s");
    let ended = tracker.victim("slow-handler 1 stop").finish();
    let report = ended.assert_ended(&mut scene, source, &["handler"]);
    assert!(scene.dir().join("handled").exists());
    let entry = report.entry(scene.who("handler"));
    assert_eq!(entry.outcome(), "terminated");
    let signals: BTreeSet<_> = entry.signals().into_iter().collect();
    assert_eq!(signals, BTreeSet::from(["CONT", "TERM"]), "{report}");
});

on_all_sources!(a_handler_has_the_time_that_it_needs, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 60s");
    let ended = tracker.victim("slow-handler 700").finish();
    let report = ended.assert_ended(&mut scene, source, &["handler"]);
    assert!(scene.dir().join("handled").exists());
    assert_eq!(report.entry(scene.who("handler")).signals(), ["TERM"]);
});

on_all_sources!(
    nobody_waits_for_the_end_of_a_grace_that_nobody_needs,
    |source| {
        let mut scene = Scene::on(source);
        // The harness has less patience than this.
        let ended = scene
            .run(source, "--grace 1h")
            .victim("double-fork")
            .finish();
        let report = ended.assert_ended(&mut scene, source, &["orphan"]);
        assert_eq!(report.entry(scene.who("orphan")).signals(), ["TERM"]);
    }
);

on_all_sources!(who_ignores_sigterm_is_killed_after_the_grace, |source| {
    let mut scene = Scene::on(source);
    let ended = scene
        .run(source, "--grace 200ms")
        .victim("stubborn")
        .finish();
    let report = ended.assert_ended(&mut scene, source, &["stubborn"]);
    let entry = report.entry(scene.who("stubborn"));
    assert_eq!(entry.outcome(), "killed");
    assert_eq!(entry.signals(), ["TERM", "KILL"]);
});

on_all_sources!(no_grace_means_sigkill_at_once, |source| {
    let mut scene = Scene::on(source);
    let ended = scene
        .run(source, "--grace 0")
        .victim("slow-handler 1")
        .finish();
    let report = ended.assert_ended(&mut scene, source, &["handler"]);
    assert!(!scene.dir().join("handled").exists());
    let entry = report.entry(scene.who("handler"));
    assert_eq!((entry.outcome(), entry.signals()), ("killed", vec!["KILL"]));
});

on_all_sources!(who_is_forked_by_a_handler_is_ended_too, |source| {
    let mut scene = Scene::on(source);
    let ended = scene
        .run(source, "--grace 1s")
        .victim("fork-on-term")
        .finish();
    let report = ended.assert_ended(&mut scene, source, &["testator", "heir"]);
    assert!(report.count("forked_during_reap") >= 1, "{report}");
});

on_all_sources!(a_namespace_s_init_is_killed needs [Need::Root, Need::Program("unshare")], |source| {
    let mut scene = Scene::on(source);
    let script = "unshare --pid --fork --mount-proc \"$V\" linger init &
                  until grep -q ^init cast; do sleep .02; done";
    let ended = scene.run(source, "--grace 200ms").sh(script).finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    // It announced the pid that it has in its own namespace.
    let processes = report.processes();
    let init = processes.iter().find(|entry| entry.comm() == "victim");
    let init = init.unwrap_or_else(|| panic!("{report}"));
    assert_eq!((init.outcome(), init.signals()), ("killed", vec!["TERM", "KILL"]));
});

on_all_sources!(a_process_that_its_tracer_has_stopped, |source| {
    let mut scene = Scene::on(source);
    let ended = scene.run(source, "--grace 500ms").victim("traced").finish();
    ended.assert_ended(&mut scene, source, &["tracer", "tracee"]);
});

on_all_sources!(a_signal_cuts_the_grace_short, |source| {
    let mut scene = Scene::on(source);
    // The harness has less patience than this.
    let running = scene
        .run(source, "--grace 1h")
        .victim("fork-on-term")
        .start();
    // Somebody was sent SIGTERM, so the grace has begun.
    let heir = scene.await_cast("heir", 1)[0];
    running.who().signal(Signal::INT);
    let report = running.finish().assert_ended(&mut scene, source, &["heir"]);
    assert_eq!(report.entry(heir).outcome(), "killed", "{report}");
});

on_all_sources!(a_pair_that_replaces_each_other, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 200ms").victim("pair");
    let ended = tracker.through(&foster()).finish();
    ended.assert_ended(&mut scene, source, &[]);
});

on_all_sources!(a_supervisor_and_its_workers, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 200ms").victim("supervisor");
    let ended = tracker.through(&foster()).finish();
    ended.assert_ended(&mut scene, source, &["supervisor"]);
});

on_all_sources!(a_hopper, |source| {
    let mut scene = Scene::on(source);
    // Snapshots are not taken as fast as the kernel tells.
    let is_quick = source.sees_forks();
    let hop = if is_quick {
        "hopper 500"
    } else {
        "hopper 300000"
    };
    let tracker = scene.run(source, "--grace 200ms").victim(hop);
    let ended = tracker.through(&foster()).finish();
    ended.assert_ended(&mut scene, source, &[]);
});

on_all_sources!(a_fork_bomb, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 200ms").victim("fork-bomb 8");
    let ended = tracker.through(&foster()).finish();
    ended.assert_ended(&mut scene, source, &[]);
});

#[test]
fn all_of_them_at_once_while_others_go_on() {
    if able(&[Need::Ebpf]) {
        all_at_once(Source::Ebpf);
        all_at_once(Source::Daemon);
    }
}

/// Snapshots are not taken as fast as that.
fn all_at_once(source: Source) {
    let _lock = GlobalLock::take();
    let mut scene = Scene::on(source);
    let bystander = Canary::new();
    // It works on: the machine can be used meanwhile.
    let working =
        Canary::from_command(Command::new("sh").args(["-c", "while :; do /bin/true; done"]));
    let script = "\"$V\" fork-bomb 8; \"$V\" hopper 1000; \"$V\" supervisor
                  i=0; while [ $i -lt 20 ]; do \"$V\" pair; i=$((i+1)); done";
    let tracker = scene.run(source, "--grace 200ms").sh(script);
    let ended = tracker.through(&foster()).finish();
    let report = ended.assert_ended(&mut scene, source, &["supervisor"]);
    assert!(report.processes().len() >= 8 + 1 + 2 + 40, "{report}");
    bystander.assert_lives();
    working.assert_lives();
    for other in [&bystander, &working] {
        assert!(!report.mentions(other.who()), "{report}");
    }
}

#[test]
fn who_asked_for_it_and_its_children_may_fork_when_it_is_over() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let scene = Scene::new();
    let daemon = Daemon::start(&scene, Source::Ebpf);
    let mut shell = Shell::new(&scene);
    daemon.open("job", shell.who());
    // Members until the end: the session stays open.
    shell.tell(&format!(
        "\"$V\" stubborn
         TRACKER_SOCKET={} {} reap --session job --grace 0 >reaped 2>&1; echo $? >status
         sh -c '(:); (:); exit 42'; echo $? >after",
        daemon.socket().display(),
        tracker_tests::tracker_binary().display()
    ));
    let read = |name| std::fs::read_to_string(scene.dir().join(name)).unwrap_or_default();
    until("an answer of its child", || {
        read("after").ends_with('\n').then_some(())
    });
    assert_eq!(
        (read("status"), read("after")),
        ("0\n".into(), "42\n".into()),
        "{}",
        read("reaped")
    );
    assert!(!scene.who("stubborn").is_alive());
}

on_all_sources!(loops_that_create_and_wait_for_processes, |source| {
    let mut scene = Scene::on(source);
    let script = "for i in 1 2 3 4 5 6 7 8; do (while :; do /bin/true; done) & done; sleep .3";
    let ended = scene.run(source, "--grace 60s").sh(script).finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    assert!(report.processes().len() >= 8, "{report}");
});

on_all_sources!(a_thousand_daemons_that_ignore_sigterm, |source| {
    crowd(source, 1000, "--grace 200ms", |_| {});
});

on_all_sources!(eight_thousand_daemons_with_256_descriptors, |source| {
    crowd(source, 8000, "--grace 0", |command| {
        raw::limit_descriptors(command, 256);
    });
});

fn crowd(
    source: Source,
    count: usize,
    flags: &str,
    change: impl FnOnce(&mut std::process::Command),
) {
    // One crowd at a time is enough for the machine.
    let _lock = GlobalLock::take();
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, flags).victim(&format!("crowd {count}"));
    let ended = tracker.through(&foster()).with(change).finish();
    ended.assert_code(0);
    let report = ended.report();
    report.assert_complete();
    let crowd: BTreeSet<_> = scene.cast("one-of-many").into_iter().collect();
    assert_eq!(crowd.len(), count);
    let killed: BTreeSet<_> = report
        .processes()
        .iter()
        .filter(|entry| entry.outcome() == "killed")
        .map(tracker_tests::Entry::who)
        .collect();
    let differ: Vec<_> = crowd.symmetric_difference(&killed).collect();
    assert!(differ.is_empty(), "{} differ: {differ:?}", differ.len());
    scene.assert_all_dead();
}
