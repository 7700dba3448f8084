//! Taking over from an earlier tracker.

use super::Tracking;
use crate::lineage::SessionId;
use crate::process::now_boot_ns;
use crate::session::{Root, Session, SessionError};
use crate::source::{Gap, SourceError};

impl Tracking {
    /// Takes over the sessions of an earlier tracker of this boot, outer ones
    /// before those inside them. Where the kernel did not go on tracking
    /// meanwhile, those of their roots that live are adopted anew, and they
    /// have a gap.
    pub fn restore(&mut self, sessions: &[Session]) -> Result<(), SessionError> {
        // All of them first: their keep rules decide on what happened meanwhile.
        for session in sessions {
            self.sessions.insert(session.clone());
            if session.late {
                self.source.note(session.id, Gap::AdoptedLate);
            }
        }
        self.pump()?;
        if self.source.took_over() {
            sessions
                .iter()
                .try_for_each(|session| self.meet_again(session.id))?;
            self.release_unknown()?;
            return Ok(());
        }
        sessions
            .iter()
            .try_for_each(|session| self.adopt_anew(session))
    }

    /// Takes in the members, whose tags have outlived the earlier tracker.
    fn meet_again(&mut self, id: SessionId) -> Result<(), SourceError> {
        for member in self.source.members(&[id])?.found {
            if member.tag.exempt {
                self.kept.insert(member.id);
            }
            if !member.exiting {
                self.look_at(member.id, Some(member.tag))?;
            }
            self.lineage.set_tag(member.id, Some(member.tag));
        }
        Ok(())
    }

    /// Takes away the tags of sessions that nobody knows: the earlier tracker
    /// died before it had recorded them, or told anybody of them.
    fn release_unknown(&mut self) -> Result<(), SourceError> {
        let mut tagged = self.source.tagged()?;
        tagged.retain(|id| self.sessions.get(*id).is_none());
        tagged.iter().try_for_each(|id| self.source.release(*id))
    }

    fn adopt_anew(&mut self, session: &Session) -> Result<(), SessionError> {
        let gap = Gap::NotTracked {
            from_ns: session.opened_ns,
            until_ns: now_boot_ns(),
        };
        self.source.note(session.id, gap);
        for root in &session.roots {
            match self.adopt(Root::Running(*root), session.id, session.parent) {
                Ok(_) | Err(SourceError::Gone(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
