//! How a probe begins, and how it ends.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::super::error::LoadError;
use super::super::known::Recorded;
use super::super::load::{self, LoadOptions, Loaded};
use super::super::pins::{Found, Pins};
use super::EbpfSource;
use crate::process::{Pid, Proc, ProcessId, StartTime};
use crate::source::Source;

impl EbpfSource {
    /// Loads a probe of one's own, which ends with this process.
    pub fn load(options: LoadOptions) -> Result<EbpfSource, LoadError> {
        let loaded = load::load(&options, &[])?;
        EbpfSource::begin(loaded, options, None)
    }

    /// Loads the probe of a daemon, which goes on in the kernel when this
    /// process ends, and takes over what an earlier daemon left: members,
    /// losses, and the records that nobody has read. `dir` lies on a bpffs; it
    /// is made if need be, as `/sys/fs/bpf` is mounted.
    pub fn load_pinned(dir: &Path, options: LoadOptions) -> Result<EbpfSource, LoadError> {
        let pins = Pins::lock(dir)?;
        let found = pins.find()?;
        if found == Found::Complete {
            return EbpfSource::take_over(pins, options);
        }
        if found == Found::Partial {
            tracing::warn!(
                "the probe in {} is not whole; it is replaced",
                dir.display()
            );
        }
        pins.clear()?;
        let made = load::load(&options, &pins.maps()).and_then(|mut loaded| {
            pins.put_links(std::mem::take(&mut loaded.links))?;
            Ok(loaded)
        });
        match made {
            Ok(loaded) => {
                pins.clear_others()?;
                EbpfSource::begin(loaded, options, Some(pins))
            }
            Err(error) => {
                // Never half of it.
                pins.clear()?;
                Err(error)
            }
        }
    }

    /// Loads programs onto the maps that are there, and lets these take the
    /// place of the former ones. For a moment both run, which does no harm: the
    /// same entry is written twice.
    fn take_over(pins: Pins, options: LoadOptions) -> Result<EbpfSource, LoadError> {
        let options = pins.options(options)?;
        let mut loaded = load::load(&options, &pins.maps())?;
        loaded.maps.add_skipped(pins.skipped())?;
        pins.put_links(std::mem::take(&mut loaded.links))?;
        // What the former daemon was about has ended with it.
        loaded.maps.set_eager(false)?;
        loaded.maps.absolve_all()?;
        let mut source = EbpfSource::begin(loaded, options, Some(pins))?;
        source.took_over = true;
        Ok(source)
    }

    fn begin(
        loaded: Loaded,
        options: LoadOptions,
        pins: Option<Pins>,
    ) -> Result<EbpfSource, LoadError> {
        let Loaded {
            ebpf,
            links,
            maps,
            log,
            fork,
        } = loaded;
        let mut source = EbpfSource {
            maps,
            ebpf,
            _links: links,
            pins,
            took_over: false,
            log,
            fork,
            proc: Proc::open()?,
            options,
            sessions: HashMap::new(),
            shielded: Vec::new(),
            condemned: HashSet::new(),
            newborn: None,
            pending: Vec::new(),
            undecodable: 0,
            recorded: Recorded::new(0),
        };
        source.verify()?;
        let lost = source.lost()?;
        source.recorded = Recorded::new(lost);
        if options.track_all {
            source.look_at_everybody()?;
        }
        Ok(source)
    }

    /// Ends a pinned probe, so that nothing is tracked any more.
    pub fn unpin(self) -> Result<(), LoadError> {
        match self.pins {
            Some(pins) => Ok(pins.remove()?),
            None => Ok(()),
        }
    }

    /// The probe must see this very process as `/proc` does. If it does not,
    /// the offsets are wrong, and so would be everything else.
    fn verify(&mut self) -> Result<(), LoadError> {
        let own = self.proc.seen(Pid::own())?;
        let row = self.census()?.get(&Pid::own().as_u32()).copied();
        let same = own.zip(row).is_some_and(|(own, row)| {
            own.id.start_time == StartTime::from_ns(row.start_ns)
                && own.stat.parent.map_or(0, Pid::as_u32) == row.parent_pid
                && row.flags == 0
        });
        same.then_some(()).ok_or(LoadError::Disagrees)
    }

    /// Reports everybody who was there before the probe. From `/proc`, since
    /// their names are there anyway.
    fn look_at_everybody(&mut self) -> Result<(), LoadError> {
        let seen = self.proc.scan()?;
        let ids: HashMap<Pid, ProcessId> = seen.iter().map(|seen| (seen.id.pid, seen.id)).collect();
        for seen in seen {
            let parent = seen.stat.parent.and_then(|pid| ids.get(&pid)).copied();
            // An earlier daemon may have tagged it.
            let tag = self.tag_of(seen.id)?;
            let snapshot = self.snapshot(seen.id, parent, tag, true)?;
            self.pending.extend(snapshot);
        }
        Ok(())
    }
}
