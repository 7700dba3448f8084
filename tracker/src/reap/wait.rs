//! Waiting for deaths, for news of the target and for cancellation at once,
//! with a bounded number of descriptors.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::process::{Cancel, PidFd};

/// Whom to wait for. Processes go by their number in the book.
///
/// Only as many pidfds are held as the limit of open files leaves room for.
/// Who has none queues, and is looked at when one is closed: everybody has to
/// die before the wait is over, so it does not matter in which order that is noticed.
pub(super) struct Watch {
    epoll: OwnedFd,
    slots: Vec<Slot>,
    queue: VecDeque<usize>,
    held: usize,
    budget: usize,
    events: Vec<epoll::Event>,
}

#[derive(Debug)]
enum Slot {
    Idle,
    Queued,
    Held(PidFd),
}

/// What ended a wait. All empty: the time was up.
#[derive(Debug, Default)]
pub(super) struct Woken {
    pub(super) dead: Vec<usize>,
    pub(super) news: bool,
}

const CANCEL: u64 = u64::MAX;
const NEWS: u64 = u64::MAX - 1;
/// Deaths taken in by one call.
const BATCH: usize = 512;
/// Descriptors that are given back when the process turns out to have run out of them.
const SHED: usize = 16;
/// Between two tries of what should not have failed.
const PAUSE: Duration = Duration::from_millis(10);

impl Watch {
    /// Watches nobody yet.
    pub(super) fn new(cancel: &Cancel) -> Result<Watch, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(CANCEL);
        epoll::add(&epoll, cancel, data, epoll::EventFlags::IN)?;
        Ok(Watch {
            epoll,
            slots: Vec::new(),
            queue: VecDeque::new(),
            held: 0,
            budget: budget(),
            events: Vec::with_capacity(BATCH),
        })
    }

    /// The pidfd that is held for `at`.
    pub(super) fn held(&self, at: usize) -> Option<&PidFd> {
        match self.slots.get(at) {
            Some(Slot::Held(fd)) => Some(fd),
            _ => None,
        }
    }

    /// Waits for `at`, with this descriptor when there is room for it.
    pub(super) fn hold(&mut self, at: usize, fd: PidFd) {
        if self.held < self.budget {
            let data = epoll::EventData::new_u64(at as u64);
            if epoll::add(&self.epoll, &fd, data, epoll::EventFlags::IN).is_ok() {
                *self.slot(at) = Slot::Held(fd);
                self.held += 1;
                return;
            }
        }
        self.enqueue(at);
    }

    /// Waits for `at` without a descriptor.
    pub(super) fn enqueue(&mut self, at: usize) {
        let slot = self.slot(at);
        if matches!(slot, Slot::Idle) {
            *slot = Slot::Queued;
            self.queue.push_back(at);
        }
    }

    /// Waits no longer for `at`. Closing a pidfd takes it off the epoll set.
    pub(super) fn forget(&mut self, at: usize) {
        let slot = self.slot(at);
        if matches!(slot, Slot::Held(_)) {
            *slot = Slot::Idle;
            self.held -= 1;
        }
    }

    /// Somebody who queues and for whom there is room now.
    pub(super) fn next_in_queue(&mut self) -> Option<usize> {
        while self.held < self.budget {
            let at = self.queue.pop_front()?;
            let slot = self.slot(at);
            // Who got a descriptor in the meantime keeps it.
            if matches!(slot, Slot::Queued) {
                *slot = Slot::Idle;
                return Some(at);
            }
        }
        None
    }

    /// Whether somebody queues, and no death will make room.
    pub(super) fn is_starved(&self) -> bool {
        self.held == 0 && !self.queue.is_empty()
    }

    /// Closes some of the held descriptors, and holds no more than are left
    /// from now on. Answers whether that freed any.
    pub(super) fn shed(&mut self) -> bool {
        let mut freed = 0;
        for at in (0..self.slots.len()).rev() {
            if freed == SHED {
                break;
            }
            if self.held(at).is_some() {
                self.forget(at);
                self.enqueue(at);
                freed += 1;
            }
        }
        // One at least, or nobody could be waited for.
        self.budget = self.held.max(1);
        freed > 0
    }

    /// Waits for whatever comes first, at most for `limit`. `news` is heard of once.
    pub(super) fn wait(&mut self, limit: Duration, news: Option<BorrowedFd<'_>>) -> Woken {
        let mut woken = Woken::default();
        if news.is_some_and(|news| self.arm(news).is_err()) {
            // Whoever cannot be waited for has to be asked.
            woken.news = true;
        }
        let timeout = Timespec::try_from(limit).ok();
        self.events.clear();
        let events = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            // No reason is known. Should there be one, it must not spin.
            Err(_) => std::thread::sleep(limit.min(PAUSE)),
        }
        for event in &self.events {
            match event.data.u64() {
                CANCEL => {}
                NEWS => woken.news = true,
                at => woken.dead.extend(usize::try_from(at)),
            }
        }
        woken
    }

    /// Once only: it stays readable until the target is looked at, which may
    /// be a little later.
    fn arm(&self, news: BorrowedFd<'_>) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        let data = epoll::EventData::new_u64(NEWS);
        match epoll::modify(&self.epoll, news, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, news.as_fd(), data, flags),
            other => other,
        }
    }

    fn slot(&mut self, at: usize) -> &mut Slot {
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || Slot::Idle);
        }
        #[expect(clippy::indexing_slicing, reason = "the vector was grown to hold it")]
        &mut self.slots[at]
    }
}

