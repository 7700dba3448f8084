//! Coming back to the truth after events were lost.

use std::collections::HashSet;

use super::apply::Alive;
use super::forest::Key;
use super::map::Lineage;
use crate::process::ProcessId;

impl Lineage {
    /// Takes in a complete list of who was alive when it was begun, at
    /// `time_ns` (`CLOCK_BOOTTIME`, nanoseconds). Who is missing in it is dead,
    /// unless an event tells that it was alive at that time or later.
    pub fn resync(&mut self, alive: &[ProcessId], time_ns: u64) {
        self.pass_time(time_ns);
        let alive: HashSet<ProcessId> = alive.iter().copied().collect();
        for id in &alive {
            self.alive(*id, time_ns, Alive::Listed);
        }
        let lost: Vec<Key> = self
            .forest
            .iter()
            .filter(|(_, slot)| slot.node.is_alive() && slot.alive_ns < time_ns)
            .map(|(key, _)| key)
            .collect();
        for key in lost {
            self.bury_unheard(key, time_ns);
        }
        self.tidy();
    }
}
