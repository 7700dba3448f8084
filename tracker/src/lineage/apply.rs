//! Taking in events.
//!
//! What makes the order not matter: every report has a time, and of two reports
//! about one thing the later one counts; a heard exit is final; an end that was
//! only inferred is undone by a report that the process was alive later.

use super::event::{Event, Exec, Exit, Fork, Gone, Snapshot};
use super::forest::{Key, Slot, Stamps};
use super::map::Lineage;
use super::node::{ExitSeen, Node};
use super::tag::Tag;
use crate::process::ProcessId;

/// How sure a report is that a process was alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Alive {
    /// It did something.
    Acted,
    /// It was listed. A zombie is, too.
    Listed,
}

impl Lineage {
    /// Takes in an event.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Fork(fork) => self.fork(fork),
            Event::Exec(exec) => self.exec(exec),
            Event::Exit(exit) => self.exit(&exit),
            Event::Snapshot(snapshot) => self.snapshot(snapshot),
            Event::Gone(gone) => self.gone(gone),
        }
        self.tidy();
    }

    fn fork(&mut self, fork: Fork) {
        self.pass_time(fork.time_ns);
        if let Some(key) = self.key(fork.child) {
            let slot = &self.forest[key];
            if slot.forked {
                let said_before = fork.time_ns <= slot.node.fork_ns;
                if said_before || !self.is_latest_of_its_pid(fork.child) {
                    return;
                }
                self.begin_new_life(key, fork.time_ns);
            }
        }
        let child = self.alive(fork.child, fork.time_ns, Alive::Acted);
        let creator = self.alive(fork.creator, fork.time_ns, Alive::Acted);
        self.set_creator(child, creator);
        let slot = &mut self.forest[child];
        slot.forked = true;
        slot.node.fork_ns = fork.time_ns;
        slot.node.parent_only = false;
        slot.set_comm(fork.comm, fork.time_ns);
        slot.set_uid(fork.uid, fork.time_ns);
        slot.set_cgroup(fork.cgroup_id, fork.time_ns);
        slot.set_tag(fork.tag, fork.time_ns);
    }

    fn exec(&mut self, exec: Exec) {
        self.pass_time(exec.time_ns);
        if self.is_of_an_earlier_life(exec.id, exec.time_ns) {
            return;
        }
        let key = self.alive(exec.id, exec.time_ns, Alive::Acted);
        let slot = &mut self.forest[key];
        slot.node.exec_ns = slot.node.exec_ns.max(Some(exec.time_ns));
        slot.set_comm(exec.comm, exec.time_ns);
        slot.set_exe(exec.exe, exec.time_ns);
        slot.set_argv(exec.argv, exec.truncated, exec.time_ns);
        slot.set_uid(exec.uid, exec.time_ns);
        slot.set_cgroup(exec.cgroup_id, exec.time_ns);
        slot.set_tag(exec.tag, exec.time_ns);
    }

    fn exit(&mut self, exit: &Exit) {
        self.pass_time(exit.time_ns);
        if self.is_of_an_earlier_life(exit.id, exit.time_ns) {
            return;
        }
        let key = self.known(exit.id);
        let end = ExitSeen {
            time_ns: exit.time_ns,
            status: Some(exit.status),
        };
        match self.forest[key].node.exit {
            None => self.bury(key, end),
            Some(before) if before.status.is_none() => {
                self.forest[key].node.exit = Some(end);
                self.unheard_exits -= 1;
            }
            // Of another life under the same key, whose fork was not heard of.
            Some(before) if before.time_ns < exit.time_ns => {
                self.forest[key].node.exit = Some(end);
            }
            Some(_) => {}
        }
        self.forest[key].set_tag(exit.tag, exit.time_ns);
    }

    fn snapshot(&mut self, snapshot: Snapshot) {
        self.pass_time(snapshot.time_ns);
        let time_ns = snapshot.time_ns;
        let key = self.alive(snapshot.id, time_ns, Alive::Listed);
        if let Some(parent) = snapshot.parent {
            let parent = self.alive(parent, time_ns, Alive::Listed);
            let slot = &mut self.forest[key];
            if !slot.forked && time_ns < slot.stamps.parent {
                slot.stamps.parent = time_ns;
                let known = self.set_creator(key, parent);
                self.forest[key].node.parent_only = known;
            }
        }
        let slot = &mut self.forest[key];
        slot.set_comm(snapshot.comm, time_ns);
        if let Some(exe) = snapshot.exe {
            slot.set_exe(exe, time_ns);
        }
        if let Some(argv) = snapshot.argv {
            slot.set_argv(argv, false, time_ns);
        }
        if let Some(uid) = snapshot.uid {
            slot.set_uid(uid, time_ns);
        }
        slot.set_tag(snapshot.tag, time_ns);
    }

    fn gone(&mut self, gone: Gone) {
        self.pass_time(gone.time_ns);
        if let Some(key) = self.key(gone.id)
            && self.forest[key].node.is_alive()
            && self.forest[key].alive_ns <= gone.time_ns
        {
            self.bury_unheard(key, gone.time_ns);
        }
    }

    pub(super) fn pass_time(&mut self, time_ns: u64) {
        self.now_ns = self.now_ns.max(time_ns);
    }

    /// The slot of a process that was alive at `time_ns`.
    pub(super) fn alive(&mut self, id: ProcessId, time_ns: u64, how: Alive) -> Key {
        let key = self.known(id);
        let slot = &mut self.forest[key];
        slot.alive_ns = slot.alive_ns.max(time_ns);
        let exit = slot.node.exit.filter(|exit| exit.time_ns < time_ns);
        match exit {
            Some(_) if !self.is_latest_of_its_pid(id) => {}
            Some(ExitSeen { status: None, .. }) => {
                self.unheard_exits -= 1;
                self.revive(key);
            }
            Some(_) if how == Alive::Acted => self.begin_new_life(key, time_ns),
            _ => {}
        }
        key
    }

    fn is_latest_of_its_pid(&self, id: ProcessId) -> bool {
        self.neighbours(id).1.is_none()
    }

    /// The slot of a process; a new one for one that is not known.
    fn known(&mut self, id: ProcessId) -> Key {
        if let Some(key) = self.key(id) {
            return key;
        }
        let key = self.forest.insert(Slot::new(id));
        self.ids.insert(id, key);
        self.live += 1;
        // A pid has one holder, so an older one is dead, though nobody said so.
        match self.neighbours(id) {
            (_, Some(_)) => self.bury_unheard(key, self.now_ns),
            (Some(older), None) if self.forest[older].node.is_alive() => {
                self.bury_unheard(older, self.now_ns);
            }
            _ => {}
        }
        key
    }

    fn is_of_an_earlier_life(&self, id: ProcessId, time_ns: u64) -> bool {
        self.key(id).is_some_and(|key| {
            let slot = &self.forest[key];
            slot.forked && time_ns < slot.node.fork_ns
        })
    }

    /// Two processes had one pid and started in the same tick, which takes all
    /// pids to be used up within 10 ms, or somebody who sets the next pid. They
    /// share one key. The later one gets it; the children stay where they are.
    fn begin_new_life(&mut self, key: Key, time_ns: u64) {
        self.detach(key);
        if self.forest[key].node.is_alive() {
            self.unheard_exits += 1;
        } else {
            if self.forest[key]
                .node
                .exit
                .is_some_and(|exit| exit.status.is_none())
            {
                self.unheard_exits -= 1;
            }
            self.revive(key);
        }
        let slot = &mut self.forest[key];
        slot.node = Node::new(slot.node.id);
        slot.forked = false;
        slot.alive_ns = time_ns;
        slot.stamps = Stamps::default();
    }

    /// Makes `creator` the creator of `child` and answers whether that can be.
    fn set_creator(&mut self, child: Key, creator: Key) -> bool {
        if self.forest[child].parent == Some(creator) {
            return true;
        }
        self.detach(child);
        self.forest[child].node.skipped_ancestors = 0;
        if self.forest.would_close_a_circle(child, creator) {
            return false;
        }
        self.attach(child, creator);
        true
    }
}

