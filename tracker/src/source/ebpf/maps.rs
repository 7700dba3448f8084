//! The probe's maps, typed.
#![expect(
    unsafe_code,
    reason = "aya has no batch lookup: the only way to see a hash map whole while it changes"
)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, PerCpuValues, RingBuf};
use tracker_ebpf::{Losses, Process, counter};

use super::decode::{self, LossesBytes, ProcessBytes};
use super::error::system_call;
use crate::source::SourceError;

/// `bpf_map_update_elem` flags of `include/uapi/linux/bpf.h`.
const ANY: u64 = 0;
const NOEXIST: u64 = 1;
const EXIST: u64 = 2;

/// How many entries one call hands over at first.
const BATCH: usize = 1024;

/// The maps' names, in the object and under bpffs.
pub(super) mod name {
    pub(in super::super) const PROCESSES: &str = "PROCESSES";
    pub(in super::super) const RING: &str = "RING";
    pub(in super::super) const COUNTERS: &str = "COUNTERS";
    pub(in super::super) const LOSSES: &str = "LOSSES";
    pub(in super::super) const CONDEMNED: &str = "CONDEMNED";
    pub(in super::super) const SHIELDED: &str = "SHIELDED";
    pub(in super::super) const EAGER: &str = "EAGER";
}

/// All maps that user space uses.
pub(super) struct Maps {
    processes: HashMap<MapData, u32, ProcessBytes>,
    counters: PerCpuArray<MapData, u64>,
    losses: HashMap<MapData, u64, LossesBytes>,
    condemned: HashMap<MapData, u64, u64>,
    shielded: HashMap<MapData, u32, u64>,
    eager: Array<MapData, u32>,
    /// The history.
    pub(super) ring: RingBuf<MapData>,
}

/// What became of a write that must not overwrite, or must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// It is in.
    Done,
    /// There was an entry already, or none to overwrite.
    Changed,
    /// The map is full.
    Full,
}

