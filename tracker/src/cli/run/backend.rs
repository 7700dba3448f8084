//! Who tracks the command: this process, or the daemon of the host.

use std::os::fd::AsFd;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags};

use crate::api::{self, ProcessRef};
use crate::client::{ClientError, blocking, default_socket};
use crate::embedded::{ReapTarget, Tracker};
use crate::lineage::SessionId;
use crate::process::{Cancel, ProcessId, Workdir};
use crate::reap::{Options, Report};
use crate::session::KeepRule;

/// Who tracks the command.
#[derive(Clone, Debug)]
pub(super) enum Backend {
    /// This process.
    Own(Tracker),
    /// The daemon, in this session of its.
    Daemon(SessionId),
}

impl Backend {
    /// Opens a session of the daemon's, if there is one that takes it: its
    /// probe runs already, and it knows who created this command.
    pub(super) fn of_daemon(
        name: &str,
        root: ProcessId,
        keep: &[KeepRule],
        workdir: Option<&Workdir>,
    ) -> Option<SessionId> {
        let request = api::OpenSession {
            name: Some(name.to_owned()),
            pid: ProcessRef::Exact(root),
            keep: keep.iter().map(ToString::to_string).collect(),
            workdir: workdir.map(|workdir| workdir.path.as_path().into()),
        };
        match client().and_then(|client| client.open_session(&request)) {
            Ok(session) => Some(session.id),
            Err(error) => {
                tracing::info!(%error, "the daemon does not track this command");
                None
            }
        }
    }

    /// Takes in what happened. The daemon does so by itself.
    pub(super) fn pump(&self) -> Result<()> {
        match self {
            Backend::Own(tracker) => Ok(tracker.pump()?),
            Backend::Daemon(_) => Ok(()),
        }
    }

    /// Whether a process belongs to the session, or to one inside it.
    pub(super) fn is_member(&self, id: ProcessId) -> Result<bool> {
        match self {
            Backend::Own(tracker) => Ok(tracker.is_member(id)?),
            Backend::Daemon(session) => {
                // On a thread of its own: the caller's may be in the middle of
                // an async runtime, where nobody may block on another one.
                let ask = || Ok(client()?.why(ProcessRef::Exact(id))?);
                let why: Result<api::Why> = std::thread::scope(|scope| {
                    scope
                        .spawn(ask)
                        .join()
                        .unwrap_or_else(|_| Err(anyhow::anyhow!("no answer")))
                });
                Ok(why?.sessions.iter().any(|owner| owner.id == *session))
            }
        }
    }

    /// Ends what the target owns. Blocks until the verdict, or until `cancel`.
    pub(super) fn reap(
        &self,
        target: &ReapTarget,
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Report> {
        match (self, target) {
            (Backend::Own(tracker), _) => Ok(tracker.reap(target, options, cancel)?),
            (Backend::Daemon(session), ReapTarget::Session(_)) => close(*session, options, cancel),
            (Backend::Daemon(_), _) => anyhow::bail!("the daemon was not asked to watch that"),
        }
    }
}

fn client() -> Result<blocking::Client, ClientError> {
    blocking::Client::new(default_socket())
}

/// Closes the daemon's session. Cancelling is another request.
fn close(session: SessionId, options: &Options, cancel: &Cancel) -> Result<Report> {
    let name = session.to_string();
    let request = api::CloseSession {
        grace_ms: u64::try_from(options.grace.as_millis()).unwrap_or(api::MAX_GRACE_MS),
        dry_run: options.dry_run,
    };
    let done = Cancel::new().context("cannot end what is left")?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait(cancel, &done);
            if !done.is_cancelled()
                && let Err(error) = cancel_reap(session)
            {
                tracing::info!(%error, "the daemon does not stop the reap");
            }
        });
        let client = client();
        let report = client.and_then(|client| {
            let report = client.close_session(&name, &request)?;
            if options.dry_run {
                client.release_session(&name)?;
            }
            Ok(report)
        });
        done.cancel();
        Ok(report?)
    })
}

fn cancel_reap(session: SessionId) -> Result<(), ClientError> {
    let client = client()?;
    let query = api::ReapsQuery {
        session: Some(session),
    };
    if let Some(reap) = client.reaps(&query)?.reaps.first() {
        client.cancel_reap(&reap.id)?;
    }
    Ok(())
}

/// Waits for the first of two.
fn wait(one: &Cancel, other: &Cancel) {
    let mut fds = [
        PollFd::from_borrowed_fd(one.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(other.as_fd(), PollFlags::IN),
    ];
    // A signal that interrupts it is no news.
    while let Err(rustix::io::Errno::INTR) = rustix::event::poll(&mut fds, None) {}
}