/// Whether a report is as recent as what is known, which it replaces then.
fn is_recent(stamp: &mut u64, time_ns: u64) -> bool {
    let recent = time_ns >= *stamp;
    if recent {
        *stamp = time_ns;
    }
    recent
}

impl Slot {
    /// A report without a tag says nothing: a release is told by `set_tag`, and
    /// the dead go on to show whose they were.
    fn set_tag(&mut self, tag: Option<Tag>, time_ns: u64) {
        if tag.is_some() && is_recent(&mut self.stamps.tag, time_ns) {
            self.node.tag = tag;
        }
    }

    fn set_comm(&mut self, comm: Vec<u8>, time_ns: u64) {
        if is_recent(&mut self.stamps.comm, time_ns) {
            self.node.comm = comm;
        }
    }

    fn set_exe(&mut self, exe: Vec<u8>, time_ns: u64) {
        if is_recent(&mut self.stamps.exe, time_ns) {
            self.node.exe = Some(exe);
        }
    }

    fn set_argv(&mut self, argv: Vec<Vec<u8>>, truncated: bool, time_ns: u64) {
        if is_recent(&mut self.stamps.argv, time_ns) {
            self.node.argv = Some(argv);
            self.node.truncated = truncated;
        }
    }

    fn set_uid(&mut self, uid: u32, time_ns: u64) {
        if is_recent(&mut self.stamps.uid, time_ns) {
            self.node.uid = Some(uid);
        }
    }

    fn set_cgroup(&mut self, cgroup_id: u64, time_ns: u64) {
        if is_recent(&mut self.stamps.cgroup, time_ns) {
            self.node.cgroup_id = Some(cgroup_id);
        }
    }
}
