//! The map against a model: a simulated host that knows the truth.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;

use super::event::{Event, Exec, Exit, Fork, Snapshot, WaitStatus};
use super::map::Lineage;
use super::node::{ExitSeen, Node};
use super::retain::Limits;
use super::tag::{SessionId, Tag};
use crate::process::{Pid, ProcessId, StartTime};

const STEP_NS: u64 = 3_000_000;
const UNLIMITED: Limits = Limits {
    dead: usize::MAX,
    dead_age_ns: u64::MAX,
    chain: usize::MAX,
};

#[derive(Clone, Debug)]
enum Op {
    Fork(Index),
    Exec(Index),
    Exit(Index),
    Snapshot(Index, bool),
}

fn ops(weights: [u32; 4]) -> impl Strategy<Value = Vec<Op>> {
    let [forks, execs, exits, snapshots] = weights;
    let op = prop_oneof![
        forks => any::<Index>().prop_map(Op::Fork),
        execs => any::<Index>().prop_map(Op::Exec),
        exits => any::<Index>().prop_map(Op::Exit),
        snapshots => any::<(Index, bool)>().prop_map(|(who, all)| Op::Snapshot(who, all)),
    ];
    prop::collection::vec(op, 1..150)
}

/// What a program of the simulated host is.
#[derive(Clone, Debug)]
struct Running {
    parent: Option<ProcessId>,
    comm: Vec<u8>,
    exe: Vec<u8>,
    uid: u32,
    tag: Option<Tag>,
}

#[derive(Debug, Default)]
struct Host {
    time_ns: u64,
    running: BTreeMap<ProcessId, Running>,
    /// What the map has to say in the end.
    truth: BTreeMap<ProcessId, Node>,
    /// Everything that happened, each with whose order it belongs to.
    events: Vec<(Option<ProcessId>, Event)>,
}

fn id(pid: i64, ticks: u64) -> ProcessId {
    ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(ticks))
}

impl Host {
    fn run(ops: &[Op]) -> Host {
        let mut host = Host::default();
        let init = id(1, 0);
        let running = Running {
            parent: None,
            comm: b"init".to_vec(),
            exe: b"/sbin/init".to_vec(),
            uid: 0,
            tag: None,
        };
        host.running.insert(init, running);
        host.truth.insert(init, Node::new(init));
        host.snapshot(init, true);
        for op in ops {
            host.time_ns += STEP_NS;
            let (Op::Fork(who) | Op::Exec(who) | Op::Exit(who) | Op::Snapshot(who, _)) = op;
            let ids: Vec<ProcessId> = host.running.keys().copied().collect();
            let who = *who.get(&ids);
            match op {
                Op::Fork(_) => host.fork(who),
                Op::Exec(_) => host.exec(who),
                Op::Exit(_) if who.pid == Pid::INIT => {}
                Op::Exit(_) => host.exit(who),
                Op::Snapshot(_, all) => host.snapshot(who, *all),
            }
        }
        host
    }

    fn fork(&mut self, creator: ProcessId) {
        let ticks = StartTime::from_ns(self.time_ns).ticks();
        // Few pids, so that they are reused, but not in the same tick.
        let free = (2..12).map(|pid| id(pid, ticks)).find(|id| {
            !self.truth.contains_key(id) && !self.running.keys().any(|used| used.pid == id.pid)
        });
        let Some(child) = free else { return };
        let mut running = self.running[&creator].clone();
        running.parent = Some(creator);
        if child.start_time.ticks() % 7 == 0 {
            running.tag = SessionId::new(child.start_time.ticks() + 1).map(Tag::member);
        }
        let mut node = Node::new(child);
        node.creator = Some(creator);
        node.fork_ns = self.time_ns;
        node.comm.clone_from(&running.comm);
        node.uid = Some(running.uid);
        node.cgroup_id = Some(u64::from(running.uid));
        node.tag = running.tag;
        self.truth.insert(child, node);
        let event = Fork {
            child,
            creator,
            tag: running.tag,
            time_ns: self.time_ns,
            comm: running.comm.clone(),
            uid: running.uid,
            cgroup_id: u64::from(running.uid),
        };
        self.events.push((Some(creator), Event::Fork(event)));
        self.running.insert(child, running);
    }

