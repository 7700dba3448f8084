//! What a launched command gets, compared with what this test process has.
//!
//! Tests that need a process of their own (its signal mask, its children, its
//! end) run themselves again in one: see [`again`].

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{WaitOptions, WaitStatus};

use super::*;
use crate::process::{Opened, Pid, PidFd, Proc};

const LONG: Duration = Duration::from_secs(60);
const VALUE: &str = "0123456789ab";

fn launch(program: impl AsRef<Path>, args: &[&str]) -> Launch {
    Launch {
        program: program.as_ref().into(),
        args: args.iter().map(OsString::from).collect(),
        variable: "TRACKER_SESSION",
        value_len: VALUE.len(),
        inherited: Inherited::at_start(),
    }
}

/// Not [`wait_any`], which would take away the children of other tests.
fn wait(child: &Child) -> WaitStatus {
    let pid = rustix::process::Pid::from_raw(child.id().pid.raw());
    let waited = rustix::process::waitpid(pid, WaitOptions::empty());
    waited.unwrap().unwrap().1
}

fn start(launch: &Launch) -> Child {
    let gated = launch.fork(&Proc::open().unwrap()).unwrap();
    gated.release(VALUE).unwrap()
}

/// Runs it to its end, which must be success.
fn run(launch: &Launch) {
    let child = start(launch);
    let status = wait(&child);
    assert_eq!(child.exec_error(), None);
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

/// What a launched command finds in a file of its own `/proc` directory.
fn own_file(launch_it: impl FnOnce(Launch) -> Launch, name: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    let from = format!("if=/proc/self/{name}");
    let to = format!("of={}", copy.display());
    run(&launch_it(launch("dd", &[&from, &to, "status=none"])));
    std::fs::read(copy).unwrap()
}

fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(line.unwrap().trim_start_matches(':').trim(), 16).unwrap()
}

/// The test that calls this, in a process of its own. Two signals are blocked in
/// all its threads: the test harness has one more that would take them.
fn again(test: &str) -> Command {
    let mut command = Command::new("env");
    command
        .args(["--block-signal=CHLD", "--block-signal=USR1"])
        .arg(std::env::current_exe().unwrap())
        .arg(format!("process::launch::tests::{test}"))
        .args(["--exact", "--nocapture", "--test-threads=1"])
        .env("TRACKER_TEST_AGAIN", "1");
    command
}

/// By another process: a child that another test forks meanwhile would have the
/// file open for writing, and nobody could execute it (ETXTBSY).
fn write_script(path: &Path, text: &str) {
    let script = "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(path).arg(text);
    assert!(shell.status().unwrap().success());
}

fn is_again() -> bool {
    std::env::var_os("TRACKER_TEST_AGAIN").is_some()
}

#[test]
fn mask_and_dispositions_are_given_back() {
    let mask = 1 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGRTMIN() - 1);
    let bit = |signal: i32| 1_u64 << (signal - 1);
    let here = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let others = field(&here, "SigIgn") & !bit(libc::SIGPIPE) & !bit(libc::SIGCHLD);
    for (ignored, expected) in [(0, 0), (1, bit(libc::SIGPIPE)), (2, bit(libc::SIGCHLD))] {
        let inherited = Inherited {
            mask,
            ignored,
            closed: 0,
            death_signal: 0,
        };
        let status = own_file(
            |launch| Launch {
                inherited,
                ..launch
            },
            "status",
        );
        let status = String::from_utf8(status).unwrap();
        assert_eq!(field(&status, "SigBlk"), mask);
        assert_eq!(field(&status, "SigIgn"), others | expected);
        assert_eq!(field(&status, "SigPnd"), 0);
    }
}

