//! The chain from a process up to the root.

use super::map::Lineage;
use crate::process::{Pid, ProcessId};

/// The chain of creators of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// The process itself, then its creator, and so on up, dead ones too. Empty
    /// for an unknown process.
    pub steps: Vec<Step>,
    /// The chain goes up to pid 1. If not, who created the last one is not known.
    pub reached_root: bool,
}

/// One process of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who.
    pub id: ProcessId,
    /// How many forgotten ancestors lie between the step before and this one.
    pub skipped_before: u64,
}

impl Lineage {
    /// The chain from a process up, through the dead.
    pub fn ancestry(&self, id: ProcessId) -> Ancestry {
        let mut steps = Vec::new();
        let mut at = self.key(id);
        let mut skipped_before = 0;
        while let Some(key) = at {
            let slot = &self.forest[key];
            steps.push(Step {
                id: slot.node.id,
                skipped_before,
            });
            skipped_before = slot.node.skipped_ancestors;
            at = slot.parent;
        }
        let reached_root = steps.last().is_some_and(|step| step.id.pid == Pid::INIT);
        Ancestry {
            steps,
            reached_root,
        }
    }
}