    fn exec(&mut self, who: ProcessId) {
        let (running, node) = (
            self.running.get_mut(&who).unwrap(),
            self.truth.get_mut(&who).unwrap(),
        );
        running.comm = format!("comm{}", self.time_ns).into_bytes();
        running.exe = format!("/exe{}", self.time_ns).into_bytes();
        running.uid += 1;
        node.comm.clone_from(&running.comm);
        node.exe = Some(running.exe.clone());
        node.argv = Some(vec![running.exe.clone(), vec![]]);
        node.truncated = running.uid.is_multiple_of(2);
        node.uid = Some(running.uid);
        node.cgroup_id = Some(u64::from(running.uid));
        node.exec_ns = Some(self.time_ns);
        let event = Exec {
            id: who,
            tag: running.tag,
            time_ns: self.time_ns,
            comm: running.comm.clone(),
            exe: running.exe.clone(),
            argv: vec![running.exe.clone(), vec![]],
            truncated: node.truncated,
            uid: running.uid,
            cgroup_id: u64::from(running.uid),
        };
        self.events.push((Some(who), Event::Exec(event)));
    }

    fn exit(&mut self, who: ProcessId) {
        let running = self.running.remove(&who).unwrap();
        let status = WaitStatus(u32::try_from(self.time_ns % 256).unwrap() << 8);
        let exit = ExitSeen {
            time_ns: self.time_ns,
            status: Some(status),
        };
        self.truth.get_mut(&who).unwrap().exit = Some(exit);
        for orphan in self
            .running
            .values_mut()
            .filter(|other| other.parent == Some(who))
        {
            orphan.parent = Some(id(1, 0));
        }
        let event = Exit {
            id: who,
            tag: running.tag,
            time_ns: self.time_ns,
            status,
        };
        self.events.push((Some(who), Event::Exit(event)));
    }

    fn snapshot(&mut self, who: ProcessId, all: bool) {
        let running = &self.running[&who];
        let node = self.truth.get_mut(&who).unwrap();
        node.comm.clone_from(&running.comm);
        if all {
            node.exe = Some(running.exe.clone());
            node.argv = Some(Vec::new());
            node.truncated = false;
            node.uid = Some(running.uid);
        }
        let event = Snapshot {
            id: who,
            parent: running.parent,
            tag: running.tag,
            time_ns: self.time_ns,
            comm: running.comm.clone(),
            exe: all.then(|| running.exe.clone()),
            argv: all.then(Vec::new),
            uid: all.then_some(running.uid),
        };
        self.events.push((None, Event::Snapshot(event)));
    }

    fn in_order(&self) -> Vec<Event> {
        self.events.iter().map(|(_, event)| event.clone()).collect()
    }

    /// The events so that only those of one process keep their order.
    fn interleaved(&self, choices: &[Index]) -> Vec<Event> {
        let mut queues: BTreeMap<Option<ProcessId>, VecDeque<Event>> = BTreeMap::new();
        for (whose, event) in &self.events {
            queues.entry(*whose).or_default().push_back(event.clone());
        }
        let mut merged = Vec::new();
        let mut choices = choices.iter().cycle();
        while !queues.is_empty() {
            let keys: Vec<_> = queues.keys().copied().collect();
            let key = choices.next().unwrap().get(&keys);
            let queue = queues.get_mut(key).unwrap();
            merged.extend(queue.pop_front());
            if queue.is_empty() {
                queues.remove(key);
            }
        }
        merged
    }

    fn alive(&self) -> Vec<ProcessId> {
        self.running.keys().copied().collect()
    }

    /// The creators of a process, from itself up to init.
    fn chain(&self, who: ProcessId) -> Vec<ProcessId> {
        std::iter::successors(Some(who), |id| self.truth[id].creator).collect()
    }
}

fn feed(limits: Limits, events: &[Event]) -> Lineage {
    let mut map = Lineage::new(limits);
    for event in events {
        map.apply(event.clone());
        map.check();
    }
    map
}

fn assert_is_truth(map: &Lineage, host: &Host) {
    for (id, truth) in &host.truth {
        assert_eq!(map.node(*id), Some(truth));
        let live_children = map
            .children(*id)
            .into_iter()
            .filter(|child| host.running.contains_key(child));
        let expected = host
            .running
            .keys()
            .filter(|other| host.truth[other].creator == Some(*id));
        assert_eq!(live_children.count(), expected.count());
        let descendants = map.descendants(*id);
        for other in host.running.keys().filter(|other| *other != id) {
            assert_eq!(descendants.contains(other), host.chain(*other).contains(id));
        }
    }
    assert_eq!(map.all().count(), host.truth.len());
    for pid in 1..12 {
        let pid = Pid::new(pid).unwrap();
        let holder = host.running.keys().find(|id| id.pid == pid).copied();
        assert_eq!(map.holder(pid), holder);
        let all: Vec<ProcessId> = host
            .truth
            .keys()
            .filter(|id| id.pid == pid)
            .copied()
            .collect();
        assert_eq!(map.by_pid(pid), all);
    }
}

