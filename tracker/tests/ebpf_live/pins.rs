//! A probe that goes on while its daemon is down.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use aya::maps::MapData;
use aya::programs::links::{FdLink, PinnedLink};
use aya::programs::loaded_links;
use tempfile::TempDir;
use tracker::lineage::Event;
use tracker::process::now_boot_ns;
use tracker::source::ebpf::{EbpfSource, LoadError, LoadOptions, PinsError, unpin};
use tracker::source::{OpenError, Source, SourceChoice, SourceKind, open_pinned};
use tracker_tests::{Need, Scene, able, until};

use super::{Gate, events, id, now};

/// A bpffs of a test's own.
struct Bpffs(TempDir);

impl Bpffs {
    fn mount() -> Option<Bpffs> {
        able(&[Need::Ebpf]).then(|| {
            let dir = tempfile::tempdir().unwrap();
            let flags = nix::mount::MsFlags::empty();
            nix::mount::mount(Some("bpf"), dir.path(), Some("bpf"), flags, None::<&str>).unwrap();
            Bpffs(dir)
        })
    }

    fn dir(&self) -> PathBuf {
        self.0.path().join("tracker")
    }

    fn pins(&self) -> PathBuf {
        self.dir().join("v1")
    }

    /// The ids of the links that are pinned.
    fn links(&self) -> Vec<u32> {
        let names = files(&self.pins());
        let links = names.iter().filter(|name| name.starts_with("tracker_"));
        links
            .map(|name| {
                let link = PinnedLink::from_pin(self.pins().join(name)).unwrap();
                FdLink::from(link).info().unwrap().id()
            })
            .collect()
    }

    #[track_caller]
    fn load(&self) -> EbpfSource {
        self.try_load().unwrap()
    }

    fn try_load(&self) -> Result<EbpfSource, LoadError> {
        EbpfSource::load_pinned(&self.dir(), LoadOptions::daemon())
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        // Its programs end when the last pin does.
        let _ = nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH);
    }
}

fn files(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    files
}

/// The kernel lets go of a link a little after its last file.
#[track_caller]
fn until_detached(links: &[u32]) {
    until("the end of the links", || {
        let mut now = loaded_links().filter_map(Result::ok);
        (!now.any(|link| links.contains(&link.id()))).then_some(())
    });
}

fn forks_of(events: &[Event], child: tracker::process::ProcessId) -> usize {
    let is_it = |event: &&Event| matches!(event, Event::Fork(fork) if fork.child == child);
    events.iter().filter(is_it).count()
}

#[test]
fn members_that_are_created_while_no_daemon_runs_are_found_by_the_next_one() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let mut first = bpffs.load();
    assert!(!first.took_over());
    let scene = Scene::new();
    let mut gate = Gate::victim(&scene, &["double-fork"]);
    let session = gate.member_of(&mut first);
    let before = scene.victim(&["double-fork"]).status().unwrap();
    assert!(before.success());
    let outsider = id(scene.who("orphan"));
    assert_eq!(forks_of(&events(&mut first), outsider), 1);
    // As after kill -9: nothing is said to the kernel.
    drop(first);
    assert!(gate.finish().success());
    let orphans = scene.await_cast("orphan", 2);
    let mut second = bpffs.load();
    assert!(second.took_over());
    let orphan = orphans
        .into_iter()
        .map(id)
        .find(|orphan| *orphan != outsider);
    let orphan = orphan.unwrap();
    assert_eq!(now(&mut second, session).running, [orphan]);
    assert_eq!(now(&mut second, session).gaps, []);
    // The history goes on where the first reader stopped, and nothing is told twice.
    let events = events(&mut second);
    assert_eq!(forks_of(&events, orphan), 1);
    assert_eq!(forks_of(&events, outsider), 0);
    let snapshot = events.iter().find_map(|event| match event {
        Event::Snapshot(snapshot) if snapshot.id == orphan => Some(snapshot),
        _ => None,
    });
    assert_eq!(snapshot.unwrap().tag.unwrap().session, session);
}

#[test]
fn programs_that_took_over_record_each_event_once() {
    let Some(bpffs) = Bpffs::mount() else { return };
    drop(bpffs.load());
    drop(bpffs.load());
    let mut third = bpffs.load();
    // The kernel lets go of the programs that were replaced in its own time.
    tracker_tests::until("one record for each event", || {
        events(&mut third);
        let scene = Scene::new();
        let mut gate = Gate::victim(&scene, &["double-fork"]);
        gate.member_of(&mut third);
        assert!(gate.finish().success());
        let orphan = id(scene.who("orphan"));
        let records = forks_of(&events(&mut third), orphan);
        assert_ne!(records, 0);
        (records == 1).then_some(())
    });
}

#[test]
fn a_second_daemon_is_refused_while_the_first_one_runs() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let first = bpffs.load();
    let second = bpffs.try_load();
    assert!(
        matches!(second, Err(LoadError::Pins(PinsError::InUse(_)))),
        "{second:?}"
    );
    drop(first);
    assert!(bpffs.load().took_over());
}

#[test]
fn half_a_probe_is_replaced_whole() {
    let Some(bpffs) = Bpffs::mount() else { return };
    for missing in ["tracker_exit", "PROCESSES", "EAGER"] {
        let mut first = bpffs.load();
        let scene = Scene::new();
        let gate = Gate::script(&scene, "exit");
        let session = gate.member_of(&mut first);
        let whole = files(&bpffs.pins());
        drop(first);
        fs::remove_file(bpffs.pins().join(missing)).unwrap();
        let mut second = bpffs.load();
        assert!(!second.took_over());
        assert_eq!(files(&bpffs.pins()), whole);
        assert_eq!(now(&mut second, session).all, []);
        second.unpin().unwrap();
    }
}

