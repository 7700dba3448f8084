//! Which source to take.

use std::fmt;

use serde::Serialize;

use super::ebpf::{EbpfSource, LoadError, LoadOptions};
use super::procfs::ProcfsSource;
use super::{Source, SourceError, SourceKind};

/// What a user asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SourceChoice {
    /// The best that works
    #[default]
    Auto,
    /// The kernel probe, or an error
    Ebpf,
    /// Snapshots of /proc
    Procfs,
}

/// What the source is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// One session, whose root is a child of this process. With snapshots,
    /// this process becomes a child subreaper, so that nobody can leave the
    /// session unseen.
    Run,
    /// Any number of sessions.
    Look,
    /// The whole host: every process is recorded.
    Host,
}

/// A source, and why it is this one.
#[derive(Debug)]
pub struct Opened {
    /// The source.
    pub source: Box<dyn Source>,
    /// The better ones that did not work.
    pub passed_over: Vec<PassedOver>,
}

/// A source that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassedOver {
    /// Which one.
    pub kind: SourceKind,
    /// Why: one line, with the next step.
    pub reason: String,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.reason)
    }
}

/// Opens the source that was asked for, or the best that works.
pub fn open(choice: SourceChoice, purpose: Purpose) -> Result<Opened, OpenError> {
    let mut passed_over = Vec::new();
    if choice != SourceChoice::Procfs {
        match load(purpose) {
            Ok(source) => {
                return Ok(Opened {
                    source: Box::new(source),
                    passed_over,
                });
            }
            Err(error) if choice == SourceChoice::Ebpf => return Err(OpenError::Ebpf(error)),
            Err(error) => {
                let reason = error.to_string();
                tracing::info!(reason, "the kernel probe was not taken");
                passed_over.push(PassedOver {
                    kind: SourceKind::Ebpf,
                    reason,
                });
            }
        }
    }
    let source = match purpose {
        Purpose::Run => ProcfsSource::subreaper(),
        Purpose::Look | Purpose::Host => ProcfsSource::new(),
    };
    Ok(Opened {
        source: Box::new(source?),
        passed_over,
    })
}

fn load(purpose: Purpose) -> Result<EbpfSource, LoadError> {
    EbpfSource::load(match purpose {
        Purpose::Run | Purpose::Look => LoadOptions::standalone(),
        Purpose::Host => LoadOptions::daemon(),
    })
}

/// No source could be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The probe was asked for and does not work here.
    #[error("the kernel probe cannot be used: {0}")]
    Ebpf(#[source] LoadError),
    /// `/proc` cannot be read.
    #[error("snapshots of /proc cannot be used: {0}")]
    Procfs(#[from] SourceError),
}
