//! What a victim does on its scene: say who it is, wait for others, linger.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::proc::{self, Who};
use crate::raw;
use crate::wait::until;

/// The variable with the scene's directory.
pub const DIR: &str = "TRACKER_TEST_DIR";
/// The file in it where victims announce themselves.
pub const CAST: &str = "cast";
/// The file in it that is there while the test is on.
pub const ON: &str = "on";

/// The scene's directory.
pub fn dir() -> PathBuf {
    let dir: OsString = std::env::var_os(DIR).expect("a victim runs on a scene");
    dir.into()
}

/// Lets the test know who plays a role.
pub fn announce(role: &str) {
    announce_all(role, [Who::own()]);
}

/// Lets the test know who play a role.
pub fn announce_all(role: &str, who: impl IntoIterator<Item = Who>) {
    let mut lines = String::new();
    for Who { pid, start } in who {
        let _ = writeln!(lines, "{role} {pid} {start}");
    }
    let mut cast = fs::OpenOptions::new()
        .append(true)
        .open(dir().join(CAST))
        .expect("the scene's cast");
    // One write, so that lines do not mix.
    cast.write_all(lines.as_bytes()).expect("lines of the cast");
}

/// Who has announced itself in a role, in the order of the announcements.
pub(crate) fn cast_in(dir: &Path, role: &str) -> Vec<Who> {
    let text = fs::read_to_string(dir.join(CAST)).unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        (words.next()? == role).then_some(())?;
        Some(Who {
            pid: words.next()?.parse().ok()?,
            start: words.next()?.parse().ok()?,
        })
    };
    // A line without its end is being written.
    text.split_inclusive('\n')
        .filter_map(|line| parse(line.strip_suffix('\n')?))
        .collect()
}

/// Waits until so many have announced themselves in a role.
pub fn await_cast(role: &str, count: usize) -> Vec<Who> {
    let dir = dir();
    until(role, || {
        let cast = cast_in(&dir, role);
        (cast.len() >= count).then_some(cast)
    })
}

/// Waits until a process has this state letter.
pub fn await_state(who: Who, state: char) {
    until(&format!("state {state} of {who}"), || {
        proc::stat(who.pid).filter(|stat| stat.who == who && stat.state == state)
    });
}

/// The calling program's file, which a test may have copied.
pub fn own_program() -> PathBuf {
    std::env::current_exe().expect("/proc/self/exe")
}

/// Whether the test is over. Who multiplies has to ask.
pub fn is_over() -> bool {
    !dir().join(ON).exists()
}

/// Does nothing for as long as any test lasts.
pub fn linger() -> ! {
    std::thread::sleep(Duration::from_secs(600));
    raw::exit_now(0)
}

/// Becomes a daemon's grandchild: forks, leaves the session, forks again. The
/// process in between has exited when this returns; its pid is the answer.
pub fn detach(orphan: impl FnOnce()) -> i32 {
    let middle = raw::fork(|| {
        rustix::process::setsid().expect("setsid");
        raw::fork(orphan);
    });
    wait_for(middle);
    middle
}

/// Waits for a child, also where SIGCHLD is ignored and the kernel waits.
pub fn wait_for(child: i32) {
    let child = rustix::process::Pid::from_raw(child);
    let waited = rustix::process::waitpid(child, rustix::process::WaitOptions::empty());
    assert!(
        matches!(waited, Ok(_) | Err(rustix::io::Errno::CHILD)),
        "waitpid: {waited:?}"
    );
}
