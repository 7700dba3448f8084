//! A target of a caller who may not end all of it.

use std::collections::HashSet;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::caller::Caller;
use crate::api::ProcessKey;
use crate::process::{Proc, ProcessId};
use crate::reap::{
    Candidate, Description, HolderEntry, SpareReason, Spared, Survey, Target, TargetEntry,
    TargetError,
};
use crate::source::SourceKind;

/// Spares of another target what its caller may not signal, and whom the
/// request excludes.
///
/// The daemon is root, so the kernel would let it signal anybody. For a caller
/// who may not, it asks what the kernel would ask: whether the process runs as
/// the caller's uid. A process that changes its uid between the question and
/// the signal wins the same race against a caller's own `kill(2)`.
pub(super) struct Restricted<'a, T> {
    inner: T,
    proc: &'a Proc,
    uid: Option<u32>,
    excluded: HashSet<ProcessId>,
    /// What the report names instead of a session that was opened for the reap.
    process: Option<ProcessKey>,
    /// Of processes of other users the report says how many there are, and no
    /// more: the caller itself could not find out where they are.
    hides_others: bool,
    /// Somebody was spared who has the session's tag all the same.
    spares_a_member: bool,
}

impl<'a, T: Target> Restricted<'a, T> {
    pub(super) fn new(
        inner: T,
        proc: &'a Proc,
        caller: Caller,
        excluded: HashSet<ProcessId>,
        process: Option<ProcessKey>,
    ) -> Restricted<'a, T> {
        let uid = (!caller.may_all).then_some(caller.uid);
        Restricted {
            inner,
            proc,
            uid,
            excluded,
            process,
            hides_others: false,
            spares_a_member: false,
        }
    }

    /// Does not tell the caller of other users' processes.
    pub(super) fn hiding_others(self) -> Restricted<'a, T> {
        Restricted {
            hides_others: self.uid.is_some(),
            ..self
        }
    }

    fn hide_others(&self, survey: &mut Survey) {
        let before = survey.spared.len();
        survey.spared.retain(|spared| {
            let uid = self.proc.uid(spared.id.pid).ok().flatten();
            uid.is_some() && uid == self.uid
        });
        let hidden = before - survey.spared.len();
        if hidden > 0 {
            let note = format!("{hidden} processes of other users are left alone");
            survey.notes.push(note);
        }
    }

    fn check(&self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        if self.excluded.contains(&id) {
            return Err((SpareReason::Protected, "the request excludes it".to_owned()));
        }
        let Some(uid) = self.uid else { return Ok(()) };
        match self.proc.uid(id.pid) {
            Ok(Some(own)) if own == uid => Ok(()),
            // It is gone, and the engine will find that out.
            Ok(None) => Ok(()),
            Ok(Some(other)) => Err((
                SpareReason::PermissionDenied,
                format!("it runs as uid {other}, and the request came from uid {uid}"),
            )),
            Err(error) => Err((SpareReason::Inconclusive, error.to_string())),
        }
    }
}

impl<T: Target> Target for Restricted<'_, T> {
    fn entry(&self) -> TargetEntry {
        match self.process {
            Some(ProcessKey { pid, start_ticks }) => TargetEntry::Process { pid, start_ticks },
            None => self.inner.entry(),
        }
    }

    fn source(&self) -> SourceKind {
        self.inner.source()
    }

    fn survey(&mut self) -> Result<Survey, TargetError> {
        let mut survey = self.inner.survey()?;
        let mut candidates = Vec::with_capacity(survey.candidates.len());
        for candidate in survey.candidates {
            match self.check(candidate.id) {
                Ok(()) => candidates.push(candidate),
                Err((reason, detail)) => {
                    let Candidate {
                        id,
                        start_ns,
                        evidence,
                        ..
                    } = candidate;
                    // A zombie runs as whoever it ran as, and needs no sparing.
                    if self.proc.is_dead(id)? {
                        continue;
                    }
                    survey.spared.push(Spared {
                        id,
                        start_ns,
                        evidence,
                        reason,
                        detail,
                    });
                    self.spares_a_member = true;
                }
            }
        }
        survey.candidates = candidates;
        if self.hides_others {
            self.hide_others(&mut survey);
        }
        Ok(survey)
    }

    fn describe(&mut self, id: ProcessId) -> Option<Description> {
        self.inner.describe(id)
    }

    fn holders(&mut self) -> Vec<HolderEntry> {
        let holders = self.inner.holders();
        let Some(uid) = self.uid else { return holders };
        let own = |holder: &HolderEntry| {
            let pid = holder.pid?;
            (self.proc.uid(pid).ok()? == Some(uid)).then_some(())
        };
        let is_own = |holder: &HolderEntry| own(holder).is_some();
        holders.into_iter().filter(is_own).collect()
    }

    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        self.check(id)?;
        self.inner.recheck(id)
    }

    /// The probe kills every forker that has the session's tag; it does not
    /// know whom this target spares.
    fn condemn(&mut self, until_ns: u64) -> Result<(), TargetError> {
        if self.uid.is_some() || self.spares_a_member {
            return Ok(());
        }
        self.inner.condemn(until_ns)
    }

    fn absolve(&mut self) -> Result<(), TargetError> {
        self.inner.absolve()
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.inner.news()
    }

    fn look_again(&self) -> Option<Duration> {
        self.inner.look_again()
    }
}
