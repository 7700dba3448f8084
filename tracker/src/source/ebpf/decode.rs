//! Bytes that the probe wrote, into events. Every length is checked, so that
//! even a ring buffer full of garbage makes no panic and no wrong read.

use std::mem::offset_of;

use tracker_ebpf::{
    ARGV_LEN, CensusRow, EXEC_ARGV_TRUNCATED, EXEC_ARGV_UNREADABLE, EXEC_FILENAME_TRUNCATED,
    ExecRecord, ExitRecord, FILENAME_LEN, ForkRecord, Header, Losses, Process, kind,
};

use crate::lineage::{Event, Exec, Exit, Fork, Tag, WaitStatus};
use crate::process::ProcessId;

/// A value of the `PROCESSES` map.
pub(super) type ProcessBytes = [u8; size_of::<Process>()];
/// A value of the `LOSSES` map.
pub(super) type LossesBytes = [u8; size_of::<Losses>()];
/// A row of the census.
pub(super) type RowBytes = [u8; size_of::<CensusRow>()];

/// One record of the ring buffer; `None` when it is not what the probe writes.
pub(super) fn event(bytes: &[u8]) -> Option<Event> {
    let record = Fields(bytes);
    match record.u32(offset_of!(Header, kind))? {
        kind::FORK => fork(record),
        kind::EXEC => exec(record),
        kind::EXIT => exit(record),
        _ => None,
    }
}

fn fork(record: Fields<'_>) -> Option<Event> {
    let creator = ProcessId::from_kernel(
        record.u32(offset_of!(ForkRecord, creator_pid))?,
        record.u64(offset_of!(ForkRecord, creator_start_ns))?,
    )?;
    Some(Event::Fork(Fork {
        child: record.id()?,
        creator,
        tag: Tag::from_kernel(record.tag()?),
        time_ns: record.time_ns()?,
        comm: record.comm(offset_of!(ForkRecord, comm))?,
        uid: record.u32(offset_of!(ForkRecord, uid))?,
        cgroup_id: record.u64(offset_of!(ForkRecord, cgroup_id))?,
    }))
}

fn exec(record: Fields<'_>) -> Option<Event> {
    let flags = record.u32(offset_of!(ExecRecord, flags))?;
    let length = |at| Some(record.u32(at)? as usize);
    let filename_len = length(offset_of!(ExecRecord, filename_len))?;
    let argv_len = length(offset_of!(ExecRecord, argv_len))?;
    if filename_len > FILENAME_LEN || argv_len > ARGV_LEN {
        return None;
    }
    let (exe, rest) = record
        .0
        .get(size_of::<ExecRecord>()..)?
        .split_at_checked(filename_len)?;
    let argv = rest.get(..argv_len)?;
    let cut = EXEC_FILENAME_TRUNCATED | EXEC_ARGV_TRUNCATED | EXEC_ARGV_UNREADABLE;
    Some(Event::Exec(Exec {
        id: record.id()?,
        tag: Tag::from_kernel(record.tag()?),
        time_ns: record.time_ns()?,
        comm: record.comm(offset_of!(ExecRecord, comm))?,
        exe: exe.to_vec(),
        argv: arguments(argv),
        truncated: flags & cut != 0,
        uid: record.u32(offset_of!(ExecRecord, uid))?,
        cgroup_id: record.u64(offset_of!(ExecRecord, cgroup_id))?,
    }))
}

fn exit(record: Fields<'_>) -> Option<Event> {
    Some(Event::Exit(Exit {
        id: record.id()?,
        tag: Tag::from_kernel(record.tag()?),
        time_ns: record.time_ns()?,
        status: WaitStatus(record.u32(offset_of!(ExitRecord, code))?),
    }))
}

/// Each ends with NUL, but for the last one when it was cut.
fn arguments(text: &[u8]) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// A value of the `PROCESSES` map.
pub(super) fn process(bytes: &ProcessBytes) -> Option<Process> {
    let value = Fields(bytes);
    Some(Process {
        start_ns: value.u64(offset_of!(Process, start_ns))?,
        creator_start_ns: value.u64(offset_of!(Process, creator_start_ns))?,
        tag: value.u64(offset_of!(Process, tag))?,
        creator_pid: value.u32(offset_of!(Process, creator_pid))?,
        flags: value.u32(offset_of!(Process, flags))?,
    })
}

/// The inverse of [`process`].
pub(super) fn process_bytes(process: &Process) -> ProcessBytes {
    let mut bytes = [0; size_of::<Process>()];
    let mut put = |at: usize, field: &[u8]| {
        for (to, from) in bytes.iter_mut().skip(at).zip(field) {
            *to = *from;
        }
    };
    put(
        offset_of!(Process, start_ns),
        &process.start_ns.to_ne_bytes(),
    );
    put(
        offset_of!(Process, creator_start_ns),
        &process.creator_start_ns.to_ne_bytes(),
    );
    put(offset_of!(Process, tag), &process.tag.to_ne_bytes());
    put(
        offset_of!(Process, creator_pid),
        &process.creator_pid.to_ne_bytes(),
    );
    put(offset_of!(Process, flags), &process.flags.to_ne_bytes());
    bytes
}

