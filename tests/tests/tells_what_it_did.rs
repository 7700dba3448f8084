//! The report, the one line, and the statuses that speak of stragglers.

use serde_json::Value;
use tracker_tests::{Entry, Scene, on_all_sources, victim_binary};

on_all_sources!(nothing_is_said_when_nobody_was_left_behind, |source| {
    let scene = Scene::on(source);
    let ended = scene.run(source, "").arg("true").finish();
    ended.assert_code(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let report = ended.report();
    report.assert_complete();
    assert!(report.processes().is_empty(), "{report}");
});

on_all_sources!(one_line_is_said_when_somebody_was, |source| {
    let mut scene = Scene::on(source);
    let ended = scene
        .run(source, "--grace 60s")
        .victim("double-fork")
        .finish();
    ended.assert_ended(&mut scene, source, &["orphan"]);
    let line = ended.assert_one_line();
    assert!(line.starts_with("tracker: "), "{line}");
    assert!(line.contains("victim"), "{line}");
});

on_all_sources!(a_hostile_name_does_not_reach_the_terminal, |source| {
    let mut scene = Scene::on(source);
    let ended = scene
        .run(source, "--grace 60s")
        .victim("hostile-comm")
        .finish();
    let report = ended.assert_ended(&mut scene, source, &["impostor"]);
    assert_eq!(
        report.entry(scene.who("impostor")).comm(),
        "x) R 1 (\\n\\xff"
    );
    ended.assert_one_line();
});

on_all_sources!(a_leak_is_a_status_if_that_is_asked, |source| {
    let mut scene = Scene::on(source);
    let flags = "--grace 60s --fail-on-leak";
    scene.run(source, flags).arg("true").finish().assert_code(0);
    let ended = scene.run(source, flags).victim("double-fork").finish();
    ended.assert_code(120);
    ended.report().assert_complete();
    // A command that failed has said so itself.
    let ended = scene
        .run(source, flags)
        .sh("\"$V\" double-fork; exit 3")
        .finish();
    ended.assert_code(3);
    scene.assert_all_dead();
});

on_all_sources!(a_member_that_ended_by_itself_is_no_leak, |source| {
    let scene = Scene::on(source);
    let ended = scene
        .run(source, "--fail-on-leak")
        .sh("sleep 0 & wait")
        .finish();
    ended.assert_code(0);
    assert_eq!(ended.stderr, "");
});

on_all_sources!(a_report_on_standard_output, |source| {
    let mut scene = Scene::on(source);
    let flags = [
        "run",
        "--grace",
        "60s",
        "--source",
        source.flag(),
        "--report",
        "-",
        "--",
    ];
    let ended = scene.tracker(&flags).victim("double-fork").finish();
    ended.assert_code(0);
    let report = ended.printed_report();
    report.assert_complete();
    assert_eq!(report.entry(scene.who("orphan")).outcome(), "terminated");
    scene.assert_all_dead();
});

on_all_sources!(the_session_s_name_is_in_the_report, |source| {
    let scene = Scene::on(source);
    let tracker = scene
        .run(source, "--name nightly-build")
        .sh("echo $TRACKER_SESSION");
    let ended = tracker.finish();
    ended.assert_code(0);
    let target = &ended.report().0["target"];
    assert_eq!(target["kind"], "session");
    assert_eq!(target["name"], "nightly-build");
    assert_eq!(target["id"], ended.stdout.trim());
});

/// What a value has to be.
#[derive(Clone, Copy)]
enum Is {
    Number,
    NumberOrNull,
    Text,
    TextOrNull,
    Bool,
    List,
    Object,
    OneOf(&'static [&'static str]),
}

