//! Whoever is created by a member is a member, however it leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tracker_tests::{
    Cgroup, LastPid, Need, Report, Scene, Source, Who, able, on_all_sources, until, victim_binary,
};

/// Runs a victim, and checks that everybody in `roles` was found and ended.
#[track_caller]
fn found(source: Source, victim: &str, roles: &[&str]) -> (Scene, Report) {
    let mut scene = Scene::on(source);
    let ended = scene.run(source, "--grace 60s").victim(victim).finish();
    let report = ended.assert_ended(&mut scene, source, roles);
    (scene, report)
}

/// Runs a script, and checks that everybody is dead and that the report lists
/// at least one process.
#[track_caller]
fn found_by_script(source: Source, script: &str) -> Report {
    let mut scene = Scene::on(source);
    let ended = scene.run(source, "--grace 60s").sh(script).finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    assert!(!report.processes().is_empty(), "{report}");
    report
}

/// Checks that the report names who created a process, and not the process
/// that took it over.
#[track_caller]
fn assert_creator_named(report: &Report, whom: Who, creator: Who) {
    let evidence = report.entry(whom).evidence();
    assert!(evidence.contains(&creator.to_string()), "{evidence}");
    assert!(!evidence.contains(" 1@"), "{evidence}");
}

on_all_sources!(a_background_process_of_a_shell_that_exited, |source| {
    found_by_script(source, "(sleep 600 &); exit");
});

on_all_sources!(a_double_forked_daemon, |source| {
    found(source, "double-fork", &["orphan"]);
});

on_all_sources!(an_orphan_of_a_dead_creator, |source| {
    let (scene, report) = found(source, "two-generations", &["orphan"]);
    if source.sees_forks() {
        assert_creator_named(&report, scene.who("orphan"), scene.who("creator"));
    }
});

#[test]
fn an_orphan_s_evidence_names_its_parent_at_the_fork_by_ebpf() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let mut scene = Scene::new();
    // The parent is gone and has been waited for before the orphan executes
    // what it ends up as.
    let script = "
        sh -c '
            (until [ -e released ]; do sleep .02; done; exec sleep 600) &
            echo $! >orphan; echo $$ >creator'
        touch released
        until grep -q sleep /proc/$(cat orphan)/comm; do sleep .02; done";
    let ended = scene.run(Source::Ebpf, "--grace 60s").sh(script).finish();
    let report = ended.assert_ended(&mut scene, Source::Ebpf, &[]);
    let pid = |file| -> i32 {
        let text = fs::read_to_string(scene.dir().join(file)).unwrap();
        text.trim().parse().unwrap()
    };
    let processes = report.processes();
    let entry = processes
        .iter()
        .find(|entry| entry.who().pid == pid("orphan"))
        .unwrap_or_else(|| panic!("{report}"));
    let evidence = entry.evidence();
    assert!(
        evidence.contains(&format!("{}@", pid("creator"))),
        "{evidence}"
    );
    assert!(!evidence.contains(" 1@"), "{evidence}");
}

on_all_sources!(a_sibling_made_by_clone_parent, |source| {
    let mut scene = Scene::on(source);
    // Its parent is tracker, which must not take it for the command.
    let ended = scene
        .run(source, "--grace 60s")
        .victim("clone-parent 7")
        .finish();
    ended.assert_code(7);
    let report = ended.report();
    report.assert_complete();
    let sibling = report.entry(scene.who("sibling"));
    assert_eq!(sibling.outcome(), "terminated", "{report}");
    if source.sees_forks() {
        assert_creator_named(&report, scene.who("sibling"), scene.who("creator"));
    }
    scene.assert_all_dead();
});

on_all_sources!(a_child_of_a_thread, |source| {
    let (scene, report) = found(source, "thread-fork", &["child-of-thread"]);
    if source.sees_forks() {
        assert_creator_named(&report, scene.who("child-of-thread"), scene.who("creator"));
    }
});

on_all_sources!(a_process_whose_leader_exited_and_its_child, |source| {
    found(source, "leader-exits", &["leaderless", "late-child"]);
});

on_all_sources!(a_process_whose_thread_executed_a_program_is_one, |source| {
    let (scene, report) = found(source, "non-leader-exec", &["after"]);
    assert_eq!(report.processes().len(), 1, "{report}");
    assert_eq!(scene.who("before"), scene.who("after"));
});

on_all_sources!(a_vforked_child, |source| {
    found(source, "vfork", &["vforked"]);
});

on_all_sources!(a_spawned_child, |source| {
    found(source, "posix-spawn", &["spawned"]);
});

on_all_sources!(a_child_of_a_32_bit_system_call needs [Need::Syscalls32], |source| {
    found(source, "fork-32bit", &["compat"]);
});

on_all_sources!(an_orphan_that_a_member_takes_over, |source| {
    found(source, "subreaper", &["subreaper", "orphan"]);
});

