//! Writing tags into a map that the kernel changes at the same time.

use tracker_ebpf::{CensusRow, PROCESS_SEEDED, Process};

use super::super::adopt;
use super::super::census::Rows;
use super::super::maps::Put;
use super::{ATTEMPTS, EbpfSource};
use crate::lineage::Tag;
use crate::process::ProcessId;
use crate::source::SourceError;

impl EbpfSource {
    /// Gives one process of the census the tag that `choose` makes of its old
    /// one. Answers whether that changed anything.
    pub(super) fn tag(
        &mut self,
        row: &CensusRow,
        choose: impl Fn(Option<Tag>) -> Option<Tag>,
    ) -> Result<bool, SourceError> {
        for _ in 0..ATTEMPTS {
            let put = match self.maps.process(row.pid)? {
                Some(entry) if entry.start_ns == row.start_ns => {
                    let Some(tag) = choose(Tag::from_kernel(entry.tag)) else {
                        return Ok(false);
                    };
                    let tag = Tag::to_kernel(Some(tag));
                    if tag == entry.tag {
                        return Ok(false);
                    }
                    let flags = entry.flags | row.flags;
                    let entry = Process {
                        tag,
                        flags,
                        ..entry
                    };
                    self.maps.set_process(row.pid, &entry)?
                }
                // The pid belongs to a later process: the census is outdated.
                Some(entry) if entry.start_ns > row.start_ns => return Ok(false),
                // To an earlier one, which the kernel has not let go of yet.
                Some(_) => {
                    self.maps.remove_process(row.pid)?;
                    Put::Changed
                }
                None => {
                    let Some(tag) = choose(None) else {
                        return Ok(false);
                    };
                    let entry = Process {
                        start_ns: row.start_ns,
                        tag: Tag::to_kernel(Some(tag)),
                        flags: PROCESS_SEEDED | row.flags,
                        ..Process::default()
                    };
                    self.maps.add_process(row.pid, &entry)?
                }
            };
            match put {
                Put::Done => return Ok(true),
                Put::Changed => {}
                Put::Full => {
                    let id = ProcessId::from_kernel(row.pid, row.start_ns);
                    return id.map_or(Ok(false), |id| Err(SourceError::Full(id)));
                }
            }
        }
        Ok(false)
    }

    /// Goes on until a look finds nobody to tag. Then nobody is left: whoever was
    /// created meanwhile has a creator that was tagged before.
    pub(super) fn tag_descendants(
        &mut self,
        root: &CensusRow,
        choose: impl Fn(Option<Tag>) -> Option<Tag>,
        tagged: &mut Vec<CensusRow>,
    ) -> Result<(), SourceError> {
        loop {
            let before = tagged.len();
            let rows = self.census()?;
            let entries = self.maps.processes()?.into_iter().collect();
            for row in adopt::tree(*root, &rows, &entries).iter().skip(1) {
                if self.tag(row, &choose)? {
                    tagged.push(*row);
                }
            }
            let rows = self.census()?;
            self.forget_the_gone(tagged, &rows)?;
            if tagged.len() == before {
                return Ok(());
            }
        }
    }

    /// Takes out entries of processes that went while they were tagged: the
    /// kernel may have let go of them before they were in.
    fn forget_the_gone(&mut self, tagged: &[CensusRow], rows: &Rows) -> Result<(), SourceError> {
        for row in tagged {
            let alive = rows
                .get(&row.pid)
                .is_some_and(|now| now.start_ns == row.start_ns);
            let entry = if alive {
                None
            } else {
                self.maps.process(row.pid)?
            };
            if entry.is_some_and(|entry| entry.start_ns == row.start_ns) {
                self.maps.remove_process(row.pid)?;
            }
        }
        Ok(())
    }
}
