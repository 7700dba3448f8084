//! Ending what a target owns: plan, then execute, then report.

mod book;
mod continued;
mod describe;
mod dir;
mod engine;
mod entries;
mod frozen;
mod look;
mod options;
mod priority;
mod protect;
mod report;
mod session_target;
mod strike;
pub mod summary;
mod target;
#[cfg(test)]
mod testing;
mod tree_request;
mod tree_target;
mod verdict;
mod wait;
mod worker;

pub use continued::{continued, followed};
pub use describe::Description;
pub use dir::{DirError, DirRequest, DirTarget};
pub use engine::{DESCRIBED, reap};
pub use options::{Options, Phase, Progress};
pub use protect::Protected;
pub use report::{
    Counts, Evidence, EvidenceKind, HeldBy, HeldEntry, HolderEntry, Outcome, ProcessEntry, Report,
    SCHEMA, SpareReason, SparedEntry, TargetEntry, Verdict,
};
pub use session_target::{SessionTarget, evidence};
pub use target::{Candidate, Spared, Survey, Target, TargetError};
pub use tree_request::{TreeError, TreeRequest};
pub use tree_target::TreeTarget;
