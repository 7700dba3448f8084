//! The probe kept in bpffs, so that it goes on while no daemon runs.
//!
//! Below the folder that is asked for lies one for this layout of the maps
//! (`v1`), with a file for each map, and one for the link of each program. The
//! maps are what matters: a daemon that finds them loads its own programs onto
//! them, attaches these, and only then lets go of the former ones. Nothing is
//! missed in between, and what runs is always what this tracker was built with.

mod folder;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use aya::maps::{MapInfo, MapType};
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::loaded_programs;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tracker_ebpf::{ABI, Losses, MAX_SESSIONS, MAX_SHIELDED, Process, counter};

use super::counters;
use super::error::system_call;
use super::load::{FORK, LoadOptions, PROGRAMS};
use super::maps::name;
use folder::{entries, make_private, mount_bpffs_for, remove};

/// Ends the name of a link on its way into its place. bpffs allows no dots.
const NEW: &str = "_new";

/// How a map has to be.
struct Definition {
    name: &'static str,
    kind: MapType,
    key_size: usize,
    value_size: usize,
    /// `None` for those whose size the user chooses.
    max_entries: Option<u32>,
}

const fn map(
    name: &'static str,
    kind: MapType,
    key_size: usize,
    value_size: usize,
    max_entries: Option<u32>,
) -> Definition {
    Definition {
        name,
        kind,
        key_size,
        value_size,
        max_entries,
    }
}

const MAPS: [Definition; 7] = [
    map(
        name::PROCESSES,
        MapType::Hash,
        4,
        size_of::<Process>(),
        None,
    ),
    map(name::RING, MapType::RingBuf, 0, 0, None),
    map(
        name::COUNTERS,
        MapType::PerCpuArray,
        4,
        8,
        Some(counter::COUNT),
    ),
    map(
        name::LOSSES,
        MapType::Hash,
        8,
        size_of::<Losses>(),
        Some(MAX_SESSIONS),
    ),
    map(name::CONDEMNED, MapType::Hash, 8, 8, Some(MAX_SESSIONS)),
    map(name::SHIELDED, MapType::Hash, 4, 8, Some(MAX_SHIELDED)),
    map(name::EAGER, MapType::Array, 4, 4, Some(1)),
];

/// The pins of one daemon, which holds them locked.
#[derive(Debug)]
pub(super) struct Pins {
    dir: PathBuf,
    /// The folder itself. The kernel gives the lock back when the process ends.
    _lock: OwnedFd,
}

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing.
    Fresh,
    /// Everything.
    Complete,
    /// Something: a daemon ended while it made them.
    Partial,
}

impl Pins {
    /// Locks the folder of this layout below `dir`, which is made if need be.
    pub(super) fn lock(dir: &Path) -> Result<Pins, PinsError> {
        mount_bpffs_for(dir)?;
        make_private(dir)?;
        let dir = dir.join(format!("v{ABI}"));
        loop {
            make_private(&dir)?;
            if let Some(pins) = Pins::lock_existing(&dir)? {
                return Ok(pins);
            }
        }
    }

