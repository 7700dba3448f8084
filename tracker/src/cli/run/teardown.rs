//! Ending what the command left behind, at the pace that the user wants.

use anyhow::{Context, Result};

use super::backend::Backend;
use super::supervise::{Supervisor, reap_zombies};
use crate::lineage::SessionId;
use crate::process::{Cancel, Place, Workdir};
use crate::reap::{DirRequest, Options, Report, Verdict, continued, followed};
use crate::source::SourceKind;
use crate::standalone::ReapTarget;

/// How often a session of snapshots is reaped again while a child is left that
/// no look has found. A child that is somebody else's is left for ever.
const LOOKS: u32 = 20;

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
    tracker: &Backend,
    session: SessionId,
    workdir: Option<&Workdir>,
    options: Options,
) -> Result<Report> {
    let mut teardown = Teardown {
        supervisor,
        tracker,
        patience: Patience::Full,
    };
    let own = ReapTarget::Session(session);
    let at_once = at_once(&options);
    let mut report = teardown.finish(&own, options.clone()).await?;
    // The proof of the subreaper is that no child is left, zombies included, and
    // the last of these may have come after the last look. A child that is left
    // although the looks found nobody forks faster than they come.
    for _ in 0..LOOKS {
        let in_doubt = report.source == SourceKind::Procfs
            && report.verdict == Verdict::Incomplete
            && !report.dry_run
            && teardown.patience != Patience::None;
        let childless = in_doubt && reap_zombies();
        // Whoever is spared may be the child that is left.
        if !in_doubt || (!childless && !report.spared.is_empty()) {
            break;
        }
        report = continued(report, teardown.reap(&own, at_once.clone()).await?);
        if childless {
            break;
        }
    }
    // The daemon sweeps the directory of its session by itself.
    let workdir = workdir.filter(|_| matches!(tracker, Backend::Own(_)));
    match workdir {
        Some(workdir) if teardown.patience != Patience::None => {
            Ok(teardown.sweep(report, session, workdir, options).await)
        }
        _ => Ok(report),
    }
}

fn at_once(options: &Options) -> Options {
    Options {
        grace: std::time::Duration::ZERO,
        ..options.clone()
    }
}

struct Teardown<'a> {
    supervisor: &'a mut Supervisor,
    tracker: &'a Backend,
    patience: Patience,
}

impl Teardown<'_> {
    /// Ends who is left in the session's directory, when the session is over.
    async fn sweep(
        &mut self,
        mut report: Report,
        session: SessionId,
        workdir: &Workdir,
        options: Options,
    ) -> Report {
        let left = ReapTarget::Directory(DirRequest {
            live: true,
            session: Some(session),
            ..DirRequest::new(Place::Known(workdir.clone()))
        });
        match self.finish(&left, options).await {
            Ok(sweep) => followed(report, sweep),
            Err(error) => {
                if report.verdict == Verdict::Complete {
                    report.verdict = Verdict::Incomplete;
                }
                let reason = format!("who is left in the directory is not known: {error:#}");
                report.reasons.push(reason);
                report
            }
        }
    }

    /// Reaps a target until that is over, or nobody wants to wait any more.
    async fn finish(&mut self, target: &ReapTarget, options: Options) -> Result<Report> {
        let at_once = at_once(&options);
        if self.patience != Patience::Full {
            return self.reap(target, at_once).await;
        }
        let report = self.reap(target, options).await?;
        if self.patience == Patience::Short && report.verdict != Verdict::Complete {
            return Ok(continued(report, self.reap(target, at_once).await?));
        }
        Ok(report)
    }

    /// One reap. A push cuts it short.
    async fn reap(&mut self, target: &ReapTarget, options: Options) -> Result<Report> {
        let cancel = Cancel::new().context("cannot end what is left")?;
        let mut reap = tokio::task::spawn_blocking({
            let tracker = self.tracker.clone();
            let target = target.clone();
            let cancel = cancel.clone();
            move || tracker.reap(&target, &options, &cancel)
        });
        loop {
            tokio::select! {
                done = &mut reap => return done?,
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
