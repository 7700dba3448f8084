//! Coming back to the truth after records were lost.

use super::Tracking;
use crate::process::{ProcessId, now_boot_ns};
use crate::source::SourceError;

/// While records go on being lost, look at everybody no more often than this.
const PAUSE_NS: u64 = 1_000_000_000;

/// What was done about lost records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Resync {
    /// As of which loss the map is right.
    since_ns: Option<u64>,
    /// When everybody was looked at.
    done_ns: u64,
}

impl Resync {
    /// The map is right as of this loss; there may have been none.
    pub(super) fn new(since_ns: Option<u64>) -> Resync {
        Resync {
            since_ns,
            done_ns: 0,
        }
    }
}

impl Tracking {
    /// Looks at everybody if records were lost since that was done last: the
    /// map lacks whoever was created meanwhile, and keeps who died. Who is a
    /// member is not affected; the source knows that by other means.
    pub(super) fn resync_after_a_loss(&mut self) -> Result<(), SourceError> {
        let since_ns = self.source.recorded_since();
        let now_ns = now_boot_ns();
        if since_ns == self.resync.since_ns || now_ns - self.resync.done_ns < PAUSE_NS {
            return Ok(());
        }
        let mut alive: Vec<ProcessId> = Vec::new();
        for seen in self.proc.scan()? {
            if seen.stat.is_dead() {
                continue;
            }
            alive.push(seen.id);
            if self.lineage.node(seen.id).is_none() {
                let tag = self.source.tag_of(seen.id)?;
                self.look_at(seen.id, tag)?;
            }
        }
        self.lineage.resync(&alive, now_ns);
        self.adopted.retain(|id| {
            self.lineage
                .node(*id)
                .is_some_and(|node| node.exit.is_none())
        });
        self.resync = Resync {
            since_ns,
            done_ns: now_ns,
        };
        Ok(())
    }
}