    /// `None` when the folder went while it was locked.
    fn lock_existing(dir: &Path) -> Result<Option<Pins>, PinsError> {
        let failed = |call, errno: Errno| PinsError::Io {
            call,
            path: dir.to_owned(),
            source: errno.into(),
        };
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let lock = match rustix::fs::open(dir, flags, Mode::empty()) {
            Ok(lock) => lock,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed("open", errno)),
        };
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(PinsError::InUse(dir.to_owned())),
            Err(errno) => return Err(failed("lock", errno)),
        }
        // Whoever had it locked may have removed it.
        let locked = rustix::fs::fstat(&lock).map_err(|errno| failed("stat", errno))?;
        let same = fs::metadata(dir).is_ok_and(|now| now.ino() == locked.st_ino);
        Ok(same.then(|| Pins {
            dir: dir.to_owned(),
            _lock: lock,
        }))
    }

    /// Looks at what is there. A map of another definition is an error.
    pub(super) fn find(&self) -> Result<Found, PinsError> {
        let names = MAPS.iter().map(|map| map.name);
        let names = names.chain(PROGRAMS.map(|(program, _)| program));
        let there = names.clone().filter(|name| self.path(name).exists());
        match there.count() {
            0 => Ok(Found::Fresh),
            count if count == names.count() => {
                for map in MAPS {
                    self.check(&map)?;
                }
                Ok(Found::Complete)
            }
            _ => Ok(Found::Partial),
        }
    }

    /// `wanted`, but with the sizes that the pinned maps have.
    pub(super) fn options(&self, wanted: LoadOptions) -> Result<LoadOptions, PinsError> {
        Ok(LoadOptions {
            capacity: self.info(name::PROCESSES)?.max_entries(),
            ring_bytes: self.info(name::RING)?.max_entries(),
            ..wanted
        })
    }

    /// Where each map is to be pinned.
    pub(super) fn maps(&self) -> Vec<(&'static str, PathBuf)> {
        MAPS.map(|map| (map.name, self.path(map.name))).to_vec()
    }

    /// How often the kernel skipped the program at forks that is pinned.
    pub(super) fn skipped(&self) -> u64 {
        let skipped = || {
            let link: FdLink = PinnedLink::from_pin(self.path(FORK)).ok()?.into();
            let id = link.info().ok()?.program_id();
            let program = loaded_programs()
                .filter_map(Result::ok)
                .find(|program| program.id() == id)?;
            counters::misses(&program.fd().ok()?).ok()
        };
        skipped().unwrap_or(0)
    }

    /// Pins the links of programs that run. Each takes the place of a former
    /// one in a single step, which then ends.
    pub(super) fn put_links(&self, links: Vec<(&'static str, FdLink)>) -> Result<(), PinsError> {
        for (program, link) in links {
            let new = self.path(&format!("{program}{NEW}"));
            remove(&new)?;
            let failed = |error| pin_error(&new, error);
            link.pin(&new).map_err(failed)?;
            let path = self.path(program);
            fs::rename(&new, &path).map_err(|source| PinsError::Io {
                call: "rename",
                path: new.clone(),
                source,
            })?;
        }
        Ok(())
    }

    /// Takes everything out: the links first, so that nothing writes any more.
    pub(super) fn clear(&self) -> Result<(), PinsError> {
        clear(&self.dir)
    }

    /// Removes the folders of other layouts, unless a daemon has them. Their
    /// programs would run beside these for ever.
    pub(super) fn clear_others(&self) -> Result<(), PinsError> {
        let Some(parent) = self.dir.parent() else {
            return Ok(());
        };
        for entry in entries(parent)? {
            let is_version = entry
                .file_name()
                .and_then(|name| name.to_str()?.strip_prefix('v'))
                .is_some_and(|digits| digits.parse::<u32>().is_ok());
            if !is_version || entry == self.dir {
                continue;
            }
            match Pins::lock_existing(&entry) {
                Ok(Some(other)) => other.remove()?,
                Ok(None) | Err(PinsError::InUse(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes everything out, and the folder too.
    pub(super) fn remove(self) -> Result<(), PinsError> {
        self.clear()?;
        fs::remove_dir(&self.dir).map_err(|source| PinsError::Io {
            call: "remove",
            path: self.dir.clone(),
            source,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn info(&self, map: &str) -> Result<MapInfo, PinsError> {
        let path = self.path(map);
        MapInfo::from_pin(&path).map_err(|error| pin_error(&path, error))
    }

    fn check(&self, wanted: &Definition) -> Result<(), PinsError> {
        let info = self.info(wanted.name)?;
        let kind = info
            .map_type()
            .map_err(|error| pin_error(&self.path(wanted.name), error))?;
        let as_wanted = kind == wanted.kind
            && info.key_size() as usize == wanted.key_size
            && info.value_size() as usize == wanted.value_size
            && wanted
                .max_entries
                .is_none_or(|max| info.max_entries() == max);
        if as_wanted {
            return Ok(());
        }
        Err(PinsError::Foreign {
            path: self.path(wanted.name),
            dir: self.dir.clone(),
        })
    }
}

/// Ends a probe that was left in bpffs below `dir`. Answers whether there was one.
pub fn unpin(dir: &Path) -> Result<bool, PinsError> {
    match Pins::lock_existing(&dir.join(format!("v{ABI}")))? {
        Some(pins) => {
            let there = pins.find().map_or(true, |found| found != Found::Fresh);
            pins.remove()?;
            Ok(there)
        }
        None => Ok(false),
    }
}

fn clear(dir: &Path) -> Result<(), PinsError> {
    let is_map = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        MAPS.iter().any(|map| Some(map.name) == name)
    };
    let (maps, links): (Vec<_>, Vec<_>) = entries(dir)?.into_iter().partition(is_map);
    links.iter().chain(&maps).try_for_each(|path| remove(path))
}

fn pin_error(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> PinsError {
    PinsError::Io {
        call: "use the pin",
        path: path.to_owned(),
        source: system_call(&error).unwrap_or_else(|| io::Error::other(error)),
    }
}

/// The probe cannot be kept in bpffs.
#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    /// Another daemon has it.
    #[error("another tracker uses the probe in {}: stop it first", .0.display())]
    InUse(PathBuf),
    /// The folder lies in another file system.
    #[error("{} is not on a bpffs: mount -t bpf bpf /sys/fs/bpf", .0.display())]
    NotBpffs(PathBuf),
    /// The folder could have been filled by somebody else.
    #[error("{} belongs to another user or is writable by others: remove it", .0.display())]
    NotPrivate(PathBuf),
    /// A map is there that this tracker would not have made.
    #[error("{} is not a map of this tracker: remove {}", path.display(), dir.display())]
    Foreign {
        /// The map.
        path: PathBuf,
        /// Where it lies.
        dir: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {call} {}: {source}", path.display())]
    Io {
        /// What was tried.
        call: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}