proptest! {
    #[test]
    fn any_interleaving_with_repetitions_tells_the_truth(
        ops in ops([6, 2, 4, 2]),
        choices in prop::collection::vec(any::<Index>(), 1..100),
        repeated in prop::collection::vec(any::<(Index, Index)>(), 0..30),
    ) {
        let host = Host::run(&ops);
        let mut events = host.interleaved(&choices);
        for (what, to) in repeated {
            let from = what.index(events.len());
            let to = from + 1 + to.index(events.len() - from);
            events.insert(to, events[from].clone());
        }
        let mut map = feed(UNLIMITED, &events);
        assert_is_truth(&map, &host);
        prop_assert_eq!(map.stats().unheard_exits, 0);
        for event in host.in_order() {
            map.apply(event);
        }
        map.resync(&host.alive(), host.time_ns + 1);
        map.check();
        assert_is_truth(&map, &host);
    }

    #[test]
    fn what_was_lost_is_flagged_after_a_resync(
        ops in ops([6, 2, 4, 2]),
        lost in prop::collection::vec(any::<bool>(), 150),
    ) {
        let host = Host::run(&ops);
        let events: Vec<Event> =
            host.in_order().into_iter().zip(&lost).filter(|(_, lost)| !**lost)
                .map(|(event, _)| event).collect();
        let mut map = feed(UNLIMITED, &events);
        map.resync(&host.alive(), host.time_ns + 1);
        map.check();
        let live: Vec<ProcessId> = map.live().map(|node| node.id).collect();
        prop_assert_eq!(live, host.alive());
        for node in map.all() {
            let truth = &host.truth[&node.id];
            let certain = node.creator.is_some() && !node.parent_only;
            prop_assert!(!certain || node.creator == truth.creator);
            match (node.exit, truth.exit) {
                (Some(ExitSeen { status: Some(_), .. }), _) => {
                    prop_assert_eq!(node.exit, truth.exit);
                }
                (Some(inferred), Some(exit)) => prop_assert!(inferred.time_ns >= exit.time_ns),
                (Some(_), None) => prop_assert!(false, "{} is alive", node.id),
                (None, _) => {}
            }
        }
    }

    #[test]
    fn the_chains_of_the_living_stay_when_the_dead_are_forgotten(
        ops in ops([6, 1, 6, 0]), dead in 0..4usize, chain in 2..5usize, age in 1..50u64,
    ) {
        let host = Host::run(&ops);
        let limits = Limits { dead, dead_age_ns: age * STEP_NS, chain };
        let map = feed(limits, &host.in_order());
        for id in host.running.keys() {
            let chain = host.chain(*id);
            let ancestry = map.ancestry(*id);
            prop_assert!(ancestry.reached_root);
            let mut at = 0;
            for step in &ancestry.steps {
                at += usize::try_from(step.skipped_before).unwrap();
                prop_assert_eq!(chain.get(at), Some(&step.id));
                at += 1;
            }
            prop_assert_eq!(at, chain.len());
            prop_assert!(map.node(*id).unwrap().skipped_ancestors == 0, "creators are not skipped");
        }
    }

    #[test]
    fn no_events_break_the_map(
        events in prop::collection::vec((0..5u8, 1..4i64, 0..4u64, 1..4i64, 0..4u64, 0..9u64), 0..200),
        dead in 0..4usize,
    ) {
        let mut map = Lineage::new(Limits { dead, dead_age_ns: 6, chain: 0 });
        for (kind, pid, start, other, other_start, time_ns) in events {
            let (id, other) = (id(pid, start), id(other, other_start));
            let comm = Vec::new();
            map.apply(match kind {
                0 => Event::Fork(Fork { child: id, creator: other, tag: None, time_ns, comm, uid: 0, cgroup_id: 0 }),
                1 => Event::Exit(Exit { id, tag: None, time_ns, status: WaitStatus(0) }),
                2 => Event::Gone(super::Gone { id, time_ns }),
                3 => Event::Exec(Exec { id, tag: None, time_ns, comm, exe: vec![], argv: vec![], truncated: false, uid: 0, cgroup_id: 0 }),
                _ => Event::Snapshot(Snapshot { id, parent: Some(other), tag: None, time_ns, comm, exe: None, argv: None, uid: None }),
            });
            map.check();
            if time_ns == 8 {
                map.resync(&[other], 8);
                map.check();
            }
        }
    }
}
