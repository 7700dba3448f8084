//! Brings the probe into the kernel and starts it.

use std::path::PathBuf;

use aya::programs::links::FdLink;
use aya::programs::{BtfTracePoint, Iter, ProgramError, ProgramFd, ProgramType};
use aya::sys::is_program_supported;
use aya::{Btf, Ebpf, EbpfLoader, Endianness};

use super::error::{LoadError, log_tail, system_call};
use super::log::{self, Log};
use super::maps::{Maps, name};
use super::offsets::{Layout, PATH};
use crate::process::give_back;
use crate::source::host::{self, Lockdown};

/// The committed object of the probe.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/probe/tracker-probe.o"
));

/// The programs and their tracepoints, in the order in which they are attached:
/// whoever is put into the map by a fork has its end seen too. The kernel shows
/// the first 15 bytes of a name.
pub(super) const PROGRAMS: [(&str, &str); 4] = [
    ("tracker_free", "sched_process_free"),
    ("tracker_exit", "sched_process_exit"),
    ("tracker_exec", "sched_process_exec"),
    (FORK, "sched_process_fork"),
];

/// The one that must not be skipped.
pub(super) const FORK: &str = "tracker_fork";
/// The iterator.
pub(super) const CENSUS: &str = "tracker_census";

/// The one that is attached only while a condemned session goes on forking.
pub(super) const NEWBORN: &str = "tracker_newborn";

/// The most processes that the default capacity covers: 25 MB of kernel memory.
const MAX_CAPACITY: u32 = 1 << 18;
/// Where `/proc` does not tell how many pids there are: Linux' own default.
const DEFAULT_PID_MAX: u32 = 32768;
/// So many signals may interrupt the verifier before that is an error.
const INTERRUPTIONS: u32 = 100;

/// How the probe is to be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Record every process. Otherwise only members of sessions.
    pub track_all: bool,
    /// Size of the ring buffer, bytes; rounded up to a power of two. It counts
    /// twice in the resident memory of who reads it.
    pub ring_bytes: u32,
    /// How many processes fit in the map.
    pub capacity: u32,
}

impl LoadOptions {
    /// For one session: the map takes every pid there can be, up to 262,144.
    pub fn standalone() -> LoadOptions {
        LoadOptions {
            track_all: false,
            ring_bytes: 1 << 20,
            capacity: host::pid_max()
                .unwrap_or(DEFAULT_PID_MAX)
                .clamp(1024, MAX_CAPACITY),
        }
    }

    /// For the whole host. The ring buffer holds about a second of a machine
    /// that does nothing but spawn: 2 MiB a CPU, but 4 to 32 MiB.
    pub fn daemon() -> LoadOptions {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        LoadOptions {
            track_all: true,
            ring_bytes: u32::try_from(cpus).unwrap_or(16).clamp(2, 16) << 21,
            ..LoadOptions::standalone()
        }
    }

    pub(super) fn ring_bytes(&self) -> u32 {
        self.ring_bytes
            .max(4096)
            .checked_next_power_of_two()
            .unwrap_or(1 << 31)
    }
}

/// A probe that runs.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Its programs.
    pub(super) ebpf: Ebpf,
    /// What keeps each of them attached, by the program's name. They end with
    /// these values unless they are pinned.
    pub(super) links: Vec<(&'static str, FdLink)>,
    /// Its maps.
    pub(super) maps: Maps,
    /// What it says.
    pub(super) log: Log,
    /// The program at `sched_process_fork`.
    pub(super) fork: ProgramFd,
}

