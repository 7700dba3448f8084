//! Ending what the command left behind, at the pace that the user wants.

use anyhow::{Context, Result};

use super::continued::continued;
use super::supervise::{Supervisor, reap_zombies};
use crate::embedded::{ReapTarget, Tracker};
use crate::lineage::SessionId;
use crate::process::Cancel;
use crate::reap::{Options, Report, Verdict};
use crate::source::SourceKind;

/// How long the user is ready to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    /// For the grace to pass.
    Full,
    /// For SIGKILL to take effect: somebody pushed once.
    Short,
    /// No longer: somebody pushed again.
    None,
}

/// Ends the session, and reports what is proven.
pub(super) async fn tear_down(
    supervisor: &mut Supervisor,
    tracker: &Tracker,
    session: SessionId,
    options: Options,
) -> Result<Report> {
    let mut teardown = Teardown {
        supervisor,
        tracker,
        session,
        patience: Patience::Full,
    };
    let at_once = Options {
        grace: std::time::Duration::ZERO,
        ..options.clone()
    };
    let mut report = teardown.reap(options).await?;
    if teardown.patience == Patience::Short && report.verdict != Verdict::Complete {
        report = continued(report, teardown.reap(at_once.clone()).await?);
    }
    // The proof of the subreaper is that no child is left, zombies included, and
    // the last of these may have come after the last look.
    let provable = report.source == SourceKind::Procfs && report.verdict == Verdict::Incomplete;
    if provable && !report.dry_run && teardown.patience != Patience::None && reap_zombies() {
        report = continued(report, teardown.reap(at_once).await?);
    }
    Ok(report)
}

struct Teardown<'a> {
    supervisor: &'a mut Supervisor,
    tracker: &'a Tracker,
    session: SessionId,
    patience: Patience,
}

impl Teardown<'_> {
    /// One reap. A push cuts it short.
    async fn reap(&mut self, options: Options) -> Result<Report> {
        let cancel = Cancel::new().context("cannot end what is left")?;
        let mut reap = tokio::task::spawn_blocking({
            let tracker = self.tracker.clone();
            let target = ReapTarget::Session(self.session);
            let cancel = cancel.clone();
            move || tracker.reap(&target, &options, &cancel)
        });
        loop {
            tokio::select! {
                done = &mut reap => return Ok(done??),
                pushed = self.supervisor.until_push() => {
                    pushed?;
                    self.patience = match self.patience {
                        Patience::Full => Patience::Short,
                        Patience::Short | Patience::None => Patience::None,
                    };
                    cancel.cancel();
                }
            }
        }
    }
}
