//! What needs the inside of the source, on the live kernel.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::super::maps::Put;
use super::*;
use crate::process::Pid;
use tracker_tests::{Need, Who, able, until};

fn probe() -> Option<EbpfSource> {
    able(&[Need::Ebpf]).then(|| EbpfSource::load(LoadOptions::standalone()).unwrap())
}

/// A shell that waits for a line, then goes on with a script.
struct Shell(Child);

impl Shell {
    fn before(script: &str) -> Shell {
        let script = format!("read -r _; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdin(Stdio::piped());
        Shell(command.spawn().unwrap())
    }

    fn go_on(&mut self) {
        let stdin = self.0.stdin.as_mut().unwrap();
        stdin.write_all(b"\n").unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A log in memory.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Write for Heard {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_census_agrees_with_proc() {
    let Some(mut source) = probe() else { return };
    let proc = Proc::open().unwrap();
    let before = proc.scan().unwrap();
    let rows = source.census().unwrap();
    let mut seen = 0;
    for row in rows.values() {
        let Some(id) = ProcessId::from_kernel(row.pid, row.start_ns) else {
            panic!("{row:?}");
        };
        // Who came after the scan or went before the census is not compared.
        if let Some(known) = before.iter().find(|known| known.id == id) {
            seen += 1;
            // Reparented in between, maybe.
            let parent = known.stat.parent.map_or(0, Pid::as_u32);
            let now = proc.same(id).unwrap().and_then(|now| now.stat.parent);
            let now = now.map_or(0, Pid::as_u32);
            assert!([parent, now].contains(&row.parent_pid), "{row:?} {known:?}");
        }
    }
    // Some sandboxes hide their init from the iterator.
    for known in before.iter().filter(|known| known.id.pid != Pid::INIT) {
        let here = rows.get(&known.id.pid.as_u32());
        let same = here.is_some_and(|row| StartTime::from_ns(row.start_ns) == known.id.start_time);
        assert!(same || proc.is_dead(known.id).unwrap(), "{known:?}");
    }
    assert!(seen > 1);
}

#[test]
fn nothing_is_inherited_from_an_earlier_holder_of_the_pid() {
    let log = Heard::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
    let _listening = tracing::subscriber::set_default(subscriber.finish());
    let Some(mut source) = probe() else { return };
    let session = SessionId::random().unwrap();
    let mut shell = Shell::before("sleep 600 & wait");
    let pid = shell.0.id();
    let start_ns = source.census().unwrap().get(&pid).unwrap().start_ns;
    let stale = Process {
        start_ns: start_ns - 1,
        tag: session.raw(),
        ..Process::default()
    };
    assert_eq!(source.maps.add_process(pid, &stale).unwrap(), Put::Done);
    shell.go_on();
    let child = until("its child", || {
        let children = tracker_tests::proc::children(pid.cast_signed());
        children.first().map(|child| child.who)
    });
    let members = source.members(&[session]).unwrap();
    assert_eq!(members, Members::default());
    assert_eq!(source.maps.process(pid).unwrap(), None);
    assert!(source.counters().unwrap().stale_entries > 0);
    source.drain(&mut |_| ()).unwrap();
    let heard = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let said = format!("process {pid} started at {start_ns} ns, but its entry says");
    assert!(heard.contains(&said), "{heard}");
    child.signal(rustix::process::Signal::KILL);
}

#[test]
fn an_entry_of_an_earlier_holder_does_not_hinder_adoption() {
    let Some(mut source) = probe() else { return };
    let session = SessionId::random().unwrap();
    let shell = Shell::before("exit");
    let pid = shell.0.id();
    let start_ns = source.census().unwrap().get(&pid).unwrap().start_ns;
    let stale = Process {
        start_ns: start_ns - 1,
        tag: SessionId::random().unwrap().raw(),
        ..Process::default()
    };
    source.maps.add_process(pid, &stale).unwrap();
    let who = Who::with_pid(pid);
    let root = ProcessId::new(
        Pid::new(i64::from(who.pid)).unwrap(),
        StartTime::from_ticks(who.start),
    );
    let tag = Tag::member(session);
    let fresh = true;
    assert_eq!(
        source.adopt(Adoption { root, tag, fresh }, None).unwrap(),
        [root]
    );
    let members = source.members(&[session]).unwrap().found;
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].start_ns, Some(start_ns));
}

#[test]
fn a_map_that_outgrows_one_batch_is_read_whole() {
    let Some(mut source) = probe() else { return };
    // Pids that nobody has: the kernel's are below 2^22.
    let pids = (1 << 23)..(1 << 23) + 10_000u32;
    let process = Process::default();
    for pid in pids.clone() {
        assert_eq!(source.maps.add_process(pid, &process).unwrap(), Put::Done);
    }
    let found: HashMap<_, _> = source.maps.processes().unwrap().into_iter().collect();
    assert_eq!(found.len(), 10_000);
    assert!(pids.into_iter().all(|pid| found.contains_key(&pid)));
}
