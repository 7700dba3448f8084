//! Particular histories.

use super::event::{Event, Exit, Fork, Gone, Snapshot, WaitStatus};
use super::map::Lineage;
use super::retain::Limits;
use super::tag::{SessionId, Tag};
use crate::process::{Pid, ProcessId, StartTime};

const LIMITS: Limits = Limits {
    dead: 1000,
    dead_age_ns: u64::MAX,
    chain: 64,
};

/// A host on which every fork takes a tick, and pids go round.
struct Host {
    map: Lineage,
    forks: u64,
}

impl Host {
    fn new(limits: Limits) -> (Host, ProcessId) {
        let mut host = Host {
            map: Lineage::new(limits),
            forks: 0,
        };
        let init = ProcessId::new(Pid::INIT, StartTime::from_ticks(0));
        host.map.apply(seen(init, None, 0));
        (host, init)
    }

    fn now_ns(&self) -> u64 {
        self.forks * 10_000_000
    }

    fn fork(&mut self, creator: ProcessId) -> ProcessId {
        let child = loop {
            self.forks += 1;
            let child = id(i64::try_from(2 + self.forks % 32_000).unwrap(), self.forks);
            if self.map.holder(child.pid).is_none() {
                break child;
            }
        };
        self.map.apply(fork(child, creator, self.now_ns()));
        child
    }

    fn exit(&mut self, id: ProcessId) {
        self.map.apply(exit(id, self.now_ns() + 1));
    }
}

fn id(pid: i64, ticks: u64) -> ProcessId {
    ProcessId::new(Pid::new(pid).unwrap(), StartTime::from_ticks(ticks))
}

fn fork(child: ProcessId, creator: ProcessId, time_ns: u64) -> Event {
    let comm = b"x".to_vec();
    Event::Fork(Fork {
        child,
        creator,
        tag: None,
        time_ns,
        comm,
        uid: 0,
        cgroup_id: 1,
    })
}

fn exit(id: ProcessId, time_ns: u64) -> Event {
    Event::Exit(Exit {
        id,
        tag: None,
        time_ns,
        status: WaitStatus(0),
    })
}

fn seen(id: ProcessId, parent: Option<ProcessId>, time_ns: u64) -> Event {
    let comm = b"x".to_vec();
    Event::Snapshot(Snapshot {
        id,
        parent,
        tag: None,
        time_ns,
        comm,
        exe: None,
        argv: None,
        uid: None,
    })
}

fn total(map: &Lineage) -> usize {
    map.stats().live + map.stats().dead
}

#[test]
fn a_hopper_leaves_a_chain_of_bounded_length() {
    let (mut host, init) = Host::new(LIMITS);
    let root = host.fork(init);
    let mut hopper = host.fork(root);
    for _ in 0..300_000 {
        let next = host.fork(hopper);
        host.exit(hopper);
        hopper = next;
        assert!(total(&host.map) <= 3 + 64);
    }
    host.map.check();
    let ancestry = host.map.ancestry(hopper);
    assert!(ancestry.reached_root);
    assert_eq!(
        ancestry
            .steps
            .iter()
            .map(|step| step.skipped_before)
            .sum::<u64>(),
        300_000 - 64
    );
    assert_eq!(host.map.stats().spliced, 300_000 - 64);
    assert_eq!(host.map.descendants(root), [hopper]);
    // Both ends of the chain are there: who left the root, and the last hops.
    assert_eq!(host.map.children(root).len(), 1);
    assert_eq!(
        ancestry.steps[..30]
            .iter()
            .map(|step| step.skipped_before)
            .sum::<u64>(),
        0
    );
}

#[test]
fn a_spawn_loop_leaves_bounded_history() {
    let (mut host, init) = Host::new(LIMITS);
    let root = host.fork(init);
    for _ in 0..300_000 {
        let child = host.fork(root);
        host.exit(child);
        assert!(total(&host.map) <= 2 + 1000);
    }
    host.map.check();
    assert_eq!(host.map.stats().evicted, 300_000 - 1000);
    assert_eq!(host.map.children(root).len(), 1000);
}

#[test]
fn a_hopper_with_helpers_leaves_bounded_history() {
    let (mut host, init) = Host::new(LIMITS);
    let mut hopper = host.fork(init);
    for _ in 0..50_000 {
        let helper = host.fork(hopper);
        let below = host.fork(helper);
        host.exit(helper);
        host.exit(below);
        let next = host.fork(hopper);
        host.exit(hopper);
        hopper = next;
        assert!(total(&host.map) <= 2 + 64 + 1000);
    }
    host.map.check();
}