impl Maps {
    /// From maps by their names; checks that each has the layout of this
    /// tracker, so that a map of another one is never misread.
    pub(super) fn new(
        mut take: impl FnMut(&'static str) -> Option<Map>,
    ) -> Result<Maps, MapsError> {
        let mut map = |name| take(name).ok_or(MapsError::Missing(name));
        let wrong = |name| move |source| MapsError::Wrong { name, source };
        Ok(Maps {
            processes: HashMap::try_from(map(name::PROCESSES)?).map_err(wrong(name::PROCESSES))?,
            counters: PerCpuArray::try_from(map(name::COUNTERS)?).map_err(wrong(name::COUNTERS))?,
            losses: HashMap::try_from(map(name::LOSSES)?).map_err(wrong(name::LOSSES))?,
            condemned: HashMap::try_from(map(name::CONDEMNED)?).map_err(wrong(name::CONDEMNED))?,
            shielded: HashMap::try_from(map(name::SHIELDED)?).map_err(wrong(name::SHIELDED))?,
            eager: Array::try_from(map(name::EAGER)?).map_err(wrong(name::EAGER))?,
            ring: RingBuf::try_from(map(name::RING)?).map_err(wrong(name::RING))?,
        })
    }

    /// The entry under a pid.
    pub(super) fn process(&self, pid: u32) -> Result<Option<Process>, SourceError> {
        match self.processes.get(&pid, 0) {
            Ok(bytes) => Ok(decode::process(&bytes)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(failed("read", name::PROCESSES, error)),
        }
    }

    /// Adds an entry where none is.
    pub(super) fn add_process(&mut self, pid: u32, process: &Process) -> Result<Put, SourceError> {
        self.put_process(pid, process, NOEXIST)
    }

    /// Overwrites an entry.
    pub(super) fn set_process(&mut self, pid: u32, process: &Process) -> Result<Put, SourceError> {
        self.put_process(pid, process, EXIST)
    }

    fn put_process(&mut self, pid: u32, process: &Process, flags: u64) -> Result<Put, SourceError> {
        let bytes = decode::process_bytes(process);
        match self.processes.insert(pid, bytes, flags).map_err(io_error) {
            Ok(()) => Ok(Put::Done),
            Err(error) => match error.raw_os_error() {
                Some(libc::EEXIST | libc::ENOENT) => Ok(Put::Changed),
                Some(libc::E2BIG | libc::ENOMEM) => Ok(Put::Full),
                _ => Err(SourceError::Map {
                    call: "write",
                    map: name::PROCESSES,
                    source: error,
                }),
            },
        }
    }

    /// Takes an entry out, if there is one.
    pub(super) fn remove_process(&mut self, pid: u32) -> Result<(), SourceError> {
        gone_is_fine(self.processes.remove(&pid), name::PROCESSES)
    }

    /// Every entry that is there throughout the call, and maybe some of those
    /// that come or go meanwhile: the kernel hands over whole hash buckets, each
    /// under its lock. (Walking from key to key starts anew when a key is
    /// deleted, and may do so for ever.)
    pub(super) fn processes(&self) -> Result<Vec<(u32, Process)>, SourceError> {
        let error = |source| SourceError::Map {
            call: "read",
            map: name::PROCESSES,
            source,
        };
        let fd = self.processes_fd();
        let mut found = Vec::new();
        let mut keys = vec![0u32; BATCH];
        let mut values = vec![[0u8; size_of::<Process>()]; BATCH];
        let mut position: Option<u64> = None;
        loop {
            let batch = lookup_batch(fd, position, &mut keys, &mut values).map_err(error)?;
            let Batch::Entries { count, next } = batch else {
                // One bucket holds more than there is room for.
                let room = keys.len() * 2;
                keys.resize(room, 0);
                values.resize(room, [0; size_of::<Process>()]);
                continue;
            };
            let entries = keys.iter().zip(&values).take(count);
            found.extend(entries.filter_map(|(pid, bytes)| Some((*pid, decode::process(bytes)?))));
            match next {
                Some(next) => position = Some(next),
                None => return Ok(found),
            }
        }
    }

    fn processes_fd(&self) -> i32 {
        // The map is in this struct, so the descriptor stays open.
        aya::maps::IterableMap::map(&self.processes)
            .fd()
            .as_fd()
            .as_raw_fd()
    }

    /// What a session lost.
    pub(super) fn losses(&self, session: u64) -> Result<Losses, SourceError> {
        match self.losses.get(&session, 0) {
            Ok(bytes) => Ok(decode::losses(&bytes).unwrap_or_default()),
            Err(MapError::KeyNotFound) => Ok(Losses::default()),
            Err(error) => Err(failed("read", name::LOSSES, error)),
        }
    }

    /// Forgets what a session lost.
    pub(super) fn forget_losses(&mut self, session: u64) -> Result<(), SourceError> {
        gone_is_fine(self.losses.remove(&session), name::LOSSES)
    }

    /// The sum of one counter over all CPUs.
    pub(super) fn counter(&self, index: u32) -> Result<u64, SourceError> {
        debug_assert!(index < counter::COUNT);
        self.counters
            .get(&index, 0)
            .map(|values| values.iter().sum())
            .map_err(|error| failed("read", name::COUNTERS, error))
    }

    /// Remembers how often programs that are replaced were skipped.
    pub(super) fn add_skipped(&mut self, skipped: u64) -> Result<(), SourceError> {
        let failed = |error| failed("write", name::COUNTERS, error);
        let index = counter::SKIPPED_BEFORE;
        let mut values = self.counters.get(&index, 0).map_err(failed)?.to_vec();
        if let Some(first) = values.first_mut() {
            *first += skipped;
        }
        let values = PerCpuValues::try_from(values).map_err(|error| failed(error.into()))?;
        self.counters.set(index, values, ANY).map_err(failed)
    }

    /// Condemns a session until then.
    pub(super) fn condemn(&mut self, session: u64, until_ns: u64) -> Result<(), SourceError> {
        self.condemned
            .insert(session, until_ns, ANY)
            .map_err(|error| failed("write", name::CONDEMNED, error))
    }

    /// Ends it.
    pub(super) fn absolve(&mut self, session: u64) -> Result<(), SourceError> {
        gone_is_fine(self.condemned.remove(&session), name::CONDEMNED)
    }

    /// Ends whatever was condemned or shielded.
    pub(super) fn absolve_all(&mut self) -> Result<(), SourceError> {
        let sessions: Vec<u64> = self.condemned.keys().filter_map(Result::ok).collect();
        for session in sessions {
            self.absolve(session)?;
        }
        let shielded: Vec<u32> = self.shielded.keys().filter_map(Result::ok).collect();
        shielded.into_iter().try_for_each(|pid| self.unshield(pid))
    }

    /// Exempts one process from what its session is condemned to.
    pub(super) fn shield(&mut self, pid: u32, start_ns: u64) -> Result<(), SourceError> {
        self.shielded
            .insert(pid, start_ns, ANY)
            .map_err(|error| failed("write", name::SHIELDED, error))
    }

    /// Ends that.
    pub(super) fn unshield(&mut self, pid: u32) -> Result<(), SourceError> {
        gone_is_fine(self.shielded.remove(&pid), name::SHIELDED)
    }

    /// Whether each fork by a tagged process wakes the reader.
    pub(super) fn set_eager(&mut self, eager: bool) -> Result<(), SourceError> {
        self.eager
            .set(0, u32::from(eager), ANY)
            .map_err(|error| failed("write", name::EAGER, error))
    }
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

/// What one `BPF_MAP_LOOKUP_BATCH` answered.
enum Batch {
    /// So many entries, and where to go on.
    Entries { count: usize, next: Option<u64> },
    /// There is no room for even one bucket.
    TooSmall,
}

/// `union bpf_attr`, the part for batches.
#[repr(C)]
struct BatchAttr {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

const BPF_MAP_LOOKUP_BATCH: libc::c_int = 24;

fn lookup_batch(
    map: i32,
    position: Option<u64>,
    keys: &mut [u32],
    values: &mut [ProcessBytes],
) -> io::Result<Batch> {
    // The kernel's position in a hash is 32 bits wide; it writes no more.
    let from = position.unwrap_or(0);
    let mut next = 0u64;
    let room = keys.len().min(values.len());
    let mut attr = BatchAttr {
        in_batch: position.map_or(0, |_| (&raw const from).addr() as u64),
        out_batch: (&raw mut next).addr() as u64,
        keys: keys.as_mut_ptr().addr() as u64,
        values: values.as_mut_ptr().addr() as u64,
        count: u32::try_from(room).unwrap_or(u32::MAX),
        map_fd: map.unsigned_abs(),
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: the kernel reads `from`, and writes `next` and at most `count`
    // keys and values of the sizes that `Maps::new` checked; all of them outlive
    // the call. `attr` is as long as is said.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_MAP_LOOKUP_BATCH,
            &raw mut attr,
            size_of::<BatchAttr>(),
        )
    };
    let count = attr.count as usize;
    if answer == 0 {
        return Ok(Batch::Entries {
            count,
            next: Some(next),
        });
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // The end; what came before it is there.
        Some(libc::ENOENT) => Ok(Batch::Entries { count, next: None }),
        Some(libc::ENOSPC) => Ok(Batch::TooSmall),
        _ => Err(error),
    }
}

fn gone_is_fine(removed: Result<(), MapError>, map: &'static str) -> Result<(), SourceError> {
    match removed.map_err(io_error) {
        Err(source) if source.raw_os_error() != Some(libc::ENOENT) => Err(SourceError::Map {
            call: "delete from",
            map,
            source,
        }),
        _ => Ok(()),
    }
}

fn failed(call: &'static str, map: &'static str, error: MapError) -> SourceError {
    SourceError::Map {
        call,
        map,
        source: io_error(error),
    }
}

fn io_error(error: MapError) -> io::Error {
    match error {
        // aya's words for ENOENT.
        MapError::KeyNotFound | MapError::ElementNotFound => {
            io::Error::from_raw_os_error(libc::ENOENT)
        }
        error => system_call(&error).unwrap_or_else(|| io::Error::other(error)),
    }
}

/// The maps are not those of this probe.
#[derive(Debug, thiserror::Error)]
pub(super) enum MapsError {
    /// There is none of that name.
    #[error("there is no map {0}")]
    Missing(&'static str),
    /// It has another layout.
    #[error("the map {name} is not as this tracker knows it: {source}")]
    Wrong {
        /// Which one.
        name: &'static str,
        /// What is wrong with it.
        source: MapError,
    },
}