/// A value of the `LOSSES` map.
pub(super) fn losses(bytes: &LossesBytes) -> Option<Losses> {
    let value = Fields(bytes);
    Some(Losses {
        records: value.u64(offset_of!(Losses, records))?,
        members: value.u64(offset_of!(Losses, members))?,
    })
}

/// A row of the census.
pub(super) fn row(bytes: &RowBytes) -> Option<CensusRow> {
    let value = Fields(bytes);
    Some(CensusRow {
        start_ns: value.u64(offset_of!(CensusRow, start_ns))?,
        parent_start_ns: value.u64(offset_of!(CensusRow, parent_start_ns))?,
        pid: value.u32(offset_of!(CensusRow, pid))?,
        parent_pid: value.u32(offset_of!(CensusRow, parent_pid))?,
        flags: value.u32(offset_of!(CensusRow, flags))?,
        reserved: 0,
    })
}

/// Fields by their offsets.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u64(self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn id(self) -> Option<ProcessId> {
        ProcessId::from_kernel(
            self.u32(offset_of!(Header, pid))?,
            self.u64(offset_of!(Header, start_ns))?,
        )
    }

    fn tag(self) -> Option<u64> {
        self.u64(offset_of!(Header, tag))
    }

    fn time_ns(self) -> Option<u64> {
        self.u64(offset_of!(Header, time_ns))
    }

    fn comm(self, at: usize) -> Option<Vec<u8>> {
        let field: &[u8; tracker_ebpf::COMM_LEN] = self.0.get(at..)?.first_chunk()?;
        Some(field.split(|byte| *byte == 0).next()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::SessionId;
    use proptest::prelude::*;

    fn header(kind: u32) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&7u32.to_ne_bytes());
        bytes.extend_from_slice(&20_000_000u64.to_ne_bytes());
        bytes.extend_from_slice(&(5 | tracker_ebpf::TAG_EXEMPT).to_ne_bytes());
        bytes.extend_from_slice(&99u64.to_ne_bytes());
        bytes
    }

    fn exec_record(exe: &[u8], argv: &[u8]) -> Vec<u8> {
        let mut bytes = header(kind::EXEC);
        bytes.extend_from_slice(&3u64.to_ne_bytes());
        bytes.extend_from_slice(&1000u32.to_ne_bytes());
        bytes.extend_from_slice(&EXEC_ARGV_TRUNCATED.to_ne_bytes());
        bytes.extend_from_slice(b"name\0\0\0\0\0\0\0\0\0\0\0\0");
        for part in [exe, argv] {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap().to_ne_bytes());
        }
        bytes.extend_from_slice(exe);
        bytes.extend_from_slice(argv);
        bytes
    }

    #[test]
    fn an_exec_has_its_text_after_the_fixed_part() {
        let Some(Event::Exec(exec)) = event(&exec_record(b"/bin/x", b"x\0\0y")) else {
            panic!("no exec");
        };
        assert_eq!(exec.id.to_string(), "7@2");
        assert_eq!(
            exec.tag,
            Some(Tag {
                session: SessionId::new(5).unwrap(),
                exempt: true
            })
        );
        assert_eq!(
            (exec.comm, exec.exe),
            (b"name".to_vec(), b"/bin/x".to_vec())
        );
        assert_eq!(exec.argv, [b"x".to_vec(), vec![], b"y".to_vec()]);
        assert!(exec.truncated);
        assert_eq!((exec.uid, exec.cgroup_id, exec.time_ns), (1000, 3, 99));
    }

    #[test]
    fn a_record_that_is_cut_anywhere_is_none() {
        let record = exec_record(b"/bin/x", b"x\0");
        for end in 0..record.len() {
            assert_eq!(event(&record[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_pid_that_no_process_has_is_none() {
        let mut record = header(kind::EXIT);
        record.extend_from_slice(&[0; 8]);
        assert!(event(&record).is_some());
        record[4..8].copy_from_slice(&0u32.to_ne_bytes());
        assert_eq!(event(&record), None);
        record[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(event(&record), None);
    }

    #[test]
    fn a_map_value_reads_back_as_it_was_written() {
        let value = Process {
            start_ns: 1,
            creator_start_ns: 2,
            tag: 3,
            creator_pid: 4,
            flags: 5,
        };
        assert_eq!(process(&process_bytes(&value)), Some(value));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(kind in 0u32..5, rest in proptest::collection::vec(any::<u8>(), 0..1500)) {
            let mut bytes = kind.to_ne_bytes().to_vec();
            bytes.extend_from_slice(&rest);
            let _ = event(&bytes);
            let _ = event(&rest);
        }

        #[test]
        fn no_lengths_make_it_read_beyond(filename in any::<u32>(), argv in any::<u32>()) {
            let mut bytes = exec_record(b"/bin/x", b"x\0");
            let at = offset_of!(ExecRecord, filename_len);
            bytes[at..at + 4].copy_from_slice(&filename.to_ne_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&argv.to_ne_bytes());
            let _ = event(&bytes);
        }
    }
}