#[test]
fn a_bushy_tree_of_short_lives_leaves_bounded_history() {
    let (mut host, init) = Host::new(LIMITS);
    let mut alive = vec![host.fork(init)];
    let mut random = 1u64;
    for _ in 0..100_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = usize::try_from(random >> 33).unwrap() % alive.len();
        let child = host.fork(alive[at]);
        alive.push(child);
        if alive.len() > 50 {
            host.exit(alive.swap_remove(at));
        }
        // Between two branchings there are at most 64 dead links.
        assert!(total(&host.map) <= 52 + 1000 + 2 * 52 * 65);
    }
    host.map.check();
    for id in alive {
        assert!(host.map.ancestry(id).reached_root);
    }
}

#[test]
fn chains_that_die_from_below_are_shortened_as_well() {
    for from_below in [true, false] {
        let (mut host, init) = Host::new(Limits { chain: 8, ..LIMITS });
        let mut chain = vec![host.fork(init)];
        for _ in 0..500 {
            chain.push(host.fork(chain[chain.len() - 1]));
        }
        let last = chain.pop().unwrap();
        if from_below {
            chain.reverse();
        }
        for id in chain {
            host.exit(id);
            host.map.check();
        }
        assert_eq!(total(&host.map), 2 + 8);
        let ancestry = host.map.ancestry(last);
        let skipped: u64 = ancestry.steps.iter().map(|step| step.skipped_before).sum();
        assert_eq!((ancestry.steps.len(), skipped), (10, 500 - 8));
    }
}

#[test]
fn history_is_forgotten_when_it_is_old() {
    let (mut host, init) = Host::new(Limits {
        dead_age_ns: 1_000_000_000,
        ..LIMITS
    });
    let child = host.fork(init);
    let grandchild = host.fork(child);
    host.exit(child);
    for _ in 0..200 {
        host.fork(init);
    }
    assert!(
        host.map.node(child).is_some(),
        "a living process descends from it"
    );
    host.exit(grandchild);
    for _ in 0..200 {
        host.fork(init);
    }
    assert_eq!(
        (host.map.node(child), host.map.node(grandchild)),
        (None, None)
    );
    assert_eq!(host.map.stats().evicted, 2);
}

#[test]
fn an_exit_that_was_lost_is_seen_when_the_pid_is_used_again() {
    let (mut host, init) = Host::new(LIMITS);
    let (first, child, second) = (id(50, 1), id(51, 2), id(50, 9));
    host.map.apply(fork(first, init, 1));
    host.map.apply(fork(child, first, 2));
    host.map.apply(fork(second, init, 100));
    let map = &mut host.map;
    assert_eq!(map.holder(first.pid), Some(second));
    assert_eq!(map.node(first).unwrap().exit.unwrap().status, None);
    assert_eq!(map.stats().unheard_exits, 1);
    assert_eq!(map.descendants(first), [child]);
    assert_eq!(map.descendants(second), []);

    // The exit was only late.
    map.apply(exit(first, 50));
    assert_eq!(map.node(first).unwrap().exit.unwrap().time_ns, 50);
    assert_eq!(map.stats().unheard_exits, 0);
}

#[test]
fn the_parent_that_was_seen_first_is_kept_until_the_creator_is_known() {
    let (mut host, init) = Host::new(LIMITS);
    let (parent, child, creator) = (id(60, 1), id(61, 2), id(62, 2));
    host.map.apply(seen(child, Some(parent), 5));
    host.map.apply(seen(child, Some(init), 6));
    let node = host.map.node(child).unwrap();
    assert_eq!((node.creator, node.parent_only), (Some(parent), true));

    host.map.apply(fork(child, creator, 4));
    let node = host.map.node(child).unwrap();
    assert_eq!((node.creator, node.parent_only), (Some(creator), false));
    host.map.apply(seen(child, Some(init), 3));
    assert_eq!(host.map.node(child).unwrap().creator, Some(creator));
}