/// Half of the descriptors that are free: other threads need some too.
fn budget() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let open = std::fs::read_dir("/proc/self/fd").map_or(limit, Iterator::count);
    (limit.saturating_sub(open) / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Family, kill};
    use super::*;
    use crate::process::{Opened, ProcessId};

    fn watch(budget: usize) -> (Watch, Cancel) {
        let cancel = Cancel::new().unwrap();
        let mut watch = Watch::new(&cancel).unwrap();
        watch.budget = budget;
        (watch, cancel)
    }

    #[track_caller]
    fn open(id: ProcessId) -> PidFd {
        let Opened::Live(fd) = PidFd::open(id.pid).unwrap() else {
            panic!("{id} is gone")
        };
        fd
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_finds_no_room_is_served_when_there_is_some() {
        let family = Family::start("sleep 600 & echo; exec sleep 600");
        let ids = family.alive();
        let (mut watch, _cancel) = watch(1);
        watch.hold(0, open(ids[0]));
        watch.hold(1, open(ids[1]));
        assert!(watch.held(0).is_some() && watch.held(1).is_none());
        assert_eq!(watch.next_in_queue(), None);
        kill(ids[0]);
        assert_eq!(watch.wait(LONG, None).dead, [0]);
        watch.forget(0);
        assert_eq!(watch.next_in_queue(), Some(1));
        watch.hold(1, open(ids[1]));
        assert!(watch.held(1).is_some());
    }

    #[test]
    fn who_got_room_while_it_queued_keeps_it() {
        let family = Family::start("echo; exec sleep 600");
        let (mut watch, _cancel) = watch(2);
        watch.enqueue(0);
        watch.hold(0, open(family.root));
        assert_eq!(watch.next_in_queue(), None);
        assert!(watch.held(0).is_some());
        watch.forget(0);
        assert_eq!(watch.held, 0);
    }

    #[test]
    fn what_is_shed_is_queued_and_not_held_again() {
        let family = Family::start("sleep 600 & echo; exec sleep 600");
        let (mut watch, _cancel) = watch(2);
        for (at, id) in family.alive().into_iter().enumerate() {
            watch.hold(at, open(id));
        }
        assert!(watch.shed() && watch.is_starved());
        assert!(!watch.shed());
        assert!(watch.next_in_queue().is_some());
    }

    #[test]
    fn a_cancellation_and_news_end_a_wait_and_news_are_told_once() {
        let (mut watch, cancel) = watch(1);
        let news = Cancel::new().unwrap();
        news.cancel();
        assert!(watch.wait(LONG, Some(news.as_fd())).news);
        assert!(!watch.wait(Duration::ZERO, None).news);
        assert!(watch.wait(LONG, Some(news.as_fd())).news);
        cancel.cancel();
        assert!(watch.wait(LONG, None).dead.is_empty());
    }
}
