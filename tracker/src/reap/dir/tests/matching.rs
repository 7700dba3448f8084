//! Who is in a directory, and who only seems to be.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::super::super::testing::{Family, until};
use super::super::super::{SpareReason, Target, TargetError, Verdict};
use super::*;

#[test]
fn look_alikes_of_a_removed_directory_are_left_alone() {
    let base = Base::new();
    symlink("w", base.join("l")).unwrap();
    let inside = [base.dweller("w/job-1"), base.dweller("w/job-1/a/b")];
    let outside = [
        base.dweller("w/job-10"),
        base.dweller("w/job-1 (deleted)"),
        base.dweller("w/job-1 (deleted)/a"),
        base.dweller("w/gone (deleted)"),
        base.dweller("w/job"),
        base.dweller("job-1"),
    ];
    base.remove("w/job-1");
    base.remove("w/gone (deleted)");
    let request = DirRequest::find(&base.join("l/job-1")).unwrap();
    let report = reap_dir(&request).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    let mut expected: Vec<_> = inside.iter().map(|family| family.root).collect();
    expected.sort_unstable();
    assert_eq!(listed(&report), expected);
    assert!(!inside.iter().any(is_alive));
    assert!(outside.iter().all(is_alive));
}

#[test]
fn a_directory_that_ends_in_the_mark_of_removed_ones_can_be_reaped_itself() {
    let base = Base::new();
    let plain = base.dweller("job");
    let marked = base.dweller("job (deleted)");
    base.remove("job");
    base.remove("job (deleted)");
    let request = DirRequest::find(&base.join("job (deleted)")).unwrap();
    let report = reap_dir(&request).unwrap();
    assert_eq!(listed(&report), [marked.root]);
    assert!(is_alive(&plain));
}

#[test]
fn a_new_directory_at_the_old_path_is_another() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let old = [base.dweller("job"), base.dweller("job/a")];
    base.remove("job");
    let new = [base.dweller("job"), base.dweller("job/a")];
    let removed_again = base.dweller("job/b");
    base.remove("job/b");
    let report = reap_dir(&request(&recorded)).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!old.iter().any(is_alive));
    assert!(new.iter().all(is_alive) && is_alive(&removed_again));
}

#[test]
fn a_directory_that_was_moved_before_it_was_removed_is_found() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let early = base.dweller("job/a");
    let neighbour = base.dweller("other/a");
    fs::rename(base.join("job"), base.join("other/trash")).unwrap();
    base.remove("other/trash/a");
    let late = base.dweller("other/trash");
    let report = reap_dir(&request(&recorded)).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!is_alive(&early) && !is_alive(&late));
    assert!(is_alive(&neighbour));
}

#[test]
fn a_directory_that_is_there_is_refused_unless_it_is_about_to_go() {
    let base = Base::new();
    let inside = base.dweller("job/a");
    let recorded = base.workdir("job");
    let error = reap_dir(&request(&recorded)).unwrap_err();
    assert!(matches!(&error, DirError::StillThere(_)), "{error}");
    assert!(error.is_refusal() && is_alive(&inside));
    let report = reap_dir(&live(&recorded)).unwrap();
    assert_eq!(listed(&report), [inside.root]);
    assert!(!is_alive(&inside));
}

#[test]
fn a_directory_that_nobody_ever_was_in_is_an_error() {
    let base = Base::new();
    let request = DirRequest::find(&base.join("nothing")).unwrap();
    let error = reap_dir(&request).unwrap_err();
    assert!(matches!(error, DirError::Missing(_)), "{error}");
}

#[test]
fn who_leaves_the_directory_before_the_signal_gets_none() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let script = "echo; until [ -e ../go ]; do sleep 0.01; done; cd /; exec sleep 600";
    let leaver = Family::start_as(
        Command::new("sh")
            .args(["-c", script])
            .current_dir(base.join("job")),
    );
    let proc = Proc::open().unwrap();
    let protected = Protected::new(&proc, &[]).unwrap();
    let tracking = World::default().tracking();
    let mut target = DirTarget::new(&proc, tracking, &live(&recorded), protected).unwrap();
    let survey = target.survey().unwrap();
    assert!(survey.candidates.iter().any(|one| one.id == leaver.root));
    assert_eq!(target.recheck(leaver.root), Ok(()));
    fs::write(base.join("go"), "").unwrap();
    let cwd = format!("/proc/{}/cwd", leaver.root.pid);
    until("it leaves", || {
        fs::read_link(&cwd).unwrap() == Path::new("/")
    });
    let (reason, _) = target.recheck(leaver.root).unwrap_err();
    assert_eq!(reason, SpareReason::Left);
}