#[test]
fn a_daemon_that_died_while_it_took_over_leaves_no_second_probe() {
    let Some(bpffs) = Bpffs::mount() else { return };
    drop(bpffs.load());
    let whole = files(&bpffs.pins());
    // A link that never reached its place.
    let link = bpffs.pins().join("tracker_exec");
    FdLink::from(PinnedLink::from_pin(&link).unwrap())
        .pin(bpffs.pins().join("tracker_exec_new"))
        .unwrap();
    assert!(bpffs.load().took_over());
    assert_eq!(files(&bpffs.pins()), whole);
}

#[test]
fn a_map_of_another_definition_is_refused_and_left_alone() {
    let Some(bpffs) = Bpffs::mount() else { return };
    drop(bpffs.load());
    fs::remove_file(bpffs.pins().join("LOSSES")).unwrap();
    let other = MapData::from_pin(bpffs.pins().join("CONDEMNED")).unwrap();
    other.pin(bpffs.pins().join("LOSSES")).unwrap();
    let whole = files(&bpffs.pins());
    let refused = bpffs.try_load();
    assert!(
        matches!(&refused, Err(LoadError::Pins(PinsError::Foreign { path, .. })) if path.ends_with("LOSSES")),
        "{refused:?}"
    );
    assert_eq!(files(&bpffs.pins()), whole);
}

#[test]
fn sizes_stay_those_of_the_maps_that_are_there() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let options = LoadOptions {
        capacity: 5000,
        ring_bytes: 1 << 16,
        ..LoadOptions::daemon()
    };
    drop(EbpfSource::load_pinned(&bpffs.dir(), options).unwrap());
    let mut second = bpffs.load();
    assert_eq!(second.fill().unwrap().1, 5000);
    // A buffer that were read as a larger one would hold garbage.
    events(&mut second);
    let scene = Scene::new();
    let mut gate = Gate::script(
        &scene,
        "i=0; while [ $i -lt 2000 ]; do (:); i=$((i+1)); done",
    );
    gate.member_of(&mut second);
    assert!(gate.finish().success());
    assert!(!events(&mut second).is_empty());
    assert_eq!(second.counters().unwrap().undecodable, 0);
}

#[test]
fn what_a_dead_daemon_condemned_is_absolved() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let mut first = bpffs.load();
    let scene = Scene::new();
    let mut gate = Gate::script(&scene, "(:); exit 42");
    let session = gate.member_of(&mut first);
    first
        .condemn(&[session], now_boot_ns() + 3_600_000_000_000)
        .unwrap();
    drop(first);
    let _second = bpffs.load();
    assert_eq!(gate.finish().code(), Some(42));
}

#[test]
fn unpinning_ends_the_probe() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let first = bpffs.load();
    let attached = bpffs.links();
    assert_eq!(attached.len(), 4);
    first.unpin().unwrap();
    assert!(!bpffs.pins().exists());
    until_detached(&attached);
    assert!(!unpin(&bpffs.dir()).unwrap());

    drop(bpffs.load());
    let attached = bpffs.links();
    assert!(unpin(&bpffs.dir()).unwrap());
    assert!(!bpffs.pins().exists());
    until_detached(&attached);
}

#[test]
fn former_programs_end_when_others_take_over() {
    let Some(bpffs) = Bpffs::mount() else { return };
    drop(bpffs.load());
    let former = bpffs.links();
    let _second = bpffs.load();
    until_detached(&former);
}

#[test]
fn the_probe_of_another_layout_is_removed() {
    let Some(bpffs) = Bpffs::mount() else { return };
    drop(bpffs.load());
    let old = bpffs.dir().join("v0");
    fs::rename(bpffs.pins(), &old).unwrap();
    assert!(!bpffs.load().took_over());
    assert!(!old.exists());
}

#[test]
fn a_folder_that_others_can_fill_is_refused() {
    let Some(bpffs) = Bpffs::mount() else { return };
    fs::create_dir(bpffs.dir()).unwrap();
    fs::set_permissions(bpffs.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let refused = bpffs.try_load();
    assert!(
        matches!(refused, Err(LoadError::Pins(PinsError::NotPrivate(_)))),
        "{refused:?}"
    );
}

#[test]
fn a_folder_that_is_not_on_bpffs_is_refused() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let refused = EbpfSource::load_pinned(&dir.path().join("x"), LoadOptions::daemon());
    assert!(
        matches!(refused, Err(LoadError::Pins(PinsError::NotBpffs(_)))),
        "{refused:?}"
    );
    assert_eq!(files(dir.path()), Vec::<String>::new());
}

#[test]
fn without_bpffs_the_best_is_a_probe_that_ends_with_the_daemon() {
    if !able(&[Need::Ebpf]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let opened = open_pinned(SourceChoice::Auto, dir.path()).unwrap();
    assert_eq!(opened.source.kind(), SourceKind::Ebpf);
    let reasons: Vec<_> = opened.passed_over.iter().map(|one| &one.reason).collect();
    assert!(
        reasons.len() == 1 && reasons[0].contains("is not on a bpffs"),
        "{reasons:?}"
    );
    assert!(open_pinned(SourceChoice::Ebpf, dir.path()).is_err());
}

#[test]
fn a_second_daemon_does_not_make_do_with_less() {
    let Some(bpffs) = Bpffs::mount() else { return };
    let _first = open_pinned(SourceChoice::Auto, &bpffs.dir()).unwrap();
    let second = open_pinned(SourceChoice::Auto, &bpffs.dir());
    assert!(matches!(
        second,
        Err(OpenError::Ebpf(LoadError::Pins(PinsError::InUse(_))))
    ));
}
