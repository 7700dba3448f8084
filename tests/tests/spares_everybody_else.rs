//! Who does not belong to the target lives, and so does who is kept.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use tracker_tests::{Canary, Scene, Source, copy_program, on_all_sources, victim_binary};

/// A copy of the victim program under another name.
fn victim_named(scene: &Scene, name: &str) -> PathBuf {
    let copy = scene.dir().join(name);
    copy_program(victim_binary(), &copy);
    copy
}

on_all_sources!(a_look_alike_outside_lives, |source| {
    let mut scene = Scene::on(source);
    let canary = Canary::new();
    let ended = scene
        .run(source, "--grace 60s")
        .sh("setsid sleep 600 & exit")
        .finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    canary.assert_lives();
    assert!(!report.mentions(canary.who()), "{report}");
});

on_all_sources!(
    the_sibling_of_tracker_in_its_own_process_group_lives,
    |source| {
        // A shell without job control puts all of them in one group.
        let scene = Scene::on(source);
        let script = "sleep 600 & echo $! >canary; \"$@\"; echo $? >status";
        let tracker = scene.run(source, "--grace 60s").victim("double-fork");
        let ended = tracker.through(&["sh", "-c", script, "sh"]).finish();
        ended.assert_code(0);
        assert_eq!(
            fs::read_to_string(scene.dir().join("status")).unwrap(),
            "0\n"
        );
        assert!(!scene.who("orphan").is_alive());
        let canary = scene.named("sleep");
        let pid = fs::read_to_string(scene.dir().join("canary")).unwrap();
        assert_eq!(pid.trim(), canary.pid.to_string());
        assert!(!ended.report().mentions(canary));
    }
);

on_all_sources!(another_run_s_members_live, |source| {
    let mut one = Scene::on(source);
    let mut other = Scene::on(source);
    let until_go = "\"$V\" double-fork; until [ -e go ]; do sleep .02; done";
    let running = other.run(source, "--grace 60s").sh(until_go).start();
    let stranger = other.await_cast("orphan", 1)[0];
    let ended = one
        .run(source, "--grace 60s")
        .victim("double-fork")
        .finish();
    ended.assert_ended(&mut one, source, &["orphan"]);
    assert!(stranger.is_alive());
    other.touch("go");
    running
        .finish()
        .assert_ended(&mut other, source, &["orphan"]);
});

on_all_sources!(a_kept_server_and_its_children_live, |source| {
    let scene = Scene::on(source);
    let server = victim_named(&scene, "kept-server");
    let script = format!("{} subreaper; \"$V\" slow-handler 1", server.display());
    let ended = scene
        .run(source, "--grace 60s --keep kept-*")
        .sh(&script)
        .finish();
    let report = ended.report();
    report.assert_consistent();
    for who in [scene.who("subreaper"), scene.who("orphan")] {
        assert!(who.is_alive());
        assert_eq!(report.spared_entry(who).reason(), "kept", "{report}");
    }
    let unkept = scene.who("handler");
    if source == Source::Procfs && unkept.is_alive() {
        // Whose child it is was not seen. It could be that of the kept one.
        ended.assert_code(121);
        assert_eq!(report.verdict(), "incomplete", "{report}");
        assert!(report.reasons().contains(&unkept.to_string()), "{report}");
        report.spared_entry(unkept);
        return;
    }
    assert!(!unkept.is_alive());
    assert_eq!(report.entry(unkept).outcome(), "terminated", "{report}");
    // While a child lives, the kernel does not say that there is none, which
    // is all the proof that snapshots can have.
    let is_complete = report.verdict() == "complete";
    assert!(is_complete || source == Source::Procfs, "{report}");
    ended.assert_code(if is_complete { 0 } else { 121 });
});

on_all_sources!(a_pattern_that_matches_nobody_keeps_nobody, |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 60s --keep vict --keep /usr/*/victim");
    let ended = tracker.victim("double-fork").finish();
    let report = ended.assert_ended(&mut scene, source, &["orphan"]);
    assert!(report.spared().is_empty(), "{report}");
});

on_all_sources!(nobody_is_ended_when_nobody_is_to_be, |source| {
    let scene = Scene::on(source);
    let ended = scene
        .run(source, "--no-reap")
        .sh("\"$V\" double-fork; exit 3")
        .finish();
    ended.assert_code(3);
    let orphan = scene.who("orphan");
    assert!(orphan.is_alive());
    // And it runs on: it is neither stopped nor condemned.
    orphan.signal(Signal::TERM);
    tracker_tests::until("its end", || (!orphan.is_alive()).then_some(()));
});

on_all_sources!(
    an_inner_run_ends_its_own_and_the_outer_one_the_rest,
    |source| {
        let mut scene = Scene::on(source);
        let script = format!(
            "lives() {{ grep -q '^State:.[^Z]' /proc/$(grep ^$1 cast | cut -d ' ' -f 2)/status; }}
         \"$V\" stubborn
         \"$T\" run --source {} --grace 60s -- \"$V\" double-fork
         lives stubborn && touch stubborn-lives
         lives orphan && touch orphan-lives
         exit 0",
            source.flag()
        );
        let ended = scene.run(source, "--grace 200ms").sh(&script).finish();
        ended.assert_ended(&mut scene, source, &["stubborn"]);
        assert!(scene.dir().join("stubborn-lives").exists());
        assert!(!scene.dir().join("orphan-lives").exists());
    }
);

on_all_sources!(
    a_run_that_is_left_behind_by_another_is_ended_with_its_members,
    |source| {
        let mut scene = Scene::on(source);
        let script = format!(
            "setsid \"$T\" run --source {} -- \"$V\" linger inner & until grep -q inner cast; do sleep .02; done",
            source.flag()
        );
        let ended = scene.run(source, "--grace 60s").sh(&script).finish();
        // By the outer one or, told so by that, by the inner one.
        ended.assert_ended(&mut scene, source, &[]);
    }
);
