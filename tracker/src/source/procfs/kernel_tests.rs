//! The source on the real kernel.
//!
//! Every process of these tests waits for the end of a pipe that the test
//! holds, so that none outlives it, however it ends; and all of them inherit
//! another pipe, whose end proves that all of them are dead.

use std::io::{PipeWriter, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::*;

/// Waits for the end of the test.
const WAIT: &str = "cat <&3";

struct Tree {
    root: ProcessId,
    child: Child,
    orders: ChildStdin,
    hold: Option<PipeWriter>,
    all_dead: ChildStdout,
}

impl Tree {
    /// A shell that runs `script` once it is told to. Descriptor 4 has orders.
    fn held(script: &str) -> Tree {
        let (end_of_test, hold) = std::io::pipe().unwrap();
        let script = format!("exec 3<&2 4<&0; read go; {script}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(end_of_test)
            .spawn()
            .unwrap();
        let pid = Pid::new(i64::from(child.id())).unwrap();
        Tree {
            root: Proc::open().unwrap().seen(pid).unwrap().unwrap().id,
            orders: child.stdin.take().unwrap(),
            hold: Some(hold),
            all_dead: child.stdout.take().unwrap(),
            child,
        }
    }

    fn go(&mut self) {
        self.orders.write_all(b"go\n").unwrap();
    }

    /// Ends those who wait for it, and waits until everybody has ended.
    fn end(&mut self) {
        drop(self.hold.take());
        self.all_dead.read_to_end(&mut Vec::new()).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        drop(self.hold.take());
        // The shell itself, which nobody waited for, so that the pid is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(answer) = check() {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn session() -> SessionId {
    SessionId::new(1).unwrap()
}

fn adopt(source: &mut ProcfsSource, root: ProcessId, fresh: bool) {
    let tag = Tag::member(session());
    source.adopt(Adoption { root, tag, fresh }, None).unwrap();
}

fn living(source: &mut ProcfsSource) -> Vec<Member> {
    let members = source.members(&[session()]).unwrap().found;
    members
        .into_iter()
        .filter(|member| !member.exiting)
        .collect()
}

fn comm(id: ProcessId) -> Vec<u8> {
    let seen = Proc::open().unwrap().same(id).unwrap();
    seen.map(|seen| seen.stat.comm).unwrap_or_default()
}

/// Runs a test once more in a process of its own, as it changes what that is.
fn in_a_process_of_its_own(test: &str, variables: &[(&str, String)]) -> bool {
    if std::env::var_os("TRACKER_TEST_ALONE").is_some() {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads=1", "--nocapture"])
        .env("TRACKER_TEST_ALONE", "1")
        .envs(variables.iter().cloned())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{printed}{errors}"
    );
    false
}

/// Held by tests that would see each other's processes.
static NAMESPACES: Mutex<()> = Mutex::new(());

/// Waits for all children, of which the last must be gone.
fn wait_for_all_children() {
    while rustix::process::wait(rustix::process::WaitOptions::empty()).is_ok() {}
}

#[test]
fn a_process_that_was_seen_below_its_creator_is_found_after_both_parents_left() {
    let mut source = ProcfsSource::new().unwrap();
    // The middle shell leaves when the test says so.
    let mut tree = Tree::held(&format!(
        "sh -c '{WAIT} & read leave <&4' & wait $!; {WAIT}"
    ));
    adopt(&mut source, tree.root, true);
    tree.go();
    let cat = eventually("cat is found", || {
        living(&mut source)
            .into_iter()
            .find(|member| comm(member.id) == b"cat")
    });
    tree.go();
    let proc = Proc::open().unwrap();
    eventually("it is reparented", || {
        let parent = proc.same(cat.id).unwrap().unwrap().stat.parent;
        (parent != cat.creator.map(|creator| creator.pid)).then_some(())
    });
    assert!(living(&mut source).iter().any(|member| member.id == cat.id));
    assert_eq!(source.tag_of(cat.id).unwrap(), Some(Tag::member(session())));
    tree.end();
    tree.child.wait().unwrap();
    eventually("all are dead", || {
        living(&mut source).is_empty().then_some(())
    });
}

#[test]
fn a_strange_name_moves_no_field() {
    let mut source = ProcfsSource::new().unwrap();
    let mut tree = Tree::held("printf 'x) R 1 (\\n\\377' > /proc/$$/comm; cat <&3");
    adopt(&mut source, tree.root, true);
    tree.go();
    let mut seen = Vec::new();
    let named = eventually("the name is told", || {
        source.drain(&mut |event| seen.push(event)).unwrap();
        seen.drain(..).find_map(|event| match event {
            // Its child has the same name until it executes a program.
            Event::Snapshot(seen) if seen.id == tree.root && seen.comm == b"x) R 1 (\n\xff" => {
                Some(seen)
            }
            _ => None,
        })
    });
    assert_eq!(named.parent.map(|id| id.pid), Some(Pid::own()));
    assert_eq!(named.uid, Some(rustix::process::getuid().as_raw()));
    assert_eq!(named.argv.unwrap().first().unwrap(), b"sh");
}

#[test]
fn no_scan_overlooks_a_process_while_others_come_and_go() {
    let mut loops: Vec<Tree> = (0..8)
        .map(|_| Tree::held("(read end; kill $$) <&3 & while :; do /bin/true; done"))
        .collect();
    let sleeper = Tree::held("");
    loops.iter_mut().for_each(Tree::go);
    for _ in 0..50 {
        let source = ProcfsSource::new().unwrap();
        assert!(source.present.contains_key(&sleeper.root));
    }
}

#[test]
fn a_subreaper_finds_every_orphan_and_proves_that_none_is_left() {
    const NAME: &str = concat!(
        "source::procfs::kernel_tests::",
        "a_subreaper_finds_every_orphan_and_proves_that_none_is_left"
    );
    let _alone = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    if !in_a_process_of_its_own(NAME, &[]) {
        return;
    }
    let mut source = ProcfsSource::subreaper().unwrap();
    let mut tree = Tree::held(&format!(
        "(setsid sh -c '{WAIT} & {WAIT} &' &); ( ({WAIT} &) & ); exit"
    ));
    adopt(&mut source, tree.root, true);
    tree.go();
    // No scan before all parents are gone.
    assert!(tree.child.wait().unwrap().success());
    let own = Pid::own();
    let orphans = eventually("three orphans", || {
        let cats: Vec<_> = living(&mut source)
            .into_iter()
            .filter(|member| comm(member.id) == b"cat")
            .collect();
        let proc = Proc::open().unwrap();
        let is_child = |id| proc.same(id).unwrap().unwrap().stat.parent == Some(own);
        (cats.len() == 3 && cats.iter().all(|cat| is_child(cat.id))).then_some(cats)
    });
    let gaps = |source: &mut ProcfsSource| source.members(&[session()]).unwrap().gaps;
    assert_eq!(gaps(&mut source), [(session(), Gap::Snapshots)]);
    tree.end();
    let members = eventually("they are zombies", || {
        let members = source.members(&[session()]).unwrap();
        members
            .found
            .iter()
            .all(|member| member.exiting)
            .then_some(members)
    });
    let zombies = orphans
        .iter()
        .filter(|orphan| members.found.iter().any(|member| member.id == orphan.id));
    assert_eq!(zombies.count(), 3, "{members:?}");
    assert_eq!(members.gaps, [(session(), Gap::Snapshots)]);
    wait_for_all_children();
    let members = source.members(&[session()]).unwrap();
    assert_eq!((members.found, members.gaps), (vec![], vec![]));
}

#[test]
fn an_orphan_that_escaped_into_another_pid_namespace_keeps_the_verdict_open() {
    const NAME: &str = concat!(
        "source::procfs::kernel_tests::",
        "an_orphan_that_escaped_into_another_pid_namespace_keeps_the_verdict_open"
    );
    if !rustix::process::geteuid().is_root() {
        assert!(
            std::env::var_os("TRACKER_REQUIRE_EBPF").is_none(),
            "not root"
        );
        eprintln!("skipped: only root can enter a pid namespace");
        return;
    }
    let _alone = NAMESPACES.lock().unwrap_or_else(PoisonError::into_inner);
    let proc = Proc::open().unwrap();
    let Ok(init) = std::env::var("TRACKER_TEST_INIT") else {
        // The namespace is not below the subreaper.
        let mut outside = Tree::held(&format!("unshare -pf sh -c '{WAIT}; :'"));
        outside.go();
        let init = eventually("a namespace", || {
            let all = proc.scan().unwrap();
            let is_init = |pid| {
                proc.namespace_pids(pid).unwrap().unwrap_or_default().get(1) == Some(&Pid::INIT)
            };
            let below = |parent: Pid| {
                all.iter()
                    .filter(move |seen| seen.stat.parent == Some(parent))
            };
            below(outside.root.pid)
                .flat_map(|seen| below(seen.id.pid))
                .chain(below(outside.root.pid))
                .map(|seen| seen.id.pid)
                .find(|pid| is_init(*pid))
        });
        in_a_process_of_its_own(NAME, &[("TRACKER_TEST_INIT", init.to_string())]);
        return;
    };
    let init: Pid = init.parse().unwrap();
    let cats = || {
        let all = proc.scan().unwrap().into_iter();
        let is_cat = |seen: &crate::process::Seen| {
            seen.stat.parent == Some(init) && seen.stat.comm == b"cat"
        };
        all.filter(is_cat).map(|seen| seen.id).collect::<Vec<_>>()
    };
    // The init waits by a program of its own.
    let own = eventually("the init waits", || cats().first().copied());
    let mut source = ProcfsSource::subreaper().unwrap();
    let mut tree = Tree::held(&format!("nsenter -t {init} -p sh -c '{WAIT} & exit'"));
    adopt(&mut source, tree.root, true);
    tree.go();
    assert!(tree.child.wait().unwrap().success());
    let stray = eventually("the orphan is a child of the namespace's init", || {
        cats().into_iter().find(|id| *id != own)
    });
    // The kernel says that there are no children, and yet one lives.
    let members = source.members(&[session()]).unwrap();
    assert_eq!(members.found, []);
    let gap = (session(), Gap::OtherNamespace(stray));
    assert!(members.gaps.contains(&gap), "{:?}", members.gaps);
    // Tests that run meanwhile have namespaces of their own, and who started in
    // the same tick as the session may be one of it.
    let is_namespace = |gap: &Gap| matches!(gap, Gap::OtherNamespace(_));
    assert!(members.gaps.iter().all(|(_, gap)| is_namespace(gap)));
    tree.end();
    eventually("it is gone", || {
        let gaps = source.members(&[session()]).unwrap().gaps;
        (!gaps.contains(&gap)).then_some(())
    });
}
