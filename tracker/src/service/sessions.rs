//! Opening and showing sessions.

use std::collections::HashMap;

use super::caller::Caller;
use super::error::ServiceError;
use super::{Service, view};
use crate::api;
use crate::lineage::SessionId;
use crate::process::{Pid, Seen};
use crate::session::{KeepRule, OpenSession, Registry, Root, Session, Tracking};

/// How many sessions one user may have open who may not do all.
const MAX_OF_UID: usize = 256;
/// How many there may be.
const MAX_TOTAL: usize = 10_000;
/// The most keep rules of a session.
const MAX_KEEP: usize = 256;

impl Service {
    /// Opens a session for a process that is running. It is on the disk when
    /// this returns.
    pub fn open_session(
        &self,
        caller: Caller,
        request: &api::OpenSession,
    ) -> Result<api::SessionInfo, ServiceError> {
        let session = self.open_unsaved(caller, request)?;
        if let Err(error) = self.store().save_session(&session) {
            // Nobody has heard of it, so nothing is lost by forgetting it.
            let _ = self.tracking().close(session.id);
            return Err(error.into());
        }
        let tracking = self.tracking();
        Ok(view::session(&session, &alive_by_session(&tracking)))
    }

    /// Opens a session that does not outlive the daemon.
    pub(super) fn open_unsaved(
        &self,
        caller: Caller,
        request: &api::OpenSession,
    ) -> Result<Session, ServiceError> {
        if self.is_stopping() {
            return Err(ServiceError::ShuttingDown);
        }
        let keep = parse_keep(&request.keep)?;
        let name = request.name.as_deref().map(check_name).transpose()?;
        let seen = self.resolve(caller, request.pid)?;
        check_root(&seen)?;
        let name = match name {
            Some(name) => name.to_owned(),
            None => format!("session-{}", seen.id.pid),
        };
        if !caller.may_all && self.uid_of(seen.id)? != Some(caller.uid) {
            let why = format!("process {} does not run as uid {}", seen.id, caller.uid);
            return Err(ServiceError::Forbidden(why));
        }
        let workdir = request.workdir.as_ref();
        let workdir = workdir.map(|path| self.workdir(caller, path)).transpose()?;
        let mut tracking = self.tracking();
        check_limits(tracking.sessions(), caller)?;
        check_around(&mut tracking, caller, &seen)?;
        let root = Root::Running(seen.id);
        let id = tracking.open(OpenSession {
            name,
            root,
            owner_uid: caller.uid,
            keep,
            workdir,
        })?;
        let session = tracking.sessions().get(id);
        session
            .cloned()
            .ok_or_else(|| ServiceError::NoSession(id.to_string()))
    }

    /// The sessions that the caller may see.
    pub fn sessions(&self, caller: Caller) -> Result<api::SessionList, ServiceError> {
        let mut tracking = self.tracking();
        tracking.pump()?;
        let alive = alive_by_session(&tracking);
        let visible = tracking
            .sessions()
            .iter()
            .filter(|session| caller.may(session.owner_uid));
        let mut sessions: Vec<_> = visible
            .map(|session| view::session(session, &alive))
            .collect();
        sessions.sort_by_key(|session| (session.opened_ns, session.id));
        Ok(api::SessionList { sessions })
    }

    /// One session, by id or name.
    pub fn session(&self, caller: Caller, name: &str) -> Result<api::SessionInfo, ServiceError> {
        let mut tracking = self.tracking();
        tracking.pump()?;
        let session = find(tracking.sessions(), caller, name)?;
        Ok(view::session(session, &alive_by_session(&tracking)))
    }

