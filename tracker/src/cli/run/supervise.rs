//! Tracker as the parent of the command: signals in, exit status out.

use std::ops::ControlFlow;

use anyhow::{Result, bail};

use super::backend::Backend;
use super::forwarding::{Situation, is_for_command, is_push};
use super::jobs::Jobs;
use super::status::Ended;
use super::terminal::Terminal;
use crate::process::launch::{Child, Received, SignalStream, Waited, stop_like, wait_any};
use crate::process::{Pid, Proc, ProcessId};

/// The parent of the command.
#[derive(Debug)]
pub(super) struct Supervisor {
    signals: SignalStream,
    child: Child,
    jobs: Jobs,
    surroundings: Surroundings,
}

impl Supervisor {
    /// `signals` must have been taken over before the command was started.
    pub(super) fn new(
        signals: SignalStream,
        child: Child,
        tracker: Backend,
        proc: Proc,
    ) -> Supervisor {
        let surroundings = Surroundings {
            command: child.id(),
            tracker,
            proc,
        };
        Supervisor {
            signals,
            child,
            jobs: Jobs::default(),
            surroundings,
        }
    }

    /// Passes signals on, until the command has ended.
    pub(super) async fn until_end(&mut self) -> Result<Ended> {
        loop {
            for received in self.signals.receive().await? {
                self.jobs.hear(received.signal);
                self.pass_on(received);
            }
            if let ControlFlow::Break(ended) = self.wait_for_children()? {
                return Ok(ended);
            }
            self.stop_with_command();
        }
    }

    /// Waits, when the command has ended, for the next signal that says that
    /// the rest takes too long. Orphans that tracker inherits are waited for.
    pub(super) async fn until_push(&mut self) -> Result<()> {
        loop {
            let mut pushed = false;
            for received in self.signals.receive().await? {
                pushed |= is_push(received, &self.surroundings);
                if Jobs::is_stop(received.signal) {
                    stop_like(received.signal);
                }
            }
            reap_zombies();
            if pushed {
                return Ok(());
            }
        }
    }

    fn pass_on(&mut self, received: Received) {
        let continues = received.signal == libc::SIGCONT;
        if continues && self.jobs.take_resumed() && !self.surroundings.is_command_stopped() {
            // Who continued tracker continued the whole job.
            return;
        }
        if !is_for_command(received, &self.surroundings) {
            return;
        }
        if let Err(errno) = self.child.forward(received.signal) {
            let signal = received.signal;
            tracing::info!(signal, %errno, "the kernel does not let tracker pass a signal on");
        }
    }

    /// Stops if it is time to, until tracker is continued.
    fn stop_with_command(&mut self) {
        if !self.jobs.is_command_stopped() {
            return;
        }
        let terminal = Terminal::open();
        let foreground = terminal.as_ref().and_then(Terminal::foreground);
        let own = rustix::process::getpgrp().as_raw_pid();
        let of_command = self.surroundings.group_of_command();
        let in_foreground =
            || foreground.is_some_and(|group| group == own || of_command == Some(group));
        let Some(signal) = self.jobs.take_stop(in_foreground) else {
            return;
        };
        stop_like(signal);
        // The terminal was the command's own group's: see `hand_over`.
        let lent = of_command.filter(|group| *group != own && foreground == Some(*group));
        if let (Some(terminal), Some(group)) = (terminal, lent) {
            terminal.hand_over(group);
        }
    }

    fn wait_for_children(&mut self) -> Result<ControlFlow<Ended>> {
        let command = self.child.id().pid;
        loop {
            match wait_any() {
                Waited::Changed(pid, change) if pid == command => {
                    self.jobs.note(change);
                    if let Some(ended) = Ended::of_change(change) {
                        let error = self.child.exec_error();
                        return Ok(ControlFlow::Break(error.map_or(ended, Ended::NotExecuted)));
                    }
                }
                Waited::Changed(..) => {}
                Waited::Nothing => return Ok(ControlFlow::Continue(())),
                Waited::NoChildren => bail!("the exit status of the command is lost"),
            }
        }
    }
}

/// Waits for all children that are dead. Answers whether there are no others.
pub(super) fn reap_zombies() -> bool {
    loop {
        match wait_any() {
            Waited::Changed(..) => {}
            Waited::Nothing => return false,
            Waited::NoChildren => return true,
        }
    }
}

/// Where tracker stands towards the command and whoever signals it.
#[derive(Debug)]
struct Surroundings {
    command: ProcessId,
    tracker: Backend,
    proc: Proc,
}

impl Surroundings {
    /// `None` when it is gone.
    fn group_of_command(&self) -> Option<i32> {
        let seen = self.proc.same(self.command).ok().flatten()?;
        Some(seen.stat.group)
    }

    fn is_command_stopped(&self) -> bool {
        let seen = self.proc.same(self.command).ok().flatten();
        seen.is_some_and(|seen| seen.stat.state.is_stopped())
    }
}

impl Situation for Surroundings {
    fn is_command_in_group(&self) -> bool {
        let own = rustix::process::getpgrp().as_raw_pid();
        // Of a dead command it does not matter.
        self.group_of_command().is_none_or(|group| group == own)
    }

    fn is_session_leader(&self) -> bool {
        rustix::process::getsid(None) == Ok(rustix::process::getpid())
    }

    fn is_member(&self, pid: Pid) -> bool {
        if pid == self.command.pid {
            return true;
        }
        let Ok(Some(seen)) = self.proc.seen(pid) else {
            return false;
        };
        self.tracker.is_member(seen.id).unwrap_or(false)
    }
}
