//! A service without a kernel: for tests of the API.

use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::Service;
use crate::lineage::{Event, Limits, SessionId, Tag};
use crate::process::{Proc, ProcessId};
use crate::session::Tracking;
use crate::source::{Adoption, Member, Members, Source, SourceError, SourceKind};
use crate::store::{self, Store};

/// Knows whom it was told of, and sees no forks.
#[derive(Debug, Default)]
struct Told(HashMap<ProcessId, Tag>);

impl Source for Told {
    fn kind(&self) -> SourceKind {
        SourceKind::Procfs
    }

    fn drain(&mut self, _: &mut dyn FnMut(Event)) -> Result<(), SourceError> {
        Ok(())
    }

    fn adopt(
        &mut self,
        adoption: Adoption,
        _: Option<SessionId>,
    ) -> Result<Vec<ProcessId>, SourceError> {
        self.0.insert(adoption.root, adoption.tag);
        Ok(vec![adoption.root])
    }

    fn release(&mut self, session: SessionId) -> Result<(), SourceError> {
        self.0.retain(|_, tag| tag.session != session);
        Ok(())
    }

    fn members(&mut self, sessions: &[SessionId]) -> Result<Members, SourceError> {
        let of_them = self
            .0
            .iter()
            .filter(|(_, tag)| sessions.contains(&tag.session));
        let found = of_them.map(|(id, tag)| Member {
            id: *id,
            start_ns: None,
            tag: *tag,
            creator: None,
            exiting: false,
        });
        Ok(Members {
            found: found.collect(),
            ..Members::default()
        })
    }

    fn tag_of(&mut self, id: ProcessId) -> Result<Option<Tag>, SourceError> {
        Ok(self.0.get(&id).copied())
    }

    fn condemn(&mut self, _: &[SessionId], _: u64) -> Result<(), SourceError> {
        Ok(())
    }

    fn absolve(&mut self, _: &[SessionId]) -> Result<(), SourceError> {
        Ok(())
    }

    fn wake_eagerly(&mut self, _: bool) -> Result<(), SourceError> {
        Ok(())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A service with its state in `dir`.
pub(crate) fn service(dir: &std::path::Path) -> Arc<Service> {
    let limits = store::Limits::default();
    let store = Store::open(&dir.join("state.db"), "boot", limits).unwrap();
    let source = Box::new(Told::default());
    let tracking = Tracking::new(source, Proc::open().unwrap(), Limits::default());
    Service::new(tracking, store, Proc::open().unwrap()).unwrap()
}