    /// Spares a process and its descendants in every reap.
    pub fn keep(&self, caller: Caller, request: &api::Keep) -> Result<api::Process, ServiceError> {
        let id = self.resolve(caller, request.pid)?.id;
        let mut tracking = self.tracking();
        let tag = tracking.tag_of(id)?;
        let session = tag.and_then(|tag| tracking.sessions().get(tag.session));
        let may = match session {
            Some(session) => caller.may(session.owner_uid),
            // Else anybody could stay in a directory that root reaps.
            None => caller.may_all,
        };
        if !may {
            return Err(ServiceError::NotAMember(id));
        }
        tracking.keep(id)?;
        let node = tracking
            .lineage()
            .node(id)
            .ok_or(ServiceError::Unknown(id))?;
        let process = view::process(node);
        drop(tracking);
        let mut store = self.store();
        store.keep(id)?;
        store.forget_kept(|kept| self.proc.is_dead(kept).unwrap_or(false))?;
        Ok(process)
    }
}

/// A session that the caller may see, by id or name. Of several with one name,
/// the caller's own is meant: nobody can take a name away from somebody else.
pub(super) fn find<'a>(
    sessions: &'a Registry,
    caller: Caller,
    text: &str,
) -> Result<&'a Session, ServiceError> {
    let none = || ServiceError::NoSession(text.to_owned());
    let by_id = text.parse().ok().and_then(|id| sessions.get(id));
    if let Some(session) = by_id.filter(|session| caller.may(session.owner_uid)) {
        return Ok(session);
    }
    let named: Vec<_> = sessions
        .named(text)
        .into_iter()
        .filter_map(|id| sessions.get(id))
        .filter(|session| caller.may(session.owner_uid))
        .collect();
    let own: Vec<_> = named
        .iter()
        .copied()
        .filter(|session| session.owner_uid == caller.uid)
        .collect();
    match (own.as_slice(), named.as_slice()) {
        ([one], _) | ([], [one]) => Ok(one),
        ([], []) => Err(none()),
        ([], all) => Err(ServiceError::Ambiguous {
            name: text.to_owned(),
            count: all.len(),
        }),
        (own, _) => Err(ServiceError::Ambiguous {
            name: text.to_owned(),
            count: own.len(),
        }),
    }
}

/// How many members each session has that are not known to be dead.
pub(super) fn alive_by_session(tracking: &Tracking) -> HashMap<SessionId, u64> {
    let mut alive = HashMap::new();
    for node in tracking.lineage().live() {
        if let Some(tag) = node.tag {
            *alive.entry(tag.session).or_default() += 1;
        }
    }
    alive
}

fn parse_keep(rules: &[String]) -> Result<Vec<KeepRule>, ServiceError> {
    if rules.len() > MAX_KEEP {
        return Err(ServiceError::BadField(format!(
            "a session has at most {MAX_KEEP} keep rules"
        )));
    }
    Ok(rules
        .iter()
        .map(|rule| rule.parse())
        .collect::<Result<_, _>>()?)
}

fn check_name(name: &str) -> Result<&str, ServiceError> {
    if name.is_empty() || name.len() > api::MAX_NAME_LEN {
        let max = api::MAX_NAME_LEN;
        return Err(ServiceError::BadField(format!(
            "a session's name has 1 to {max} bytes"
        )));
    }
    // Else a name could stand for another session's id.
    if name.parse::<SessionId>().is_ok() {
        let why = "a session's name must not look like an id (twelve hexadecimal digits)";
        return Err(ServiceError::BadField(why.to_owned()));
    }
    Ok(name)
}

fn check_root(seen: &Seen) -> Result<(), ServiceError> {
    if seen.stat.is_dead() {
        return Err(ServiceError::Dead(seen.id));
    }
    let why = if seen.id.pid == Pid::INIT {
        "the init process"
    } else if seen.id.pid == Pid::own() {
        "tracker itself"
    } else if seen.stat.is_kernel_thread() {
        "a kernel thread"
    } else {
        return Ok(());
    };
    Err(ServiceError::Unsuitable {
        pid: seen.id.pid,
        why,
    })
}

fn check_limits(sessions: &Registry, caller: Caller) -> Result<(), ServiceError> {
    let own = sessions
        .iter()
        .filter(|session| session.owner_uid == caller.uid)
        .count();
    if !caller.may_all && own >= MAX_OF_UID {
        let why = format!(
            "uid {} has {MAX_OF_UID} sessions open; close some",
            caller.uid
        );
        return Err(ServiceError::TooMany(why));
    }
    if sessions.iter().count() >= MAX_TOTAL {
        return Err(ServiceError::TooMany(format!(
            "{MAX_TOTAL} sessions are open; close some"
        )));
    }
    Ok(())
}

