//! What is said of reaps, those under way and the past ones.

use super::Service;
use super::caller::Caller;
use super::error::ServiceError;
use crate::api;
use crate::store::ReapRecord;

/// How many the list shows.
const LISTED: u32 = 200;

impl Service {
    /// The last reaps.
    pub fn reaps(
        &self,
        caller: Caller,
        query: &api::ReapsQuery,
    ) -> Result<api::ReapList, ServiceError> {
        let session = query.session.map(|id| id.to_string());
        let owner = (!caller.may_all).then_some(caller.uid);
        let records = self.store().reaps(session.as_deref(), owner, LISTED)?;
        let shown = records.into_iter().map(|record| show(record, false));
        Ok(api::ReapList {
            reaps: shown.collect::<Result<_, _>>()?,
        })
    }

    /// One reap, with its report when it is over.
    pub fn one_reap(&self, caller: Caller, id: &str) -> Result<api::Reap, ServiceError> {
        let record = self
            .store()
            .reap(id)?
            .filter(|record| caller.may(record.owner_uid));
        show(
            record.ok_or_else(|| ServiceError::NoReap(id.to_owned()))?,
            true,
        )
    }
}

fn show(record: ReapRecord, with_report: bool) -> Result<api::Reap, ServiceError> {
    let report = record.report.filter(|_| with_report);
    Ok(api::Reap {
        id: record.id,
        state: record.state,
        session: record.session,
        directory: record.directory,
        owner_uid: record.owner_uid,
        attempts: record.attempts,
        requested_ms: record.requested_ms,
        finished_ms: record.finished_ms,
        due_ms: record.due_ms,
        report: report.as_deref().map(serde_json::from_str).transpose()?,
        error: record.error,
    })
}
