//! Ending what a target owns: plan, then execute, then report.

mod report;
mod target;

pub use report::{
    Counts, Evidence, EvidenceKind, Outcome, ProcessEntry, Report, SCHEMA, SpareReason,
    SparedEntry, TargetEntry, Verdict,
};
pub use target::{Candidate, Spared, Survey, Target, TargetError};