#[test]
fn nobody_is_created_by_someone_younger() {
    let (mut host, _) = Host::new(LIMITS);
    let (old, young) = (id(70, 1), id(71, 2));
    host.map.apply(seen(young, Some(old), 5));
    // `young` became a subreaper, and `old` was reparented to it.
    host.map.apply(seen(old, Some(young), 6));
    let node = host.map.node(old).unwrap();
    assert_eq!((node.creator, node.parent_only), (None, false));
    assert!(!host.map.ancestry(young).reached_root);
}

#[test]
fn a_process_that_was_overlooked_once_is_alive_again() {
    let (mut host, init) = Host::new(LIMITS);
    let (a, b) = (id(80, 1), id(81, 2));
    host.map.apply(seen(a, Some(init), 5));
    host.map.apply(seen(b, Some(a), 5));
    for overlook in [
        (|map: &mut Lineage, id| map.apply(Event::Gone(Gone { id, time_ns: 6 })))
            as fn(&mut Lineage, ProcessId),
        |map, _| map.resync(&[ProcessId::new(Pid::INIT, StartTime::from_ticks(0))], 6),
    ] {
        overlook(&mut host.map, b);
        assert!(!host.map.node(b).unwrap().is_alive());
        // What was seen before proves nothing.
        host.map.apply(seen(b, Some(a), 5));
        assert!(!host.map.node(b).unwrap().is_alive());
        host.map.apply(seen(b, Some(a), 7));
        assert!(host.map.node(b).unwrap().is_alive());
        host.map.check();
        (host, _) = Host::new(LIMITS);
        host.map.apply(seen(a, Some(init), 5));
        host.map.apply(seen(b, Some(a), 5));
    }
}

#[test]
fn who_was_alive_later_was_not_gone_before() {
    let (mut host, init) = Host::new(LIMITS);
    let a = id(80, 1);
    host.map.apply(seen(a, Some(init), 5));
    host.map.apply(Event::Gone(Gone { id: a, time_ns: 4 }));
    assert!(host.map.node(a).unwrap().is_alive());
    host.map.apply(Event::Gone(Gone { id: a, time_ns: 5 }));
    assert!(!host.map.node(a).unwrap().is_alive());
}

#[test]
fn a_zombie_that_is_still_listed_stays_dead() {
    let (mut host, init) = Host::new(LIMITS);
    let zombie = host.fork(init);
    host.exit(zombie);
    let now = host.now_ns();
    host.map.apply(seen(zombie, Some(init), now + 5));
    host.map.resync(&[zombie, init], now + 9);
    assert!(!host.map.node(zombie).unwrap().is_alive());
}

#[test]
fn a_resync_spares_who_was_forked_after_the_list_was_begun() {
    let (mut host, init) = Host::new(LIMITS);
    let old = host.fork(init);
    let begun = host.now_ns() + 1;
    let new = host.fork(init);
    host.map.resync(&[init], begun);
    assert_eq!(host.map.holder(old.pid), None);
    assert_eq!(host.map.holder(new.pid), Some(new));
}

#[test]
fn two_lives_in_one_tick_share_a_key_and_the_later_one_has_it() {
    let (mut host, init) = Host::new(LIMITS);
    let (key, other) = (id(90, 7), id(91, 6));
    let events = [
        fork(key, init, 70_000_000),
        exit(key, 71_000_000),
        fork(key, other, 72_000_000),
    ];
    // Told once, and told again.
    for event in events.iter().chain(&events) {
        host.map.apply(event.clone());
        host.map.check();
    }
    let node = host.map.node(key).unwrap();
    assert!(node.is_alive());
    assert_eq!((node.creator, node.fork_ns), (Some(other), 72_000_000));
    assert_eq!(host.map.stats().unheard_exits, 0);
}

#[test]
fn a_tag_that_was_set_outlives_what_was_said_before() {
    let (mut host, init) = Host::new(LIMITS);
    let tag = |raw| SessionId::new(raw).map(Tag::member);
    let child = id(95, 1);
    let tagged = |tag| match fork(child, init, 10) {
        Event::Fork(fork) => Event::Fork(Fork { tag, ..fork }),
        other => other,
    };
    host.map.apply(tagged(tag(1)));
    host.map.set_tag(child, tag(2));
    host.map.apply(tagged(tag(1)));
    host.map.apply(exit(child, 20));
    assert_eq!(
        host.map.node(child).unwrap().tag,
        tag(2),
        "the dead show whose they were"
    );
    host.map.set_tag(child, None);
    assert_eq!(host.map.node(child).unwrap().tag, None);
}