#[test]
fn what_was_inherited_is_recorded_before_the_runtime_changes_it() {
    if is_again() {
        let inherited = Inherited::at_start();
        assert_eq!(inherited.ignored, 1, "SIGPIPE only");
        let bit = |signal: i32| 1_u64 << (signal - 1);
        let blocked = bit(libc::SIGUSR1) | bit(libc::SIGUSR2) | bit(libc::SIGCHLD);
        assert_eq!(inherited.mask, blocked);
        assert_eq!(inherited.closed, 1, "stdin only");
        println!("seen");
        return;
    }
    let inner = again("what_was_inherited_is_recorded_before_the_runtime_changes_it");
    let output = Command::new("env")
        .args(["--ignore-signal=PIPE", "--block-signal=USR2", "sh", "-c"])
        .arg("exec \"$0\" \"$@\" <&-")
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("TRACKER_TEST_AGAIN", "1")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("seen"), "{output:?}");
}

#[test]
fn a_descriptor_that_was_closed_is_closed_again() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    let script = "readlink /proc/$$/fd/0 /proc/$$/fd/1 >\"$0\"; true";
    let inherited = Inherited {
        closed: 1,
        ..Inherited::at_start()
    };
    let mut launch = launch("sh", &["-c", script, list.to_str().unwrap()]);
    launch.inherited = inherited;
    run(&launch);
    let list = std::fs::read_to_string(list).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
}

#[test]
fn no_descriptor_leaks_into_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    // `exec`, since the shell keeps a copy of what it redirects for one command.
    let script = "exec >\"$0\"; ls /proc/$$/fd";
    run(&launch("sh", &["-c", script, list.to_str().unwrap()]));
    let in_command: BTreeSet<i32> = std::fs::read_to_string(&list)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let handed_on: BTreeSet<i32> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|fd| {
            let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"));
            info.is_ok_and(|info| {
                let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
                let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
                flags & libc::O_CLOEXEC == 0
            })
        })
        .collect();
    assert_eq!(in_command, handed_on);
}

#[test]
fn the_environment_is_the_same_but_for_one_variable() {
    let environ = own_file(|launch| launch, "environ");
    let mut entries: Vec<&[u8]> = environ
        .split(|byte| *byte == 0)
        .filter(|entry| !entry.is_empty())
        .collect();
    assert_eq!(
        entries.pop(),
        Some(b"TRACKER_SESSION=0123456789ab".as_slice())
    );
    let expected: Vec<Vec<u8>> = std::env::vars_os()
        .filter(|(name, _)| name != "TRACKER_SESSION")
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    assert_eq!(entries, expected);
}

#[test]
fn working_directory_group_and_limits_are_the_same() {
    let limits = own_file(|launch| launch, "limits");
    assert_eq!(limits, std::fs::read("/proc/self/limits").unwrap());
    let proc = Proc::open().unwrap();
    let own = proc.seen(Pid::own()).unwrap().unwrap().stat;
    let child = start(&launch("sleep", &["60"]));
    let seen = proc.seen(child.id().pid).unwrap().unwrap().stat;
    let cwd = std::fs::read_link(format!("/proc/{}/cwd", child.id().pid));
    child.forward(libc::SIGKILL).unwrap();
    wait(&child);
    assert_eq!((seen.group, seen.session), (own.group, own.session));
    assert_eq!(seen.parent, Some(Pid::own()));
    assert_eq!(cwd.unwrap(), std::env::current_dir().unwrap());
}

#[test]
fn why_a_command_could_not_be_executed_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    let no_interpreter = dir.path().join("no-interpreter");
    write_script(&no_interpreter, "#!/no/such/interpreter\n");
    for (program, not_found) in [
        (Path::new("tracker-no-such-command"), true),
        (Path::new("/no/such/command"), true),
        (Path::new(""), true),
        (&no_interpreter, true),
        (&plain, false),
        (dir.path(), false),
        (&plain.join("x"), false),
    ] {
        let child = start(&launch(program, &[]));
        let status = wait(&child);
        assert_eq!(status.exit_status(), Some(126));
        let error = child.exec_error().unwrap();
        assert_eq!(error.is_not_found(), not_found, "{error}");
    }
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    write_script(&script, "test \"$1\" = 'a b' && test \"$0\" = \"$2\"\n");
    run(&launch(&script, &["a b", script.to_str().unwrap()]));
}

#[test]
fn a_command_that_is_not_released_never_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let gated = launch("touch", &[file.to_str().unwrap()])
        .fork(&Proc::open().unwrap())
        .unwrap();
    let id = gated.id();
    drop(gated);
    assert!(Proc::open().unwrap().is_dead(id).unwrap());
    assert!(!file.exists());
}

