//! What is known of each process during one reap.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::describe::Description;
use super::report::{Evidence, SpareReason};
use super::target::{Candidate, Spared};
use crate::process::{ProcessId, Seen, Signal};

/// Everybody that the looks of one reap have found.
#[derive(Debug, Default)]
pub(super) struct Book {
    places: HashMap<ProcessId, Place>,
    known: Vec<Known>,
    spared: BTreeMap<ProcessId, Spared>,
    alive: usize,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// Found when it was dead already. There is nothing to report of it, and a
    /// hopper leaves many thousands of them.
    Ghost,
    Known(usize),
}

/// A process that was found alive.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) id: ProcessId,
    pub(super) start_ns: Option<u64>,
    pub(super) evidence: Vec<Evidence>,
    /// It was not there at the first look.
    pub(super) forked: bool,
    pub(super) life: Life,
    /// What it was sent.
    pub(super) sent: Vec<Signal>,
    /// Its name when it was signalled.
    pub(super) comm: Vec<u8>,
    /// What was read of it before it was signalled.
    pub(super) description: Option<Description>,
    /// What went wrong with it.
    pub(super) trouble: Option<String>,
    /// What was read of it at the end, if it was alive.
    pub(super) last: Option<Seen>,
}

impl Known {
    /// Whether it belongs into the list of those who were to be ended. The
    /// others are listed as spared.
    pub(super) fn is_listed(&self) -> bool {
        matches!(self.life, Life::Alive | Life::Dead)
    }
}

/// Whether a process is to be ended still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// It is.
    Alive,
    /// No thread of it is left.
    Dead,
    /// The target withdrew it when this signal was to be sent; by a look when `None`.
    Withdrawn(Option<Signal>),
    /// The kernel does not let us.
    Denied,
}

/// What a candidate of a look is to the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not heard of before.
    New,
    /// To be ended, found earlier.
    Alive,
    /// Nothing is to be done about it.
    Settled,
}

impl Book {
    /// What the book knows of a candidate, at the time when `signal` is sent to
    /// everybody. Who was withdrawn before an earlier signal, and is a
    /// candidate again, is taken back.
    pub(super) fn standing(&mut self, id: ProcessId, signal: Option<Signal>) -> Standing {
        let at = match self.places.get(&id) {
            None => return Standing::New,
            Some(Place::Ghost) => return Standing::Settled,
            Some(Place::Known(at)) => *at,
        };
        match self.known.get_mut(at) {
            Some(known) => match known.life {
                Life::Alive => Standing::Alive,
                Life::Withdrawn(at_signal) if at_signal != signal => {
                    known.life = Life::Alive;
                    self.alive += 1;
                    self.spared.remove(&id);
                    Standing::New
                }
                _ => Standing::Settled,
            },
            None => Standing::Settled,
        }
    }

    /// Whether `id` is alive and has been signalled.
    pub(super) fn is_ending(&self, id: ProcessId) -> bool {
        let Some(Place::Known(at)) = self.places.get(&id) else {
            return false;
        };
        let known = self.known.get(*at);
        known.is_some_and(|known| known.life == Life::Alive && !known.sent.is_empty())
    }

    /// Notes somebody who was found dead.
    pub(super) fn add_ghost(&mut self, id: ProcessId) {
        self.places.entry(id).or_insert(Place::Ghost);
    }

    /// Notes somebody who was found alive; answers its number.
    pub(super) fn add(&mut self, candidate: Candidate, forked: bool) -> usize {
        if let Some(Place::Known(at)) = self.places.get(&candidate.id) {
            return *at;
        }
        let at = self.known.len();
        self.spared.remove(&candidate.id);
        self.places.insert(candidate.id, Place::Known(at));
        self.known.push(Known {
            id: candidate.id,
            start_ns: candidate.start_ns,
            evidence: candidate.evidence,
            forked,
            life: Life::Alive,
            sent: Vec::new(),
            comm: Vec::new(),
            description: None,
            trouble: None,
            last: None,
        });
        self.alive += 1;
        at
    }

    /// Notes somebody who is left alone.
    pub(super) fn add_spared(&mut self, spared: Spared) {
        if let Some(Place::Known(at)) = self.places.get(&spared.id) {
            self.set_life(*at, Life::Withdrawn(None));
        }
        match self.spared.entry(spared.id) {
            Entry::Vacant(place) => {
                place.insert(spared);
            }
            // A target tells the evidence once.
            Entry::Occupied(mut place) => {
                let known = place.get_mut();
                let evidence = std::mem::take(&mut known.evidence);
                let evidence = if spared.evidence.is_empty() {
                    evidence
                } else {
                    spared.evidence
                };
                *known = Spared { evidence, ..spared };
            }
        }
    }

    /// Notes somebody who is left alone, if nothing else is known of it.
    pub(super) fn add_stranger(&mut self, spared: Spared) {
        if !self.places.contains_key(&spared.id) {
            self.spared.entry(spared.id).or_insert(spared);
        }
    }

    /// Leaves somebody alone from now on who was to be ended.
    pub(super) fn spare(&mut self, at: usize, life: Life, reason: SpareReason, detail: String) {
        self.set_life(at, life);
        let Some(known) = self.known.get(at) else {
            return;
        };
        let detail = match known.sent.last() {
            Some(signal) => format!("{detail}; it had been sent SIG{}", signal.name()),
            None => detail,
        };
        let spared = Spared {
            id: known.id,
            start_ns: known.start_ns,
            evidence: known.evidence.clone(),
            reason,
            detail,
        };
        self.spared.insert(known.id, spared);
    }

    /// Sets what has become of somebody.
    pub(super) fn set_life(&mut self, at: usize, life: Life) {
        let Some(known) = self.known.get_mut(at) else {
            return;
        };
        // Nobody rises from the dead.
        if known.life == Life::Dead || known.life == life {
            return;
        }
        if known.life == Life::Alive {
            self.alive -= 1;
        }
        known.life = life;
    }

    /// One of them.
    pub(super) fn get(&self, at: usize) -> Option<&Known> {
        self.known.get(at)
    }

    /// One of them, to note something.
    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut Known> {
        self.known.get_mut(at)
    }

    /// Everybody who was found alive, in the order of their numbers.
    pub(super) fn known(&self) -> &[Known] {
        &self.known
    }

    /// Those who are to be reported as owned by the target.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().filter(|known| known.is_listed())
    }

    /// Everybody who is left alone.
    pub(super) fn spared(&self) -> impl Iterator<Item = &Spared> {
        self.spared.values()
    }

    /// The numbers of those who are to be ended still.
    pub(super) fn alive(&self) -> Vec<usize> {
        let alive = |(_, known): &(usize, &Known)| known.life == Life::Alive;
        self.known
            .iter()
            .enumerate()
            .filter(alive)
            .map(|(at, _)| at)
            .collect()
    }

    /// How many are to be ended still.
    pub(super) fn alive_count(&self) -> usize {
        self.alive
    }
}