/// The fields of the documented report.
const REPORT: &[(&str, Is)] = &[
    ("schema", Is::Number),
    ("reap_id", Is::Text),
    ("target", Is::Object),
    (
        "verdict",
        Is::OneOf(&["complete", "survivors", "incomplete", "refused"]),
    ),
    ("reasons", Is::List),
    ("source", Is::OneOf(&["ebpf", "procfs"])),
    ("dry_run", Is::Bool),
    ("grace_ms", Is::Number),
    ("duration_ms", Is::Number),
    ("processes", Is::List),
    ("spared", Is::List),
    ("counts", Is::Object),
];
const ANYBODY: &[(&str, Is)] = &[
    ("pid", Is::Number),
    ("start_ticks", Is::Number),
    ("start_ns", Is::NumberOrNull),
    ("comm", Is::Text),
    ("exe", Is::Text),
    ("cmdline", Is::List),
    ("uid", Is::NumberOrNull),
    ("evidence", Is::List),
];
const PROCESS: &[(&str, Is)] = &[
    (
        "outcome",
        Is::OneOf(&["exited", "terminated", "killed", "survived", "skipped"]),
    ),
    ("reason", Is::TextOrNull),
    ("state", Is::TextOrNull),
    ("signals", Is::List),
];
const SPARED: &[(&str, Is)] = &[(
    "reason",
    Is::OneOf(&[
        "kept",
        "other_session",
        "protected",
        "inconclusive",
        "identity_changed",
        "permission_denied",
    ]),
)];
const EVIDENCE: &[(&str, Is)] = &[
    ("kind", Is::OneOf(&["lineage", "cwd", "adopted", "parent"])),
    ("detail", Is::Text),
];
const COUNTS: &[(&str, Is)] = &[
    ("exited", Is::Number),
    ("terminated", Is::Number),
    ("killed", Is::Number),
    ("survived", Is::Number),
    ("skipped", Is::Number),
    ("spared", Is::Number),
    ("forked_during_reap", Is::Number),
];

#[track_caller]
fn assert_fields(object: &Value, fields: &[(&str, Is)]) {
    for (name, is) in fields {
        let Some(value) = object.get(name) else {
            panic!("there is no {name} in {object:#}");
        };
        let fits = match is {
            Is::Number => value.is_u64(),
            Is::NumberOrNull => value.is_u64() || value.is_null(),
            Is::Text => value.is_string(),
            Is::TextOrNull => value.is_string() || value.is_null(),
            Is::Bool => value.is_boolean(),
            Is::List => value.is_array(),
            Is::Object => value.is_object(),
            Is::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        };
        assert!(fits, "{name} is {value} in {object:#}");
    }
}

on_all_sources!(a_report_has_all_its_documented_fields, |source| {
    let mut scene = Scene::on(source);
    let script = "\"$V\" hostile-comm; \"$V\" stubborn; \"$V\" big-argv";
    let tracker = scene.run(source, "--grace 300ms --name n\u{e4}me\u{202e}");
    let ended = tracker.sh(script).finish();
    let report = ended.assert_ended(&mut scene, source, &["impostor", "stubborn", "orator"]);
    assert_fields(&report.0, REPORT);
    assert_eq!(report.0["schema"], 1);
    assert_eq!(report.0["grace_ms"], 300);
    assert_fields(&report.0["counts"], COUNTS);
    assert_eq!(report.processes().len(), 3, "{report}");
    for entry in report.processes() {
        assert_fields(entry.0, PROCESS);
        assert_somebody(entry);
    }
    // Texts are escaped: nothing in them can change a terminal.
    assert!(!report.0.to_string().contains('\u{202e}'), "{report}");
    let impostor = report.entry(scene.who("impostor"));
    assert_eq!(impostor.comm(), "x) R 1 (\\n\\xff");
    assert_eq!(impostor.signals(), ["TERM"]);
    let stubborn = report.entry(scene.who("stubborn"));
    assert_eq!(stubborn.signals(), ["TERM", "KILL"]);
    assert_eq!(stubborn.0["cmdline"][1], "stubborn", "{report}");
});

on_all_sources!(a_spared_process_has_all_its_documented_fields, |source| {
    let scene = Scene::on(source);
    scene.copy(victim_binary(), "kept", 0o755);
    let tracker = scene.run(source, "--keep kept");
    let report = tracker.sh("./kept hostile-comm").finish().report();
    report.assert_consistent();
    let spared = report.spared_entry(scene.who("impostor"));
    assert_fields(spared.0, SPARED);
    assert_somebody(spared);
    assert_eq!(spared.reason(), "kept", "{report}");
    assert_eq!(spared.comm(), "x) R 1 (\\n\\xff");
});

#[track_caller]
fn assert_somebody(entry: Entry<'_>) {
    assert_fields(entry.0, ANYBODY);
    let evidence = entry.0["evidence"].as_array().unwrap();
    assert!(!evidence.is_empty(), "{:#}", entry.0);
    for evidence in evidence {
        assert_fields(evidence, EVIDENCE);
    }
    let exe = entry.0["exe"].as_str().unwrap();
    assert!(exe.ends_with("/victim") || exe.ends_with("/kept"), "{exe}");
    assert!(
        !entry.0["cmdline"].as_array().unwrap().is_empty(),
        "{:#}",
        entry.0
    );
    assert_eq!(entry.0["uid"], nix::unistd::getuid().as_raw());
}