#[test]
fn a_command_at_the_gate_ends_with_tracker() {
    if is_again() {
        let file = std::env::var("TRACKER_TEST_FILE").unwrap();
        let gated = launch("touch", &[&file]).fork(&Proc::open().unwrap());
        println!("child {}", gated.as_ref().unwrap().id());
        // Killed by its parent here, with the child at the gate.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let mut tracker = again("a_command_at_the_gate_ends_with_tracker")
        .env("TRACKER_TEST_FILE", &file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let child = BufReader::new(tracker.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("child ")?.1.trim().parse().ok());
    let child: crate::process::ProcessId = child.unwrap();
    let opened = PidFd::open(child.pid).unwrap();
    tracker.kill().unwrap();
    tracker.wait().unwrap();
    if let Opened::Live(fd) = opened {
        assert!(fd.wait(LONG));
    }
    assert!(!file.exists());
}

#[test]
fn signals_are_passed_on_real_time_ones_too() {
    let child = start(&launch("sh", &["-c", "kill -STOP $$; sleep 60"]));
    let pid = rustix::process::Pid::from_raw(child.id().pid.raw());
    rustix::process::waitpid(pid, WaitOptions::UNTRACED).unwrap();
    child.forward(libc::SIGRTMIN()).unwrap();
    child.forward(libc::SIGCONT).unwrap();
    assert_eq!(wait(&child).terminating_signal(), Some(libc::SIGRTMIN()));
    assert_eq!(child.forward(libc::SIGTERM), Ok(()), "nobody is left");
    assert!(child.forward(0).is_err() && child.forward(65).is_err());
}

#[test]
fn received_signals_name_their_sender() {
    if is_again() {
        // An ignored SIGCHLD must not cost the exit status.
        super::inherited::dispose(libc::SIGCHLD, true);
        let signals = Signals::take_over().unwrap();
        let child = start(&launch("sh", &["-c", "kill -USR1 $PPID; exit 7"]));
        let mut received = Vec::new();
        let mut changes = Vec::new();
        while !changes.contains(&Waited::NoChildren) {
            let mut fds = [rustix::event::PollFd::new(
                &signals,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(&mut fds, None).unwrap();
            received.extend(std::iter::from_fn(|| signals.next().unwrap()));
            loop {
                changes.push(wait_any());
                if !matches!(changes.last(), Some(Waited::Changed(..))) {
                    break;
                }
            }
        }
        let pid = child.id().pid;
        assert!(received.contains(&Received {
            signal: libc::SIGUSR1,
            origin: Origin::Process(pid)
        }));
        assert!(received.contains(&Received {
            signal: libc::SIGCHLD,
            origin: Origin::Kernel
        }));
        assert!(changes.contains(&Waited::Changed(pid, Change::Exited(7))));
        println!("seen");
        return;
    }
    let output = again("received_signals_name_their_sender")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("seen"), "{output:?}");
}

#[test]
fn a_stop_is_seen_by_the_parent_and_can_be_continued() {
    if is_again() {
        Signals::take_over().unwrap();
        stop_like(libc::SIGTSTP);
        std::process::exit(9);
    }
    let mut stopped = again("a_stop_is_seen_by_the_parent_and_can_be_continued")
        // Its parent is in another group, so the group is not orphaned.
        .process_group(0)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&stopped);
    let (_, status) = rustix::process::waitpid(Some(pid), WaitOptions::UNTRACED)
        .unwrap()
        .unwrap();
    assert_eq!(status.stopping_signal(), Some(libc::SIGTSTP), "{status:?}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let status = stopped.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(9), None));
}

#[test]
fn the_end_of_a_command_makes_its_descriptor_readable() {
    let child = start(&launch("true", &[]));
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(
        child.as_fd(),
        rustix::event::PollFlags::IN,
    )];
    let limit = rustix::event::Timespec::try_from(LONG).unwrap();
    assert_eq!(rustix::event::poll(&mut fds, Some(&limit)), Ok(1));
    wait(&child);
}
