//! What the command line does without a daemon: one session, or one look.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::lineage::{Limits, SessionId};
use crate::process::{Cancel, Proc, ProcError, ProcessId};
use crate::reap::{
    DirError, DirRequest, DirTarget, Options, Protected, Report, SessionTarget, TreeError,
    TreeRequest, TreeTarget, reap,
};
use crate::session::{OpenSession, SessionError, Tracking};
use crate::source::{
    self, OpenError, PassedOver, Purpose, SourceChoice, SourceError, SourceKind, Standby,
};

/// A source, and the sessions of this process.
///
/// All methods block, most of them for well under a millisecond; a reap takes
/// as long as its target.
#[derive(Clone, Debug)]
pub struct Standalone {
    tracking: Arc<Mutex<Tracking>>,
    passed_over: Arc<[PassedOver]>,
}

/// What to reap.
#[derive(Clone, Debug)]
pub enum ReapTarget {
    /// A session that this tracker opened, with the sessions inside it.
    Session(SessionId),
    /// A process and the descendants that a look at `/proc` finds.
    Tree(TreeRequest),
    /// Who has its working directory in a directory.
    Directory(DirRequest),
}

impl Standalone {
    /// Opens a source and begins to track.
    pub fn open(choice: SourceChoice, purpose: Purpose) -> Result<Standalone, StandaloneError> {
        let opened = source::open(choice, purpose)?;
        let tracking = Tracking::new(opened.source, Proc::open()?, Limits::default());
        Ok(Standalone {
            tracking: Arc::new(Mutex::new(tracking)),
            passed_over: opened.passed_over.into(),
        })
    }

    /// Takes over the tracking of a child of this process, whose former tracker
    /// does not answer. The session to open is the one of [`Root::Fresh`] `root`.
    ///
    /// [`Root::Fresh`]: crate::session::Root::Fresh
    pub fn take_over(standby: Standby, root: ProcessId) -> Result<Standalone, StandaloneError> {
        let source = Box::new(standby.take_over(root)?);
        let tracking = Tracking::new(source, Proc::open()?, Limits::default());
        Ok(Standalone {
            tracking: Arc::new(Mutex::new(tracking)),
            passed_over: Arc::new([]),
        })
    }

    /// The source that was taken.
    pub fn source(&self) -> SourceKind {
        self.lock().source_kind()
    }

    /// The better sources that were not taken, and why.
    pub fn passed_over(&self) -> &[PassedOver] {
        &self.passed_over
    }

    /// Opens a session for a process.
    pub fn open_session(&self, request: OpenSession) -> Result<SessionId, SessionError> {
        self.lock().open(request)
    }

    /// Whether a process belongs to a session at this instant. Cheap.
    pub fn is_member(&self, id: ProcessId) -> Result<bool, SourceError> {
        Ok(self.lock().tag_of(id)?.is_some())
    }

    /// Takes in what happened. Call it from time to time: what finds no room
    /// in the ring buffer is lost for the report.
    pub fn pump(&self) -> Result<(), SourceError> {
        self.lock().pump()
    }

    /// Ends what the target owns. Blocks until the verdict.
    pub fn reap(
        &self,
        target: &ReapTarget,
        options: &Options,
        cancel: &Cancel,
    ) -> Result<Report, StandaloneError> {
        let proc = Proc::open()?;
        let protected = Protected::new(&proc, &options.client)?;
        match target {
            ReapTarget::Session(id) => {
                let tracking = Arc::clone(&self.tracking);
                let mut target = SessionTarget::new(tracking, *id, protected)?;
                Ok(reap(&mut target, &proc, options, cancel))
            }
            ReapTarget::Tree(request) => {
                let mut target = TreeTarget::new(&proc, request, protected)?;
                Ok(reap(&mut target, &proc, options, cancel))
            }
            ReapTarget::Directory(request) => {
                let tracking = Arc::clone(&self.tracking);
                let mut target = DirTarget::new(&proc, tracking, request, protected)?;
                Ok(reap(&mut target, &proc, options, cancel))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Tracking> {
        self.tracking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something that was asked for failed.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// No source could be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A source that was open could not answer.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A session could not be used.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The process to reap cannot be reaped.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The directory to reap cannot be reaped.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// `/proc` could not be read.
    #[error(transparent)]
    Proc(#[from] ProcError),
}
