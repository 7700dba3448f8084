//! Time as `/proc` shows it against time as the kernel keeps it.

use super::identity::StartTime;

/// The offset of the reader's time namespace. `/proc/PID/stat` adds it to
/// every start time, the kernel's own `start_boottime` knows nothing of it
/// (`time_namespaces(7)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    boottime_offset_ns: i64,
}

impl Clock {
    /// From the content of `/proc/self/timens_offsets`. A kernel without time
    /// namespaces has no such file: pass nothing.
    pub fn parse(timens_offsets: &[u8]) -> Clock {
        let text = String::from_utf8_lossy(timens_offsets);
        let offset = text.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("boottime")).then_some(())?;
            let seconds: i64 = words.next()?.parse().ok()?;
            let nanoseconds: i64 = words.next()?.parse().ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
        });
        Clock {
            boottime_offset_ns: offset.unwrap_or(0),
        }
    }

    /// The start time in the initial time namespace for one that `/proc` shows here.
    pub fn to_initial(self, shown: StartTime) -> StartTime {
        StartTime::from_ticks(shown.ticks().saturating_add_signed(-self.offset_ticks()))
    }

    /// The inverse of [`Clock::to_initial`], for printing what `/proc` would show.
    pub fn to_shown(self, initial: StartTime) -> StartTime {
        StartTime::from_ticks(initial.ticks().saturating_add_signed(self.offset_ticks()))
    }

    fn offset_ticks(self) -> i64 {
        self.boottime_offset_ns / tracker_ebpf::NS_PER_TICK.cast_signed()
    }
}

/// `CLOCK_BOOTTIME` now, in nanoseconds: the clock of start times and of the
/// probe's records. It does not jump when somebody sets the time.
pub fn now_boot_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds * 1_000_000_000 + nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_taken_off() {
        let clock =
            Clock::parse(b"monotonic           0         0\nboottime       86400         0\n");
        let shown = StartTime::from_ticks(8_640_100);
        assert_eq!(clock.to_initial(shown).ticks(), 100);
        assert_eq!(clock.to_shown(StartTime::from_ticks(100)), shown);
    }

    #[test]
    fn no_file_means_no_offset() {
        assert_eq!(Clock::parse(b""), Clock::default());
        assert_eq!(Clock::parse(b"boottime x y"), Clock::default());
    }
}
