//! What a record says is what `/proc` and `waitpid` say.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use tracker::lineage::{Event, Exec, Exit};
use tracker::source::Source;
use tracker_tests::{Scene, Who, until};

use super::{Gate, events, id, probe};

/// The last one: whoever waits for a child to execute its program is woken
/// before that is recorded, so it may have become a member by then.
fn exec_of(events: &[Event], who: Who) -> Exec {
    let found = events.iter().rev().find_map(|event| match event {
        Event::Exec(exec) if exec.id == id(who) => Some(exec.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no exec of {who} in {events:?}"))
}

fn exit_of(events: &[Event], who: Who) -> Exit {
    let found = events.iter().find_map(|event| match event {
        Event::Exit(exit) if exit.id == id(who) => Some(exit.clone()),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no exit of {who} in {events:?}"))
}

fn read(who: Who, file: &str) -> Vec<u8> {
    fs::read(format!("/proc/{}/{file}", who.pid)).unwrap()
}

#[test]
fn a_program_is_recorded_as_proc_shows_it() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::before(&scene, &["sleep", "600"]);
    let session = gate.member_of(&mut source);
    gate.open();
    // The name changes before the exec is recorded.
    let exec = until("the record of sleep", || {
        let seen = events(&mut source).into_iter();
        let mut execs = seen.filter_map(|event| match event {
            Event::Exec(exec) if exec.id == id(gate.who) => Some(exec),
            _ => None,
        });
        execs.find(|exec| exec.comm == b"sleep")
    });
    let mut argv = exec.argv.join(&0);
    argv.push(0);
    assert_eq!(argv, read(gate.who, "cmdline"));
    let same = |path: &Path| {
        fs::metadata(path)
            .map(|file| (file.dev(), file.ino()))
            .unwrap()
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(&exec.exe));
    assert_eq!(
        same(path),
        same(Path::new(&format!("/proc/{}/exe", gate.who.pid)))
    );
    assert_eq!(exec.comm, b"sleep");
    assert_eq!(exec.uid, rustix::process::getuid().as_raw());
    assert_eq!(exec.tag.unwrap().session, session);
    assert!(!exec.truncated);
    if let Some(cgroup) = cgroup_inode(gate.who) {
        assert_eq!(exec.cgroup_id, cgroup);
    }
}

/// The inode of its directory in cgroup2, which is the cgroup's id.
fn cgroup_inode(who: Who) -> Option<u64> {
    let path = String::from_utf8(read(who, "cgroup")).unwrap();
    let path = path.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mount = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    let dir = Path::new(mount.split(' ').nth(1)?).join(path);
    Some(fs::metadata(dir).unwrap().ino())
}

#[test]
fn a_child_is_recorded_with_its_creator_and_its_creators_name() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["thread-fork"]);
    gate.member_of(&mut source);
    assert!(gate.finish().success());
    let child = scene.who("child-of-thread");
    let forks: Vec<_> = events(&mut source)
        .into_iter()
        .filter_map(|event| match event {
            Event::Fork(fork) => Some(fork),
            _ => None,
        })
        .collect();
    // The thread that forked is no process, and neither is its id a creator.
    assert_eq!(forks.len(), 1, "{forks:?}");
    assert_eq!(forks[0].child, id(child));
    assert_eq!(forks[0].creator, id(gate.who));
    assert_eq!(forks[0].uid, rustix::process::getuid().as_raw());
    let comm = tracker_tests::proc::stat(child.pid).unwrap().comm;
    assert_eq!(forks[0].comm, comm);
}

#[test]
fn an_exit_has_the_status_that_waitpid_reports() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    for script in [
        "exit 7",
        "exit 0",
        "kill -TERM $$",
        "kill -SEGV $$",
        "kill -KILL $$",
    ] {
        let mut gate = Gate::script(&scene, script);
        gate.member_of(&mut source);
        let status = gate.finish();
        let exit = exit_of(&events(&mut source), gate.who);
        // The kernel sets the bit for a core dump by the limits of the process.
        assert_eq!(exit.status.0, status.into_raw().cast_unsigned(), "{script}");
        assert!(exit.time_ns >= gate.who.start * 10_000_000);
    }
}

#[test]
fn empty_and_long_arguments_are_kept_and_cut_ones_are_flagged() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::before(&scene, &["true", "", "x"]);
    gate.member_of(&mut source);
    assert!(gate.finish().success());
    let exec = exec_of(&events(&mut source), gate.who);
    assert_eq!(exec.argv, [b"true".to_vec(), vec![], b"x".to_vec()]);

    let long = "y".repeat(100_000);
    let mut gate = Gate::before(&scene, &["true", "", &long]);
    gate.member_of(&mut source);
    assert!(gate.finish().success());
    let exec = exec_of(&events(&mut source), gate.who);
    assert!(exec.truncated);
    assert_eq!(exec.argv[..2], [b"true".to_vec(), vec![]]);
    assert!(exec.argv[2].len() > 900 && long.as_bytes().starts_with(&exec.argv[2]));
}

#[test]
fn a_long_path_is_cut_and_flagged_and_one_that_just_fits_is_not() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let sleep = fs::canonicalize("/bin/true").unwrap();
    let sleep = sleep.to_str().unwrap();
    for length in [254, 255, 256, 4000] {
        // More slashes mean the same.
        let path = "/".repeat(length - sleep.len()) + sleep;
        let mut gate = Gate::before(&scene, &[&path]);
        gate.member_of(&mut source);
        assert!(gate.finish().success());
        let exec = exec_of(&events(&mut source), gate.who);
        assert_eq!(exec.truncated, length > 255, "{length}");
        assert_eq!(exec.exe, path.as_bytes()[..length.min(255)]);
    }
}

#[test]
fn a_shebang_is_recorded_as_the_script_that_was_asked_for() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let script = scene.dir().join("script");
    fs::write(&script, "#!/bin/sh\nexit 5\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut gate = Gate::before(&scene, &[&script]);
    gate.member_of(&mut source);
    assert_eq!(gate.finish().code(), Some(5));
    let exec = exec_of(&events(&mut source), gate.who);
    assert_eq!(exec.exe, script.as_os_str().as_bytes());
    assert_eq!(exec.argv[0], b"/bin/sh");
}

#[test]
fn a_thread_that_executes_keeps_the_identity_of_its_process() {
    let Some(mut source) = probe() else { return };
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["non-leader-exec"]);
    let session = gate.member_of(&mut source);
    assert!(gate.finish().success());
    let after = scene.who("after");
    assert_eq!(after, scene.who("before"));
    let events = events(&mut source);
    assert_eq!(exec_of(&events, after).argv[1], b"linger");
    let ended = |event: &Event| matches!(event, Event::Exit(exit) if exit.id == id(after));
    assert!(!events.iter().any(ended), "{events:?}");
    let members = source.members(&[session]).unwrap().found;
    let same = members
        .iter()
        .filter(|member| member.id == id(after))
        .count();
    assert_eq!(same, 1, "{members:?}");
}
