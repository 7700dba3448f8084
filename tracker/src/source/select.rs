//! Which source to take.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use super::ebpf::{EbpfSource, LoadError, LoadOptions, PinsError};
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

impl PassedOver {
    /// The probe, because of this error.
    fn because(error: &dyn std::error::Error) -> PassedOver {
        let reason = error.to_string();
        tracing::info!(reason, "the kernel probe was not taken");
        PassedOver {
            kind: SourceKind::Ebpf,
            reason,
        }
    }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.reason)
    }
}

/// Opens the source that was asked for, or the best that works.
pub fn open(choice: SourceChoice, purpose: Purpose) -> Result<Opened, OpenError> {
    let options = match purpose {
        Purpose::Run | Purpose::Look => LoadOptions::standalone(),
        Purpose::Host => LoadOptions::daemon(),
    };
    best(choice, purpose, Vec::new(), || EbpfSource::load(options))
}

/// As [`open`] with [`Purpose::Host`], but the probe goes on in the kernel when
/// this process ends: it is kept below `pins`, which lies on a bpffs. Where that
/// cannot be, the best is one that ends with this process.
pub fn open_pinned(choice: SourceChoice, pins: &Path) -> Result<Opened, OpenError> {
    if choice == SourceChoice::Procfs {
        return open(choice, Purpose::Host);
    }
    let options = LoadOptions::daemon();
    match EbpfSource::load_pinned(pins, options) {
        Ok(source) => Ok(Opened {
            source: Box::new(source),
            passed_over: Vec::new(),
        }),
        // Another daemon runs: a second one is not what anybody wants.
        Err(error @ LoadError::Pins(PinsError::InUse(_))) => Err(OpenError::Ebpf(error)),
        Err(LoadError::Pins(error)) if choice == SourceChoice::Auto => {
            let passed_over = vec![PassedOver::because(&error)];
            let load = || EbpfSource::load(options);
            best(choice, Purpose::Host, passed_over, load)
        }
        Err(error) => best(choice, Purpose::Host, Vec::new(), || Err(error)),
    }
}

/// The probe if `load` brings it, or snapshots if they are allowed.
fn best(
    choice: SourceChoice,
    purpose: Purpose,
    mut passed_over: Vec<PassedOver>,
    load: impl FnOnce() -> Result<EbpfSource, LoadError>,
) -> Result<Opened, OpenError> {
    if choice != SourceChoice::Procfs {
        match load() {
            Ok(source) => {
                return Ok(Opened {
                    source: Box::new(source),
                    passed_over,
                });
            }
            Err(error) if choice == SourceChoice::Ebpf => return Err(OpenError::Ebpf(error)),
            Err(error) => passed_over.push(PassedOver::because(&error)),
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
