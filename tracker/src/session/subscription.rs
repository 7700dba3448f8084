//! Those who want to hear of what happens.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};

use rustix::event::EventfdFlags;

use crate::lineage::{Event, SessionId};

/// Hears every event before the map does.
pub trait Listener: Send + std::fmt::Debug {
    /// Must be quick: the source is being drained.
    fn hear(&mut self, event: &Event);
}

/// Readable when a member of the subscribed sessions was created.
#[derive(Debug)]
pub struct Subscription(Arc<SubscriptionInner>);

#[derive(Debug)]
pub(super) struct SubscriptionInner {
    fd: OwnedFd,
    sessions: HashSet<SessionId>,
}

impl SubscriptionInner {
    pub(super) fn notify(&self, touched: &HashSet<SessionId>) {
        if !self.sessions.is_disjoint(touched) {
            // Fails only when the counter is full, and then it is readable.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }
}

impl Subscription {
    /// A subscription, and what its sessions' news are told to.
    pub(super) fn new(
        family: &[SessionId],
    ) -> std::io::Result<(Subscription, Weak<SubscriptionInner>)> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let sessions = family.iter().copied().collect();
        let inner = Arc::new(SubscriptionInner { fd, sessions });
        let told = Arc::downgrade(&inner);
        Ok((Subscription(inner), told))
    }

    /// Makes the descriptor unreadable until the next news.
    pub fn acknowledge(&self) {
        let mut count = [0; 8];
        // Fails only when it is unreadable already.
        let _ = rustix::io::read(&self.0.fd, &mut count);
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
