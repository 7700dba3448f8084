//! Processes with odd lives, one oddity a file. `victim ODDITY [ARGUMENT]...`
//!
//! Each announces its roles on the scene that it was started on, and does not
//! return before they are all taken, so that a test knows whom to look for.

mod ancestry;
mod argv;
mod cgroup;
mod churn;
mod clone_parent;
mod comm;
mod crowd;
mod double_fork;
mod fork_bomb;
mod fork_on_term;
mod forks;
mod hopper;
mod leader_exits;
mod linger;
mod low_pid;
mod never_waits;
mod non_leader_exec;
mod pair;
mod root_by_setuid;
mod slow_handler;
mod spawn;
mod stubborn;
mod subreaper;
mod supervisor;
mod syscall32;
mod thread_fork;
mod traced;

/// What a victim does. It may return, which ends the program.
type Play = fn(&[String]);

const PLAYS: &[(&str, Play)] = &[
    ("big-argv", argv::play),
    ("can-fork-32bit", syscall32::can),
    ("churn", churn::play),
    ("clone-parent", clone_parent::play),
    ("crowd", crowd::play),
    ("double-fork", double_fork::play),
    ("fork-32bit", syscall32::play),
    ("fork-bomb", fork_bomb::play),
    ("fork-on-term", fork_on_term::play),
    ("forks", forks::play),
    ("foster", subreaper::foster),
    ("hopper", hopper::play),
    ("hostile-comm", comm::play),
    ("leader-exits", leader_exits::play),
    ("linger", linger::play),
    ("low-pid", low_pid::play),
    ("move-cgroup", cgroup::play),
    ("never-waits", never_waits::play),
    ("non-leader-exec", non_leader_exec::play),
    ("pair", pair::play),
    ("posix-spawn", spawn::posix_spawn),
    ("root-by-setuid", root_by_setuid::play),
    ("slow-handler", slow_handler::play),
    ("stubborn", stubborn::play),
    ("subreaper", subreaper::play),
    ("supervisor", supervisor::play),
    ("thread-fork", thread_fork::play),
    ("traced", traced::play),
    ("two-generations", ancestry::play),
    ("vfork", spawn::vfork),
];

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let oddity = if arguments.is_empty() {
        String::new()
    } else {
        arguments.remove(0)
    };
    let Some((_, play)) = PLAYS.iter().find(|(name, _)| *name == oddity) else {
        panic!("no victim is called {oddity:?}");
    };
    play(&arguments);
}

/// Argument `at`, or `default` when it is missing.
fn number(arguments: &[String], at: usize, default: usize) -> usize {
    arguments.get(at).map_or(default, |argument| {
        argument.parse().expect("a whole number")
    })
}
