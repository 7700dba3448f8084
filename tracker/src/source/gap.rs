//! What keeps a verdict from being `complete`.

use std::fmt;

use crate::process::ProcessId;

/// Something that the source may have missed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Gap {
    /// So many children did not fit in the kernel's map.
    MembersLost(u64),
    /// The session began with a process that was already running. Who left its
    /// tree before is not known.
    AdoptedLate,
    /// Snapshots miss whoever is reparented between two of them.
    Snapshots,
    /// This process became a child of the init of another pid namespace while
    /// the session ran. So do orphans of a member that entered that namespace.
    OtherNamespace(ProcessId),
    /// Nobody was tracking for some time.
    NotTracked {
        /// From when: `CLOCK_BOOTTIME`, nanoseconds.
        from_ns: u64,
        /// Until when.
        until_ns: u64,
    },
    /// Forks were not seen, because the kernel skipped a probe so many times.
    ProbeSkipped(u64),
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gap::MembersLost(1) => {
                f.write_str("one child did not fit in the kernel's map of members")
            }
            Gap::MembersLost(count) => {
                write!(
                    f,
                    "{count} children did not fit in the kernel's map of members"
                )
            }
            Gap::AdoptedLate => f.write_str(
                "tracking began when the process was already running: \
                 descendants that were reparented before are unknown",
            ),
            Gap::Snapshots => f.write_str(
                "snapshots of /proc miss a process that is reparented between two of them",
            ),
            Gap::OtherNamespace(id) => write!(
                f,
                "process {id} came to the init of another pid namespace, \
                 as descendants do that entered it"
            ),
            Gap::NotTracked { from_ns, until_ns } => {
                let seconds = until_ns.saturating_sub(*from_ns) / 1_000_000_000;
                write!(
                    f,
                    "nothing was tracked for {seconds} s while tracker was not running"
                )
            }
            Gap::ProbeSkipped(count) => write!(f, "the kernel skipped the probe {count} times"),
        }
    }
}
