//! Who uses files of a directory.

use std::fs;
use std::process::Command;

use super::super::super::testing::Family;
use super::super::super::{EvidenceKind, HeldBy, HolderEntry, SpareReason, Verdict};
use super::*;

/// Somebody outside who has a file of the directory open; 5 bytes, deleted.
fn holder(base: &Base, below: &str) -> Family {
    let path = base.join(below);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "12345").unwrap();
    let script = format!("exec 3<'{}'; echo; exec sleep 600", path.display());
    let family = Family::start_as(Command::new("sh").args(["-c", &script]).current_dir("/"));
    fs::remove_file(&path).unwrap();
    family
}

fn entry<'a>(report: &'a Report, family: &Family) -> Option<&'a HolderEntry> {
    report
        .holders
        .iter()
        .find(|one| one.pid == Some(family.root.pid))
}

#[test]
fn a_deleted_file_that_is_held_open_is_reported_with_its_size() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let inside = holder(&base, "job/log");
    let look_alike = holder(&base, "job-1/log");
    base.remove("job");
    let report = reap_dir(&request(&recorded)).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    let [file] = entry(&report, &inside).unwrap().files.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(file.kind, HeldBy::File);
    assert_eq!((file.deleted, file.size), (true, Some(5)));
    assert_eq!(file.path, base.join("job/log").to_str().unwrap());
    assert_eq!(entry(&report, &look_alike), None);
    assert!(!report.signalled_any() && is_alive(&inside));
}

#[test]
fn who_holds_a_file_open_is_ended_when_that_is_asked_for() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let inside = holder(&base, "job/log");
    let look_alike = holder(&base, "job-1/log");
    base.remove("job");
    let request = DirRequest {
        open_files: true,
        ..request(&recorded)
    };
    let report = reap_dir(&request).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert_eq!(listed(&report), [inside.root]);
    assert_eq!(report.processes[0].evidence[0].kind, EvidenceKind::OpenFile);
    assert_eq!(entry(&report, &inside), None);
    assert!(is_alive(&look_alike));
}

#[test]
fn a_held_file_is_a_sign_that_there_was_a_directory() {
    let base = Base::new();
    let inside = holder(&base, "job/log");
    base.remove("job");
    let request = DirRequest::find(&base.join("job")).unwrap();
    let report = reap_dir(&request).unwrap();
    assert_eq!(report.verdict, Verdict::Complete, "{report:?}");
    assert!(entry(&report, &inside).is_some() && is_alive(&inside));
}

#[test]
fn a_deleted_file_of_a_path_that_has_another_directory_is_nobodys_for_certain() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let inside = holder(&base, "job/log");
    base.remove("job");
    fs::create_dir(base.join("job")).unwrap();
    let request = DirRequest {
        open_files: true,
        ..request(&recorded)
    };
    let report = reap_dir(&request).unwrap();
    assert_eq!(
        spared_reason(&report, &inside),
        Some(SpareReason::Inconclusive)
    );
    assert_eq!(report.verdict, Verdict::Incomplete);
    assert!(is_alive(&inside));
}

#[test]
fn a_program_of_the_directory_that_runs_is_a_mapped_file() {
    let base = Base::new();
    let recorded = base.workdir("job");
    let program = base.join("job/sleep");
    fs::copy("/bin/sleep", &program).unwrap();
    let script = format!("echo; exec {} 600", program.display());
    let family = Family::start_as(Command::new("sh").args(["-c", &script]).current_dir("/"));
    super::super::super::testing::until("the program runs", || family.seen().stat.comm == b"sleep");
    let report = reap_dir(&live(&recorded)).unwrap();
    let held = entry(&report, &family).unwrap();
    assert!(
        held.files
            .iter()
            .any(|file| file.kind == HeldBy::Map && !file.deleted),
        "{held:?}"
    );
    assert!(is_alive(&family));
}