/// Loads and attaches the probe, on maps of its own, or on those that are pinned
/// or to be pinned at these paths.
pub(super) fn load(
    options: &LoadOptions,
    pinned: &[(&'static str, PathBuf)],
) -> Result<Loaded, LoadError> {
    if !host::in_host_pid_namespace().unwrap_or(true) {
        return Err(LoadError::NotHostPidNamespace);
    }
    let data = std::fs::read(PATH).map_err(LoadError::NoBtf)?;
    if let Some(error) = LoadError::missing_capabilities("bpf(2)") {
        return Err(error);
    }
    let layout = Layout::find(&data)?;
    drop(data);
    let mut ebpf = create_maps(options, pinned, &layout)?;
    let btf = Btf::parse(&layout.reduced, Endianness::default())
        .map_err(|error| LoadError::BadBtf(error.to_string()))?;
    let census: &mut Iter = program(&mut ebpf, CENSUS)?;
    verified(CENSUS, || census.load("task", &btf))?;
    for (name, tracepoint) in PROGRAMS {
        let program: &mut BtfTracePoint = program(&mut ebpf, name)?;
        verified(name, || program.load(tracepoint, &btf))?;
    }
    if layout.has_syscall_exit {
        let newborn: &mut BtfTracePoint = program(&mut ebpf, NEWBORN)?;
        verified(NEWBORN, || newborn.load("sys_exit", &btf))?;
    }
    let mut links = Vec::new();
    for (name, tracepoint) in PROGRAMS {
        let program: &mut BtfTracePoint = program(&mut ebpf, name)?;
        let link = program
            .attach()
            .and_then(|link| program.take_link(link))
            .map_err(|error| LoadError::of(format!("attaching to {tracepoint}"), &error))?;
        links.push((name, link.into()));
    }
    let fork: &mut BtfTracePoint = program(&mut ebpf, FORK)?;
    let fork = fork
        .fd()
        .and_then(|fd| Ok(fd.try_clone()?))
        .map_err(|error| LoadError::of(FORK, &error))?;
    let maps = Maps::new(|name| ebpf.take_map(name))?;
    let log = Log::of(&mut ebpf)?;
    // aya's loader parses all of the kernel's types, 20 MB of them, needed or not.
    drop((layout, btf));
    give_back();
    Ok(Loaded {
        ebpf,
        links,
        maps,
        log,
        fork,
    })
}

/// Attaches what kills the children of condemned forkers, until the answer is
/// dropped; nothing where the kernel lacks what it needs.
pub(super) fn attach_newborn(ebpf: &mut Ebpf) -> Result<Option<FdLink>, std::io::Error> {
    let failed =
        |error: ProgramError| system_call(&error).unwrap_or_else(|| std::io::Error::other(error));
    let program: Option<&mut BtfTracePoint> = ebpf
        .program_mut(NEWBORN)
        .and_then(|program| program.try_into().ok());
    let Some(program) = program.filter(|program| program.fd().is_ok()) else {
        return Ok(None);
    };
    let link = program.attach().map_err(failed)?;
    Ok(Some(program.take_link(link).map_err(failed)?.into()))
}

fn create_maps(
    options: &LoadOptions,
    pinned: &[(&'static str, PathBuf)],
    layout: &Layout,
) -> Result<Ebpf, LoadError> {
    let ring_bytes = options.ring_bytes();
    let track_all = u32::from(options.track_all);
    let group_dead = u32::from(layout.exit_has_group_dead);
    let wake_at = u64::from(ring_bytes / 2);
    // Again after each further 32nd of it.
    let wake_shift = (ring_bytes / 32).ilog2();
    let log_level = log::level();
    let mut loader = EbpfLoader::new();
    for (global, offset) in &layout.offsets {
        loader.override_global(global, offset, true);
    }
    for (map, path) in pinned {
        loader.map_pin_path(map, path.as_path());
    }
    loader
        // The probe asks for no relocations: nothing of this is looked up.
        .btf(None)
        .override_global(aya_log::LEVEL, &log_level, true)
        .override_global("TRACK_ALL", &track_all, true)
        .override_global("EXIT_HAS_GROUP_DEAD", &group_dead, true)
        .override_global("WAKE_AT", &wake_at, true)
        .override_global("WAKE_SHIFT", &wake_shift, true)
        .map_max_entries(name::PROCESSES, options.capacity.max(1))
        .map_max_entries(name::RING, ring_bytes)
        .load(OBJECT)
        .map_err(|error| {
            // aya leaves out what it finds the kernel not to support, and
            // stumbles over that: where no program at all can be loaded, over
            // the probe's globals.
            match LoadError::of("creating the probe's maps", &error) {
                LoadError::Object(_) if !can_load_programs() => LoadError::TooOld {
                    what: "loading a program that does nothing".to_owned(),
                    source: std::io::Error::from_raw_os_error(libc::EINVAL),
                },
                other => other,
            }
        })
}

/// Whether the kernel takes the simplest of all programs.
fn can_load_programs() -> bool {
    is_program_supported(ProgramType::SocketFilter).unwrap_or(false)
}

fn program<'a, P>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut P, LoadError>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    ebpf.program_mut(name)
        .ok_or_else(|| LoadError::Object(format!("there is no program {name}")))?
        .try_into()
        .map_err(|_| LoadError::Object(format!("{name} is of another kind")))
}

/// Has a program verified. A signal to this process interrupts that (EAGAIN).
fn verified(
    program: &'static str,
    mut load: impl FnMut() -> Result<(), ProgramError>,
) -> Result<(), LoadError> {
    let mut interrupted = 0;
    loop {
        match load() {
            Ok(()) => return Ok(()),
            Err(ProgramError::LoadError {
                io_error,
                verifier_log,
            }) => match io_error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) if interrupted < INTERRUPTIONS => interrupted += 1,
                // What reads kernel memory is not known to such a kernel.
                Some(libc::EINVAL | libc::EACCES)
                    if Lockdown::now() == Lockdown::Confidentiality =>
                {
                    return Err(LoadError::Lockdown);
                }
                Some(libc::EINVAL | libc::EACCES | libc::E2BIG) => {
                    return Err(LoadError::Verifier {
                        program,
                        log: log_tail(&verifier_log.to_string()),
                        source: io_error,
                    });
                }
                _ => return Err(LoadError::of(format!("loading {program}"), &io_error)),
            },
            Err(error) => return Err(LoadError::of(format!("loading {program}"), &error)),
        }
    }
}
