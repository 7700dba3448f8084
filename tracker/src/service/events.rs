//! What happens to processes, for those who want to hear of it.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::broadcast::{self, error::RecvError};

use super::caller::Caller;
use super::error::ServiceError;
use super::sessions::find;
use super::{Service, view};
use crate::api;
use crate::lineage::{Event, SessionId, Tag};
use crate::process::{ProcessId, escape};
use crate::session::{Listener, Tracking};

/// So many events may wait for a slow subscriber; then it misses the oldest.
const BACKLOG: usize = 4096;

/// Hands events to all subscribers.
#[derive(Debug)]
pub(super) struct Channel(broadcast::Sender<Message>);

/// An event, or `None` for the end.
type Message = Option<Arc<api::Event>>;

impl Default for Channel {
    fn default() -> Channel {
        Channel(broadcast::Sender::new(BACKLOG))
    }
}

impl Channel {
    pub(super) fn listener(&self) -> impl Listener + use<> {
        Feed(self.0.clone())
    }

    /// Tells all subscribers that there will be no more.
    pub(super) fn end(&self) {
        // Fails when there are none.
        let _ = self.0.send(None);
    }
}

/// Feeds the channel. Without subscribers an event costs nothing.
#[derive(Debug)]
struct Feed(broadcast::Sender<Message>);

impl Listener for Feed {
    fn hear(&mut self, event: &Event) {
        if self.0.receiver_count() == 0 {
            return;
        }
        if let Some(event) = shown(event) {
            // Fails when the last subscriber has just left.
            let _ = self.0.send(Some(Arc::new(event)));
        }
    }
}

impl Service {
    /// What happens from now on.
    pub fn subscribe(
        self: &Arc<Service>,
        caller: Caller,
        query: &api::EventsQuery,
    ) -> Result<Subscriber, ServiceError> {
        let tracking = self.tracking();
        let session = match &query.session {
            Some(session) => Some(find(tracking.sessions(), caller, session)?.id),
            None => None,
        };
        let filter = Filter {
            caller,
            session,
            decided: HashMap::new(),
        };
        Ok(Subscriber {
            service: Arc::clone(self),
            receiver: self.events.0.subscribe(),
            filter,
        })
    }

    /// Whether a subscriber gets the events of a session that it has not met yet.
    fn decide(&self, mut filter: Filter, session: SessionId) -> Filter {
        let wanted = filter.wants(&self.tracking(), session);
        filter.decided.insert(session, wanted);
        filter
    }
}

/// One who hears of events.
#[derive(Debug)]
pub struct Subscriber {
    service: Arc<Service>,
    receiver: broadcast::Receiver<Message>,
    filter: Filter,
}

/// What a subscriber hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// An event.
    Event(Arc<api::Event>),
    /// It was too slow for so many.
    Missed(u64),
}

impl Subscriber {
    /// The next one that it asked for and may know; `None` when the service ends.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            let event = match self.receiver.recv().await {
                Ok(event) => event?,
                Err(RecvError::Lagged(missed)) => return Some(Heard::Missed(missed)),
                Err(RecvError::Closed) => return None,
            };
            if self.wants(event.session).await? {
                return Some(Heard::Event(event));
            }
        }
    }

    /// Whether it gets events of `session`; `None` when that cannot be found out.
    async fn wants(&mut self, session: Option<SessionId>) -> Option<bool> {
        if let Some(known) = self.filter.known(session) {
            return Some(known);
        }
        let session = session?;
        let (service, filter) = (Arc::clone(&self.service), self.filter.clone());
        let decide = move || service.decide(filter, session);
        self.filter = tokio::task::spawn_blocking(decide).await.ok()?;
        self.filter.known(Some(session))
    }
}

/// Which events a subscriber gets.
#[derive(Clone, Debug)]
struct Filter {
    caller: Caller,
    session: Option<SessionId>,
    /// What was found out about sessions; they do not change their owner or place.
    decided: HashMap<SessionId, bool>,
}

impl Filter {
    /// Whether it gets events of `session`; `None` when [`Service::decide`] has to tell.
    fn known(&self, session: Option<SessionId>) -> Option<bool> {
        match session {
            None => Some(self.caller.may_all && self.session.is_none()),
            Some(_) if self.caller.may_all && self.session.is_none() => Some(true),
            Some(session) => self.decided.get(&session).copied(),
        }
    }

    fn wants(&self, tracking: &Tracking, session: SessionId) -> bool {
        let sessions = tracking.sessions();
        let may = sessions
            .get(session)
            .is_some_and(|found| self.caller.may(found.owner_uid));
        may && self
            .session
            .is_none_or(|wanted| sessions.family(wanted).contains(&session))
    }
}

/// An event as the API shows it; `None` for what was seen, not heard.
fn shown(event: &Event) -> Option<api::Event> {
    let new = |kind, id: ProcessId, tag: Option<Tag>, time_ns| api::Event {
        kind,
        time_ns,
        id: id.into(),
        session: tag.map(|tag| tag.session),
        creator: None,
        comm: None,
        exe: None,
        cmdline: None,
        exit: None,
    };
    Some(match event {
        Event::Fork(fork) => api::Event {
            creator: Some(fork.creator.into()),
            comm: Some(escape(&fork.comm)),
            ..new(api::EventKind::Fork, fork.child, fork.tag, fork.time_ns)
        },
        Event::Exec(exec) => api::Event {
            comm: Some(escape(&exec.comm)),
            exe: Some(escape(&exec.exe)),
            cmdline: Some(view::arguments(&exec.argv)),
            ..new(api::EventKind::Exec, exec.id, exec.tag, exec.time_ns)
        },
        Event::Exit(exit) => api::Event {
            exit: Some(view::exit(exit.time_ns, Some(exit.status))),
            ..new(api::EventKind::Exit, exit.id, exit.tag, exit.time_ns)
        },
        Event::Snapshot(_) | Event::Gone(_) => return None,
    })
}
