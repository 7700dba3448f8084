//! Looking at the target, and taking in whom the look found.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::book::Standing;
use super::engine::{DESCRIBED, Engine, Findings};
use super::report::SpareReason;
use super::target::{Candidate, Spared, Survey};
use crate::process::{Opened, Pid, PidFd, PidFdError, ProcessId, Signal};

/// When the target was looked at, and when to look again.
#[derive(Debug)]
pub(super) struct Looks {
    /// How many succeeded.
    pub(super) done: u32,
    /// How many failed since.
    pub(super) failed: u32,
    /// How many in a row found somebody new.
    pub(super) restless: u32,
    /// The end of the last one.
    pub(super) last: Instant,
    /// How long it took.
    pub(super) cost: Duration,
    /// There is news.
    pub(super) wanted: bool,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Nobody whom the book did not know.
    Quiet,
    /// Somebody, dead or alive.
    Found,
    /// It failed.
    Failed,
}

impl Looks {
    pub(super) fn none() -> Looks {
        Looks {
            done: 0,
            failed: 0,
            restless: 0,
            last: Instant::now(),
            cost: Duration::ZERO,
            wanted: true,
        }
    }
}

impl Engine<'_> {
    /// Looks once. Who is found alive and new is to be signalled next.
    pub(super) fn look(&mut self) -> Look {
        self.looks.wanted = false;
        let begun = Instant::now();
        let survey = self.survey();
        let look = match survey {
            Ok(survey) => self.take_in(survey),
            Err(failure) => {
                self.findings.failure = Some(failure);
                self.looks.failed += 1;
                Look::Failed
            }
        };
        self.looks.last = Instant::now();
        self.looks.cost = begun.elapsed();
        look
    }

    fn survey(&mut self) -> Result<Survey, String> {
        let refreshed = match self.protected.refresh(self.proc) {
            Err(error) if error.is_out_of_descriptors() && self.watch.shed() => {
                self.protected.refresh(self.proc)
            }
            answer => answer,
        };
        refreshed.map_err(|error| format!("cannot tell who is protected: {error}"))?;
        let survey = match self.target.survey() {
            Err(error) if error.is_out_of_descriptors() && self.watch.shed() => {
                self.target.survey()
            }
            answer => answer,
        };
        survey.map_err(|error| format!("cannot look at the target: {error}"))
    }

    fn take_in(&mut self, survey: Survey) -> Look {
        let first = self.looks.done == 0;
        self.looks.done = self.looks.done.saturating_add(1);
        self.looks.failed = 0;
        self.findings.failure = None;
        self.findings.gaps = survey.gaps;
        self.findings.notes = survey.notes;
        let left_alone: HashSet<_> = survey.spared.iter().map(|spared| spared.id).collect();
        for spared in survey.spared {
            self.findings.book.add_spared(spared);
        }
        let mut look = Look::Quiet;
        let mut came = Vec::new();
        for candidate in survey.candidates {
            if left_alone.contains(&candidate.id) {
                continue;
            }
            if let Some(detail) = self.protected.check(candidate.id) {
                let spared = protected(candidate, detail);
                self.findings.book.add_spared(spared);
                continue;
            }
            match self.findings.book.standing(candidate.id, self.signal) {
                Standing::New => {
                    look = Look::Found;
                    let creator = candidate.creator;
                    let Some(at) = self.admit(candidate, !first) else {
                        continue;
                    };
                    came.push(at);
                    match creator.filter(|creator| self.is_helper_of(*creator)) {
                        Some(creator) => self.helpers.push((at, creator)),
                        None => self.todo.push(at),
                    }
                }
                Standing::Alive | Standing::Settled => {}
            }
        }
        self.describe(&came);
        self.looks.restless = match look {
            Look::Found => self.looks.restless.saturating_add(1),
            Look::Quiet | Look::Failed => 0,
        };
        look
    }

    /// Whether whoever `creator` creates now may be what its handler for
    /// SIGTERM needs.
    fn is_helper_of(&self, creator: ProcessId) -> bool {
        self.signal == Some(Signal::Term) && self.findings.book.is_ending(creator)
    }

    /// Takes in somebody new; answers its number if it is alive.
    fn admit(&mut self, candidate: Candidate, forked: bool) -> Option<usize> {
        let opened = self.open(candidate.id.pid);
        // The descriptor means the candidate, or whoever got its pid since. In
        // both cases the candidate is dead if that one is.
        let dead = match &opened {
            Ok(Opened::Gone) => true,
            Ok(Opened::Live(fd)) => fd.is_dead(),
            Err(_) => false,
        };
        if dead {
            self.findings.book.add_ghost(candidate.id);
            return None;
        }
        let at = self.findings.book.add(candidate, forked);
        match opened {
            Ok(Opened::Live(fd)) => self.watch.hold(at, fd),
            Ok(Opened::Gone) | Err(_) => self.watch.enqueue(at),
        }
        Some(at)
    }

    /// `pidfd_open`, with room made for the descriptor if there is none.
    pub(super) fn open(&mut self, pid: Pid) -> Result<Opened, PidFdError> {
        match PidFd::open(pid) {
            Err(error) if error.is_out_of_descriptors() && self.watch.shed() => PidFd::open(pid),
            answer => answer,
        }
    }

    /// Describes the first of all who come, while they can be looked at.
    fn describe(&mut self, came: &[usize]) {
        let Findings {
            book, describer, ..
        } = &mut self.findings;
        for at in came.iter().filter(|at| **at < DESCRIBED) {
            let Some(known) = book.get_mut(*at) else {
                continue;
            };
            let description = self.target.describe(known.id);
            known.description = description.or_else(|| describer.read(self.proc, known.id));
        }
    }
}

fn protected(candidate: Candidate, detail: &str) -> Spared {
    Spared {
        id: candidate.id,
        start_ns: candidate.start_ns,
        evidence: candidate.evidence,
        reason: SpareReason::Protected,
        detail: detail.to_owned(),
    }
}