on_all_sources!(an_orphan_that_an_outsider_takes_over, |source| {
    let scene = Scene::on(source);
    let host = [victim_binary().to_str().unwrap(), "subreaper"];
    let tracker = scene.run(source, "--grace 60s").victim("double-fork");
    let running = tracker.through(&host).start();
    let status = scene.dir().join("status");
    let status = until("tracker's end", || fs::read_to_string(&status).ok());
    assert_eq!(status, "0");
    assert!(!scene.who("orphan").is_alive());
    assert!(scene.who("subreaper").is_alive());
    scene.touch("leave");
    let report = running.finish().report();
    report.assert_complete();
    assert_eq!(report.entry(scene.who("orphan")).outcome(), "terminated");
    assert!(!report.mentions(scene.who("subreaper")), "{report}");
});

on_all_sources!(a_process_that_left_its_cgroup needs [Need::Root, Need::Cgroup("cgroup2")], |source| {
    let cgroup = Cgroup::new("cgroup2");
    let procs = cgroup.file("cgroup.procs");
    found(source, &format!("move-cgroup {}", procs.display()), &["emigrant"]);
});

on_all_sources!(a_process_with_a_lower_pid_than_its_parent needs [Need::Root], |source| {
    let _lock = LastPid::take();
    found(source, "low-pid", &["junior"]);
});

on_all_sources!(a_process_with_a_hostile_name, |source| {
    let (scene, report) = found(source, "hostile-comm", &["impostor"]);
    let entry = report.entry(scene.who("impostor"));
    if source == Source::Procfs || !entry.comm().is_empty() {
        assert!(!entry.comm().contains('\n'), "{report}");
    }
});

on_all_sources!(a_process_with_an_empty_and_a_huge_argument, |source| {
    let (scene, report) = found(source, "big-argv", &["orator"]);
    let entry = report.entry(scene.who("orator"));
    let cmdline = entry.0["cmdline"].as_array().unwrap();
    if source == Source::Procfs && cmdline.len() == 2 {
        // The last snapshot is older than the program.
        assert_eq!(cmdline[1], "big-argv");
        return;
    }
    assert_eq!(cmdline[1..4], ["linger", "orator", ""]);
    // What was cut is said to be cut.
    let is_whole = cmdline[4].as_str().unwrap().len() == 100_000;
    assert_eq!(entry.0["truncated"], !is_whole);
});

on_all_sources!(a_process_of_a_script_with_an_interpreter, |source| {
    let mut scene = Scene::on(source);
    let script = scene.dir().join("script");
    fs::write(&script, "#!/bin/sh\nsetsid sleep 600 &\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = scene.run(source, "--grace 60s").arg(&script).finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    assert_eq!(report.processes().len(), 1, "{report}");
});

on_all_sources!(a_process_of_another_user needs [Need::Root, Need::Program("su")], |source| {
    let script = "su nobody -s /bin/sh -c \"setsid sleep 600.$$ &\"
                  until pgrep -u nobody -f \"^sleep 600.$$\" >/dev/null; do sleep .02; done";
    let report = found_by_script(source, script);
    let uids: Vec<_> = report.processes().iter().map(|entry| entry.0["uid"].clone()).collect();
    assert_eq!(uids, [65534], "{report}");
});

on_all_sources!(
    a_process_that_hangs_up_nothing_and_lives_elsewhere,
    |source| {
        found_by_script(source, "cd /; setsid nohup yes >/dev/null & exit");
    }
);

on_all_sources!(a_process_without_an_environment, |source| {
    found_by_script(source, "env -i setsid sleep 600 & exit");
});

on_all_sources!(a_process_with_a_forged_session, |source| {
    found_by_script(
        source,
        "TRACKER_SESSION=0123456789ab setsid sleep 600 & exit",
    );
});

on_all_sources!(a_process_in_other_namespaces needs [Need::Root, Need::Program("unshare")], |source| {
    found_by_script(source, "setsid unshare --mount --uts --ipc --net --cgroup sleep 600 & exit");
    found_by_script(source, "setsid unshare --user --map-root-user sleep 600 & exit");
});

on_all_sources!(processes_below_a_namespace_s_init needs [Need::Root, Need::Program("unshare")], |source| {
    let script = "unshare --pid --fork --mount-proc sh -c 'setsid sleep 600 & touch init; wait' &
                  until [ -e init ]; do sleep .02; done";
    found_by_script(source, script);
});

on_all_sources!(a_process_whose_clock_is_another needs [Need::Root, Need::Program("unshare")], |source| {
    found_by_script(source, "setsid unshare --time --boottime 86400 --fork sleep 600 & exit");
});

on_all_sources!(an_orphan_when_tracker_s_own_clock_is_another needs [Need::Root, Need::Program("unshare")], |source| {
    let mut scene = Scene::on(source);
    let tracker = scene.run(source, "--grace 60s").sh("(setsid sleep 600 &); exit");
    let clock = ["unshare", "--time", "--boottime", "86400", "--fork"];
    let ended = tracker.through(&clock).finish();
    let report = ended.assert_ended(&mut scene, source, &[]);
    assert_eq!(report.processes().len(), 1, "{report}");
});

on_all_sources!(an_orphan_whose_parent_was_replaced_and_is_gone, |source| {
    let script = "sh -c 'sleep 600 & exec sleep .2'; sleep .2";
    let report = found_by_script(source, script);
    let names: Vec<_> = report
        .processes()
        .iter()
        .map(|entry| entry.comm().to_owned())
        .collect();
    assert_eq!(names, ["sleep"], "{report}");
});
