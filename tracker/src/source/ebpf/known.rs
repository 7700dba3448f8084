//! What is remembered that the kernel's maps do not say. Pure data.

use crate::process::now_boot_ns;
use crate::source::Gap;

/// What the kernel does not know of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// How often the probe had been skipped when it began.
    skipped: u64,
    noted: Vec<Gap>,
}

impl Known {
    /// Of a session that begins now.
    pub(super) fn new(skipped: u64) -> Known {
        Known {
            skipped,
            noted: Vec::new(),
        }
    }

    /// Remembers a gap.
    pub(super) fn note(&mut self, gap: Gap) {
        if !self.noted.contains(&gap) {
            self.noted.push(gap);
        }
    }

    /// Its beginning was not late after all.
    pub(super) fn vouch(&mut self) {
        self.noted.retain(|gap| *gap != Gap::AdoptedLate);
    }

    /// All gaps, given how many members were lost, and how often the probe has
    /// been skipped by now.
    pub(super) fn gaps(&self, members: u64, skipped: u64) -> Vec<Gap> {
        let mut gaps = self.noted.clone();
        if members > 0 {
            gaps.push(Gap::MembersLost(members));
        }
        let skipped = skipped.saturating_sub(self.skipped);
        if skipped > 0 {
            gaps.push(Gap::ProbeSkipped(skipped));
        }
        gaps
    }
}

/// Since when no record was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded {
    /// `CLOCK_BOOTTIME`, nanoseconds.
    pub(super) since_ns: u64,
    lost: u64,
}

impl Recorded {
    /// From now on, when so many had been lost before.
    pub(super) fn new(lost: u64) -> Recorded {
        Recorded {
            since_ns: now_boot_ns(),
            lost,
        }
    }

    /// When more have been lost, the record begins anew.
    pub(super) fn update(&mut self, lost: u64) {
        if lost != self.lost {
            *self = Recorded::new(lost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_was_vouched_for_has_no_gap() {
        let mut known = Known::new(3);
        known.note(Gap::AdoptedLate);
        known.note(Gap::AdoptedLate);
        assert_eq!(known.gaps(0, 3), [Gap::AdoptedLate]);
        known.vouch();
        assert_eq!(known.gaps(0, 3), []);
    }

    #[test]
    fn what_was_lost_is_a_gap_and_what_was_skipped_before_is_not() {
        let known = Known::new(3);
        assert_eq!(
            known.gaps(2, 4),
            [Gap::MembersLost(2), Gap::ProbeSkipped(1)]
        );
    }

    #[test]
    fn a_loss_begins_the_record_anew() {
        let mut recorded = Recorded::new(1);
        let since = recorded.since_ns;
        recorded.update(1);
        assert_eq!(recorded.since_ns, since);
        recorded.update(2);
        assert!(recorded.since_ns > since);
    }
}
