//! Having the daemon end a session, whatever becomes of the daemon meanwhile.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags};

use crate::api::{self, ErrorCode};
use crate::client::{Client, ClientError, blocking, default_socket};
use crate::lineage::SessionId;
use crate::process::Cancel;
use crate::reap::{Options, Report};
use crate::store::ReapState;

/// How long a daemon may be silent that has something to do.
const SILENCE: Duration = Duration::from_secs(20);
/// How often it is asked whether it is there.
const ASK: Duration = Duration::from_secs(1);
/// How long to wait for the next daemon when one is gone. A service manager
/// starts it at once.
const RESTART: Duration = Duration::from_secs(5);
/// How often to look for it.
const LOOK: Duration = Duration::from_millis(50);

/// Closes the session. The inner error: the daemon did not do it.
pub(super) fn close(
    session: SessionId,
    options: &Options,
    cancel: &Cancel,
) -> Result<Result<Report, ClientError>> {
    let closing = Closing {
        client: Client::new(default_socket()),
        session,
        request: api::CloseSession {
            grace_ms: u64::try_from(options.grace.as_millis()).unwrap_or(api::MAX_GRACE_MS),
            dry_run: options.dry_run,
        },
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("cannot end what is left")?;
    let done = Cancel::new().context("cannot end what is left")?;
    Ok(std::thread::scope(|scope| {
        scope.spawn(|| {
            wait(cancel, &done);
            if !done.is_cancelled()
                && let Err(error) = cancel_reap(session)
            {
                tracing::info!(%error, "the daemon does not stop the reap");
            }
        });
        let report = runtime.block_on(closing.until_over(cancel));
        done.cancel();
        report
    }))
}

struct Closing {
    client: Client,
    session: SessionId,
    request: api::CloseSession,
}

impl Closing {
    /// Asks the next daemon when one is gone.
    async fn until_over(&self, cancel: &Cancel) -> Result<Report, ClientError> {
        let mut gone_since = None;
        loop {
            let error = match self.once().await {
                Ok(report) => return Ok(report),
                Err(error) => error,
            };
            let may_come_back = match &error {
                ClientError::NoDaemon { .. } | ClientError::Broken(_) => true,
                ClientError::Refused(detail) => detail.code == ErrorCode::Unavailable,
                _ => false,
            };
            let since = *gone_since.get_or_insert_with(Instant::now);
            if !may_come_back || since.elapsed() > RESTART || cancel.is_cancelled() {
                return Err(error);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn once(&self) -> Result<Report, ClientError> {
        let report = match self.while_it_answers().await {
            Err(ClientError::Refused(detail))
                if matches!(detail.code, ErrorCode::Conflict | ErrorCode::NotFound) =>
            {
                // A daemon that was restarted has taken up what the one before
                // had begun, and may be through with it.
                let resumed = self.resumed().await?;
                resumed.ok_or(ClientError::Refused(detail))?
            }
            answer => answer?,
        };
        if self.request.dry_run {
            let client = self.client.clone().with_timeout(SILENCE);
            if let Err(error) = client.release_session(&self.session.to_string()).await {
                tracing::info!(%error, "the daemon does not end the session");
            }
        }
        Ok(report)
    }

    /// A reap may take as long as its grace, so the daemon is asked whether it
    /// lives.
    async fn while_it_answers(&self) -> Result<Report, ClientError> {
        let name = self.session.to_string();
        let mut closing = std::pin::pin!(self.client.close_session(&name, &self.request));
        let client = self.client.clone().with_timeout(SILENCE);
        let alive = async {
            loop {
                tokio::time::sleep(ASK).await;
                if let Err(error @ ClientError::NoAnswer { .. }) = client.status().await {
                    return error;
                }
            }
        };
        tokio::select! {
            report = &mut closing => report,
            error = alive => Err(error),
        }
    }

    /// The report of the last reap of the session, when it is over.
    async fn resumed(&self) -> Result<Option<Report>, ClientError> {
        let client = self.client.clone().with_timeout(SILENCE);
        let query = api::ReapsQuery {
            session: Some(self.session),
        };
        loop {
            let Some(last) = client.reaps(&query).await?.reaps.into_iter().next() else {
                return Ok(None);
            };
            if last.state != ReapState::Running {
                return Ok(client.one_reap(&last.id).await?.report);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn cancel_reap(session: SessionId) -> Result<(), ClientError> {
    let client = blocking::Client::new(default_socket())?.with_timeout(SILENCE);
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