/// A session inside somebody else's would take its members, or a keep rule
/// would spare them, when the one around it is reaped.
fn check_around(tracking: &mut Tracking, caller: Caller, root: &Seen) -> Result<(), ServiceError> {
    let Some(tag) = tracking.tag_of(root.id)? else {
        return Ok(());
    };
    let owner = tracking
        .sessions()
        .get(tag.session)
        .map(|session| session.owner_uid);
    if caller.may_all || owner.is_none_or(|owner| owner == caller.uid) {
        return Ok(());
    }
    let why = format!("process {} belongs to a session of another user", root.id);
    Err(ServiceError::Forbidden(why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionState;

    fn registry(sessions: &[(u64, &str, u32)]) -> Registry {
        let mut registry = Registry::default();
        for (id, name, owner_uid) in sessions {
            registry.insert(Session {
                id: SessionId::new(*id).unwrap(),
                name: (*name).to_owned(),
                roots: vec![],
                parent: None,
                owner_uid: *owner_uid,
                keep: vec![],
                workdir: None,
                late: false,
                opened_ns: 0,
                state: SessionState::Open,
            });
        }
        registry
    }

    fn found(registry: &Registry, uid: u32, text: &str) -> Result<u64, ServiceError> {
        let caller = Caller {
            uid,
            process: None,
            may_all: uid == 0,
        };
        find(registry, caller, text).map(|session| session.id.raw())
    }

    #[test]
    fn one_user_has_only_so_many_sessions_and_is_told_what_to_do() {
        let sessions: Vec<_> = (1..=256).map(|id| (id, "job", 7)).collect();
        let registry = registry(&sessions);
        let caller = |uid| Caller {
            uid,
            process: None,
            may_all: uid == 0,
        };
        let error = check_limits(&registry, caller(7)).unwrap_err();
        assert!(matches!(error, ServiceError::TooMany(_)));
        assert!(error.to_string().contains("close some"), "{error}");
        for other in [0, 8] {
            check_limits(&registry, caller(other)).unwrap();
        }
    }

    #[test]
    fn a_session_is_found_by_id_or_name() {
        let registry = registry(&[(1, "a", 0), (2, "b", 7)]);
        assert_eq!(found(&registry, 0, "000000000001").unwrap(), 1);
        assert_eq!(found(&registry, 0, "b").unwrap(), 2);
        assert!(matches!(
            found(&registry, 0, "c"),
            Err(ServiceError::NoSession(_))
        ));
    }

    #[test]
    fn the_sessions_of_others_are_not_there() {
        let registry = registry(&[(1, "a", 0), (2, "b", 7)]);
        for text in ["000000000001", "a"] {
            assert!(
                matches!(found(&registry, 7, text), Err(ServiceError::NoSession(_))),
                "{text}"
            );
        }
        assert_eq!(found(&registry, 7, "b").unwrap(), 2);
    }

    #[test]
    fn nobody_takes_a_name_from_somebody_else() {
        let registry = registry(&[
            (1, "a", 0),
            (2, "a", 7),
            (3, "a", 8),
            (4, "b", 7),
            (5, "b", 8),
        ]);
        assert_eq!(found(&registry, 0, "a").unwrap(), 1);
        assert_eq!(found(&registry, 7, "a").unwrap(), 2);
        assert!(matches!(
            found(&registry, 0, "b"),
            Err(ServiceError::Ambiguous { count: 2, .. })
        ));
    }

    #[test]
    fn a_name_that_could_be_an_id_is_refused() {
        assert!(check_name("00000000000a").is_err());
        assert!(check_name("").is_err());
        assert!(check_name(&"x".repeat(256)).is_err());
        assert!(check_name("job 1").is_ok());
    }
}
