//! Signalling one process after the other, and noticing who is dead.

use super::book::Life;
use super::engine::Engine;
use super::report::SpareReason;
use super::target::Spared;
use crate::process::{NotSent, Opened, ProcessId, Seen, SendError, Sender, Signal};

/// What a target answers when it withdraws a process.
type Withdrawal = (SpareReason, String);

impl Engine<'_> {
    /// Signals everybody who is to be signalled.
    pub(super) fn strike(&mut self, signal: Signal) {
        let Engine {
            helpers,
            findings,
            todo,
            ..
        } = self;
        helpers.retain(|(at, creator)| {
            let needed = findings.book.is_ending(*creator);
            todo.extend((!needed).then_some(*at));
            needed
        });
        for at in std::mem::take(&mut self.todo) {
            if self.cancel.is_cancelled() {
                return;
            }
            self.strike_one(at, signal);
        }
    }

    fn strike_one(&mut self, at: usize, signal: Signal) {
        let Some(known) = self.findings.book.get(at) else {
            return;
        };
        if known.life != Life::Alive {
            return;
        }
        let id = known.id;
        let mut opened = None;
        if self.watch.held(at).is_none() {
            match self.open(id.pid) {
                Ok(Opened::Live(fd)) => opened = Some(fd),
                Ok(Opened::Gone) => return self.bury(at),
                Err(error) if error.is_out_of_descriptors() => return self.todo.push(at),
                Err(error) => return self.set_trouble(at, error.to_string()),
            }
        }
        let Some(fd) = opened.as_ref().or(self.watch.held(at)) else {
            return;
        };
        let sender = Sender::new(self.proc, self.cancel);
        let target = &mut *self.target;
        let mut send = |signal| sender.send(fd, id, signal, || target.recheck(id));
        let mut signals = Vec::new();
        let mut answer = send(signal);
        if let Ok(seen) = &answer {
            signals.push(signal);
            if signal == Signal::Term && is_held_back(seen) {
                answer = send(Signal::Cont);
                signals.extend(answer.is_ok().then_some(Signal::Cont));
            }
        }
        // A target may know that a process is gone before it is asked about it.
        if matches!(answer, Err(NotSent::Withdrawn(_))) && fd.is_dead() {
            answer = Err(NotSent::Gone);
        }
        if let Some(known) = self.findings.book.get_mut(at) {
            known.sent.append(&mut signals);
        }
        if let Some(fd) = opened {
            self.watch.hold(at, fd);
        }
        self.note(at, id, signal, answer);
    }

    /// Notes how it went.
    fn note(
        &mut self,
        at: usize,
        id: ProcessId,
        signal: Signal,
        answer: Result<Seen, NotSent<Withdrawal>>,
    ) {
        let withdrawn = Life::Withdrawn(Some(signal));
        match answer {
            Ok(seen) => {
                if let Some(known) = self.findings.book.get_mut(at) {
                    known.comm = seen.stat.comm;
                    known.trouble = None;
                }
            }
            Err(NotSent::Gone) => self.bury(at),
            Err(NotSent::Reused(other)) => {
                self.bury(at);
                self.findings.book.add_stranger(Spared {
                    id: other,
                    start_ns: None,
                    evidence: Vec::new(),
                    reason: SpareReason::IdentityChanged,
                    detail: format!("it has the pid of {id}, which is dead"),
                });
            }
            Err(NotSent::Protected) => {
                let detail = "it is the init process, a kernel thread, or tracker";
                self.spare(at, withdrawn, SpareReason::Protected, detail.to_owned());
            }
            Err(NotSent::Withdrawn((reason, detail))) => self.spare(at, withdrawn, reason, detail),
            Err(NotSent::PermissionDenied) => {
                let own = rustix::process::geteuid().as_raw();
                let detail = format!("the kernel does not let uid {own} signal it");
                self.spare(at, Life::Denied, SpareReason::PermissionDenied, detail);
            }
            Err(NotSent::Cancelled) => {}
            Err(NotSent::Failed(error)) => {
                if is_out_of_descriptors(&error) {
                    self.watch.shed();
                    self.todo.push(at);
                } else {
                    self.set_trouble(at, error.to_string());
                }
            }
        }
    }

    /// Notes a death.
    pub(super) fn bury(&mut self, at: usize) {
        self.findings.book.set_life(at, Life::Dead);
        self.watch.forget(at);
    }

    fn spare(&mut self, at: usize, life: Life, reason: SpareReason, detail: String) {
        self.findings.book.spare(at, life, reason, detail);
        self.watch.forget(at);
    }

    fn set_trouble(&mut self, at: usize, trouble: String) {
        if let Some(known) = self.findings.book.get_mut(at) {
            known.trouble = Some(trouble);
        }
    }

    /// Gives the descriptors that are free to those who have none.
    pub(super) fn serve_queue(&mut self) {
        while let Some(at) = self.watch.next_in_queue() {
            let Some(known) = self.findings.book.get(at) else {
                continue;
            };
            if known.life != Life::Alive {
                continue;
            }
            let id = known.id;
            match (self.open(id.pid), self.proc.same(id)) {
                (Ok(Opened::Gone), _) | (_, Ok(None)) => self.bury(at),
                (Ok(Opened::Live(fd)), Ok(Some(_))) if fd.is_dead() => self.bury(at),
                (Ok(Opened::Live(fd)), Ok(Some(_))) => self.watch.hold(at, fd),
                (Err(_), _) | (_, Err(_)) => self.watch.enqueue(at),
            }
            let is_alive = |known: &super::book::Known| known.life == Life::Alive;
            if self.findings.book.get(at).is_some_and(is_alive) && self.watch.held(at).is_none() {
                // There is no room after all.
                return;
            }
        }
    }
}

/// Stopped, so that its handlers run only when somebody continues it. Of a
/// process whose leader has exited `stat` does not tell, and to one that runs
/// SIGCONT does nothing.
fn is_held_back(seen: &Seen) -> bool {
    seen.stat.state.is_stopped() || seen.stat.state.is_zombie()
}

fn is_out_of_descriptors(error: &SendError) -> bool {
    match error {
        SendError::Identity(error) => error.is_out_of_descriptors(),
        SendError::Call { .. } => false,
    }
}