/// Lets a process leave between the look and the signal.
struct Leaving<'a> {
    inner: DirTarget<'a>,
    on_recheck: Box<dyn FnMut() + 'a>,
}

impl Target for Leaving<'_> {
    fn entry(&self) -> super::super::TargetEntry {
        self.inner.entry()
    }
    fn source(&self) -> SourceKind {
        self.inner.source()
    }
    fn survey(&mut self) -> Result<super::super::Survey, TargetError> {
        self.inner.survey()
    }
    fn recheck(&mut self, id: ProcessId) -> Result<(), (SpareReason, String)> {
        (self.on_recheck)();
        self.inner.recheck(id)
    }
    fn condemn(&mut self, until_ns: u64) -> Result<(), TargetError> {
        self.inner.condemn(until_ns)
    }
    fn absolve(&mut self) -> Result<(), TargetError> {
        self.inner.absolve()
    }
    fn news(&self) -> Option<BorrowedFd<'_>> {
        self.inner.news()
    }
    fn look_again(&self) -> Option<Duration> {
        self.inner.look_again()
    }
}

#[test]
fn a_reap_lets_go_who_leaves_at_the_last_moment() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let script = "echo; until [ -e ../go ]; do sleep 0.01; done; cd /; exec sleep 600";
    let leaver = Family::start_as(
        Command::new("sh")
            .args(["-c", script])
            .current_dir(base.join("job")),
    );
    let proc = Proc::open().unwrap();
    let protected = Protected::new(&proc, &[]).unwrap();
    let tracking = World::default().tracking();
    let inner = DirTarget::new(&proc, tracking, &live(&recorded), protected).unwrap();
    let cwd = format!("/proc/{}/cwd", leaver.root.pid);
    let on_recheck = Box::new(|| {
        fs::write(base.join("go"), "").unwrap();
        until("it leaves", || {
            fs::read_link(&cwd).unwrap() == Path::new("/")
        });
    });
    let mut target = Leaving { inner, on_recheck };
    let report = reap(&mut target, &proc, &options(), &Cancel::new().unwrap());
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(!report.signalled_any());
    assert_eq!(spared_reason(&report, &leaver), Some(SpareReason::Left));
    assert!(is_alive(&leaver));
}

#[test]
fn a_path_that_is_longer_than_a_page_hides_nobody() {
    let base = Base::new();
    let recorded = base.workdir("job");
    // A thread with a working directory of its own goes down step by step.
    let start = base.join("job");
    let descend = move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_FS).unwrap();
        std::env::set_current_dir(start).unwrap();
        let name = "0".repeat(250);
        for _ in 0..18 {
            fs::create_dir(&name).unwrap();
            std::env::set_current_dir(&name).unwrap();
        }
        Family::start("echo; exec sleep 600")
    };
    let deep = std::thread::spawn(descend).join().unwrap();
    let link = fs::read_link(format!("/proc/{}/cwd", deep.root.pid));
    assert!(link.is_err(), "the path was to be too long: {link:?}");
    let report = reap_dir(&live(&recorded)).unwrap();
    assert_eq!(listed(&report), [deep.root]);
    assert!(!is_alive(&deep));
}

#[test]
fn who_enters_while_others_are_ended_is_ended_too() {
    let base = Base::new();
    let recorded = base.workdir("job");
    // Whoever gets SIGTERM leaves a child behind that has not had it.
    let script = "trap 'sleep 600 & exit' TERM; echo; while :; do sleep 0.01; done";
    let breeder = Family::start_as(
        Command::new("sh")
            .args(["-c", script])
            .current_dir(base.join("job")),
    );
    let report = reap_dir(&live(&recorded)).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(report.counts.forked_during_reap > 0, "{report:?}");
    assert!(!is_alive(&breeder));
}

#[test]
fn tracker_and_its_ancestors_are_spared_and_listed() {
    let own = std::env::current_dir().unwrap();
    let base = Base::new();
    let inside = base.dweller("job");
    let recorded = workdir(&own);
    // A dry run: somebody else may be working here.
    let proc = Proc::open().unwrap();
    let protected = Protected::new(&proc, &[]).unwrap();
    let mut target = DirTarget::new(
        &proc,
        World::default().tracking(),
        &live(&recorded),
        protected,
    )
    .unwrap();
    let survey = target.survey().unwrap();
    let own = crate::process::Pid::own();
    let spared = survey.spared.iter().find(|one| one.id.pid == own).unwrap();
    assert_eq!(spared.reason, SpareReason::Protected);
    assert!(
        survey
            .candidates
            .iter()
            .all(|one| one.id.pid != own && one.id != inside.root)
    );
}
