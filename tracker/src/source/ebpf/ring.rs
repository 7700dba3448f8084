//! Reading the ring buffer.

use std::borrow::Borrow;
use std::os::fd::AsFd;

use aya::maps::{MapData, RingBuf};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::decode;
use crate::lineage::Event;

/// How often to look again when a record is there but not finished: its writer
/// needs some instructions more, if its CPU is not taken away.
const PATIENCE: u32 = 1000;

/// Hands over the events that are there; answers how many records were not
/// understood. Reads at most as much as fits in the buffer, so that it ends
/// however fast others write.
pub(super) fn drain<M: Borrow<MapData>>(
    ring: &mut RingBuf<M>,
    ring_bytes: u64,
    sink: &mut dyn FnMut(Event),
) -> u64 {
    let mut undecodable = 0;
    let mut read = 0u64;
    let mut waited = 0;
    while read <= ring_bytes {
        if let Some(item) = ring.next() {
            // The kernel puts 8 bytes before each record.
            read += item.len() as u64 + 8;
            match decode::event(&item) {
                Some(event) => sink(event),
                None => undecodable += 1,
            }
        } else if waited < PATIENCE && readable(ring) {
            waited += 1;
            std::thread::yield_now();
        } else {
            break;
        }
    }
    undecodable
}

/// Whether something is in the buffer, finished or not.
fn readable(ring: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(ring, PollFlags::IN)];
    matches!(
        rustix::event::poll(&mut fds, Some(&Timespec::default())),
        Ok(1..)
    )
}
