//! Who belongs to the tree of a process that was there before its session, and
//! what each of them gets. Pure data; [`super::EbpfSource`] applies it.

use std::collections::{HashMap, HashSet};

use tracker_ebpf::{CensusRow, Process};

use super::census::Rows;
use crate::lineage::{SessionId, Tag};

/// A process to the nanosecond.
type Exact = (u32, u64);

/// The process `root` and everybody who descends from it, by the parent links
/// of the kernel and by who created whom, where that was recorded. Parents come
/// before their children.
pub(super) fn tree(
    root: CensusRow,
    rows: &Rows,
    entries: &HashMap<u32, Process>,
) -> Vec<CensusRow> {
    let mut children: HashMap<Exact, Vec<u32>> = HashMap::new();
    for row in rows.values() {
        let parent = (row.parent_pid, row.parent_start_ns);
        children.entry(parent).or_default().push(row.pid);
        if let Some(entry) = entries.get(&row.pid)
            && entry.start_ns == row.start_ns
            && entry.creator_pid != 0
        {
            let creator = (entry.creator_pid, entry.creator_start_ns);
            if creator != parent {
                children.entry(creator).or_default().push(row.pid);
            }
        }
    }
    let mut found = vec![root];
    let mut seen = HashSet::from([root.pid]);
    let mut next = 0;
    while let Some(row) = found.get(next) {
        next += 1;
        for child in children.get(&(row.pid, row.start_ns)).into_iter().flatten() {
            if seen.insert(*child) {
                found.extend(rows.get(child));
            }
        }
    }
    found
}

/// What a descendant with tag `old` gets when `new` is given to its tree;
/// `None` when it keeps what it has. The innermost session owns, so only that of
/// `instead_of` gives way. Who is kept stays so.
pub(super) fn inherit(old: Option<Tag>, new: Tag, instead_of: Option<SessionId>) -> Option<Tag> {
    match old {
        None => Some(new),
        Some(old) if old.session == new.session => {
            let exempt = old.exempt || new.exempt;
            (exempt != old.exempt).then_some(Tag { exempt, ..new })
        }
        Some(old) if Some(old.session) == instead_of => {
            let exempt = old.exempt || new.exempt;
            Some(Tag { exempt, ..new })
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: u32, parent_pid: u32) -> CensusRow {
        CensusRow {
            start_ns: u64::from(pid) * 10,
            parent_start_ns: u64::from(parent_pid) * 10,
            pid,
            parent_pid,
            ..CensusRow::default()
        }
    }

    fn rows(rows: &[CensusRow]) -> Rows {
        rows.iter().map(|row| (row.pid, *row)).collect()
    }

    fn pids(found: &[CensusRow]) -> Vec<u32> {
        let mut pids: Vec<_> = found.iter().map(|row| row.pid).collect();
        pids.sort_unstable();
        pids
    }

    #[test]
    fn a_tree_has_children_and_who_was_created_and_reparented() {
        // 5 was created by 3, whose parent is 2, and has been reparented to 1.
        let rows = rows(&[row(2, 1), row(3, 2), row(4, 1), row(5, 1)]);
        let created = Process {
            start_ns: 50,
            creator_pid: 3,
            creator_start_ns: 30,
            ..Process::default()
        };
        let found = tree(row(2, 1), &rows, &HashMap::from([(5, created)]));
        assert_eq!(pids(&found), [2, 3, 5]);
    }

    #[test]
    fn a_parent_of_another_time_is_no_parent() {
        let mut child = row(3, 2);
        child.parent_start_ns += 1;
        let found = tree(row(2, 1), &rows(&[row(2, 1), child]), &HashMap::new());
        assert_eq!(pids(&found), [2]);
    }

    #[test]
    fn links_in_a_ring_end() {
        let rows = rows(&[row(2, 3), row(3, 2)]);
        assert_eq!(pids(&tree(row(2, 3), &rows, &HashMap::new())), [2, 3]);
    }

    #[test]
    fn the_innermost_session_owns_and_the_kept_stay_kept() {
        let outer = SessionId::new(1).unwrap();
        let inner = SessionId::new(2).unwrap();
        let kept = Tag {
            session: outer,
            exempt: true,
        };
        let new = Tag::member(outer);
        assert_eq!(inherit(None, new, None), Some(new));
        assert_eq!(inherit(Some(Tag::member(inner)), new, None), None);
        assert_eq!(
            inherit(Some(Tag::member(inner)), new, Some(inner)),
            Some(new)
        );
        assert_eq!(inherit(Some(kept), new, None), None);
        let taken_over = Some(Tag {
            exempt: true,
            ..Tag::member(inner)
        });
        assert_eq!(
            inherit(Some(kept), Tag::member(inner), Some(outer)),
            taken_over
        );
        assert_eq!(inherit(Some(new), kept, None), Some(kept));
    }
}
