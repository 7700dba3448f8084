//! Sums that the probe and the kernel keep.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::programs::ProgramFd;
use serde::{Deserialize, Serialize};
use tracker_ebpf::counter;

use super::maps::Maps;
use crate::source::SourceError;

/// What the probe counted since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Counters {
    /// Processes created.
    pub forks: u64,
    /// Programs executed.
    pub execs: u64,
    /// Processes that ended.
    pub exits: u64,
    /// Records that found no room in the ring buffer.
    pub ring_full: u64,
    /// Children that found no room in the map.
    pub insert_failed: u64,
    /// Entries of an earlier holder of a pid.
    pub stale_entries: u64,
    /// Entries that could not be deleted.
    pub delete_failed: u64,
    /// Losses that belong to a session, but to which one is not known.
    pub unattributed: u64,
    /// Forks that were answered by SIGKILL.
    pub condemned_forks: u64,
    /// How often the kernel skipped the probe at a fork, because it was already
    /// running on that CPU.
    pub skipped: u64,
    /// Records that were not what the probe writes.
    pub undecodable: u64,
}

impl Counters {
    pub(super) fn read(
        maps: &Maps,
        fork: &ProgramFd,
        undecodable: u64,
    ) -> Result<Counters, SourceError> {
        Ok(Counters {
            forks: maps.counter(counter::FORKS)?,
            execs: maps.counter(counter::EXECS)?,
            exits: maps.counter(counter::EXITS)?,
            ring_full: maps.counter(counter::RING_FULL)?,
            insert_failed: maps.counter(counter::INSERT_FAILED)?,
            stale_entries: maps.counter(counter::STALE_ENTRY)?,
            delete_failed: maps.counter(counter::DELETE_FAILED)?,
            unattributed: maps.counter(counter::LOSS_UNATTRIBUTED)?,
            condemned_forks: maps.counter(counter::CONDEMNED_FORK)?,
            skipped: skipped(maps, fork)?,
            undecodable,
        })
    }
}

/// How often the kernel skipped the program at forks, and those before it.
pub(super) fn skipped(maps: &Maps, fork: &ProgramFd) -> Result<u64, SourceError> {
    Ok(maps.counter(counter::SKIPPED_BEFORE)? + misses(fork).unwrap_or(0))
}

/// How often the kernel skipped a program. The kernel tells in `fdinfo`, since 5.12.
pub(super) fn misses(program: &ProgramFd) -> io::Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", program.as_fd().as_raw_fd());
    Ok(parse_misses(&std::fs::read_to_string(path)?))
}

fn parse_misses(fdinfo: &str) -> u64 {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:"))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_read_from_fdinfo() {
        assert_eq!(parse_misses("pos:\t0\nrecursion_misses:\t7\n"), 7);
        assert_eq!(parse_misses("pos:\t0\n"), 0);
    }
}
