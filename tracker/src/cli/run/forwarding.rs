//! Which of the signals that tracker gets are meant for the command.

use crate::process::Pid;
use crate::process::launch::{Origin, Received};

/// What the kernel sends to a whole process group: at a key of the terminal,
/// when its window changes, when it is read or written from the background,
/// and when the group is orphaned or its terminal goes away.
const FOR_GROUPS: [i32; 8] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGCONT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGWINCH,
];

/// What the kernel tells tracker of tracker's own affairs: of its children, of
/// its own use of the processor and of files.
const OWN_AFFAIRS: [i32; 3] = [libc::SIGCHLD, libc::SIGXCPU, libc::SIGXFSZ];

/// What the decision depends on. Asked only when it does.
pub(super) trait Situation {
    /// Whether the command is in tracker's process group still.
    fn is_command_in_group(&self) -> bool;
    /// Whether tracker leads its session.
    fn is_session_leader(&self) -> bool;
    /// Whether a process belongs to the session of the command.
    fn is_member(&self, pid: Pid) -> bool;
}

/// Whether to pass a signal on to the command.
pub(super) fn is_for_command(received: Received, situation: &impl Situation) -> bool {
    let Received { signal, origin } = received;
    match origin {
        Origin::Outside => return true,
        // From inside, it was meant for the parent of the command, or for the
        // group (`kill 0`), and then the command has it already. To send that
        // back could go on for ever.
        Origin::Process(sender) => {
            return sender != Pid::own() && !situation.is_member(sender);
        }
        Origin::Kernel => {}
    }
    if OWN_AFFAIRS.contains(&signal) {
        return false;
    }
    if !FOR_GROUPS.contains(&signal) {
        // A timer that was set before tracker was executed, say: `alarm(2)`.
        return true;
    }
    // A hangup is told to the leader of the session alone (`tty_signal_session_leader`
    // of the kernel), which the command would be if tracker were not there.
    let for_leader = [libc::SIGHUP, libc::SIGCONT].contains(&signal);
    (for_leader && situation.is_session_leader()) || !situation.is_command_in_group()
}

/// Whether a signal during the teardown says that it takes too long.
pub(super) fn is_push(received: Received, situation: &impl Situation) -> bool {
    let ends = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
    let from_inside =
        matches!(received.origin, Origin::Process(sender) if situation.is_member(sender));
    ends.contains(&received.signal) && !from_inside
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Here {
        command_in_group: bool,
        session_leader: bool,
    }

    const MEMBER: i64 = 100;
    const USUAL: Here = Here {
        command_in_group: true,
        session_leader: false,
    };

    impl Situation for Here {
        fn is_command_in_group(&self) -> bool {
            self.command_in_group
        }

        fn is_session_leader(&self) -> bool {
            self.session_leader
        }

        fn is_member(&self, pid: Pid) -> bool {
            i64::from(pid) == MEMBER
        }
    }

    fn from(sender: i64, signal: i32) -> Received {
        let origin = Pid::new(sender).map_or(Origin::Outside, Origin::Process);
        Received { signal, origin }
    }

    fn by_kernel(signal: i32) -> Received {
        let origin = Origin::Kernel;
        Received { signal, origin }
    }

    #[test]
    fn what_a_process_sends_is_passed_on() {
        for signal in [
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGCONT,
            libc::SIGCHLD,
            40,
        ] {
            assert!(is_for_command(from(7, signal), &USUAL), "{signal}");
        }
    }

    #[test]
    fn what_comes_from_another_pid_namespace_is_passed_on_and_pushes() {
        assert!(is_for_command(from(0, libc::SIGTERM), &USUAL));
        assert!(is_push(from(0, libc::SIGTERM), &USUAL));
    }

    #[test]
    fn what_the_terminal_sends_to_the_group_is_not_doubled() {
        for signal in FOR_GROUPS {
            assert!(!is_for_command(by_kernel(signal), &USUAL), "{signal}");
        }
    }

    #[test]
    fn a_command_that_left_the_group_gets_what_the_terminal_sent() {
        let elsewhere = Here {
            command_in_group: false,
            ..USUAL
        };
        assert!(is_for_command(by_kernel(libc::SIGINT), &elsewhere));
    }

    #[test]
    fn the_hangup_that_only_a_session_leader_gets_is_passed_on() {
        let leader = Here {
            session_leader: true,
            ..USUAL
        };
        assert!(is_for_command(by_kernel(libc::SIGHUP), &leader));
        assert!(!is_for_command(by_kernel(libc::SIGINT), &leader));
    }

    #[test]
    fn an_alarm_that_was_set_before_is_passed_on() {
        assert!(is_for_command(by_kernel(libc::SIGALRM), &USUAL));
        assert!(!is_for_command(by_kernel(libc::SIGCHLD), &USUAL));
    }

    #[test]
    fn what_comes_from_inside_is_not_sent_back() {
        assert!(!is_for_command(from(MEMBER, libc::SIGTERM), &USUAL));
        assert!(!is_for_command(
            from(Pid::own().into(), libc::SIGTSTP),
            &USUAL
        ));
        assert!(!is_push(from(MEMBER, libc::SIGTERM), &USUAL));
    }

    #[test]
    fn a_key_or_another_process_can_push() {
        assert!(is_push(by_kernel(libc::SIGINT), &USUAL));
        assert!(is_push(from(7, libc::SIGTERM), &USUAL));
        assert!(!is_push(from(7, libc::SIGWINCH), &USUAL));
    }
}
