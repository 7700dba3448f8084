//! Creating processes in every way the kernel knows: the only place of the
//! tests with `unsafe`.
#![expect(
    unsafe_code,
    reason = "fork, clone and signal handlers cannot be had otherwise; victims are small and single-threaded"
)]

use std::ffi::{CString, c_void};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicI32;

/// `fork(2)`. The child runs `child` and exits; the parent gets its pid.
pub fn fork(child: impl FnOnce()) -> i32 {
    // SAFETY: glibc's fork leaves its own locks usable in the child, and a
    // victim holds none of Rust's while it forks.
    go_on(unsafe { libc::fork() }, child)
}

/// `fork(2)` that goes on in the child, and ends the parent.
pub fn hop() {
    // SAFETY: as in `fork`.
    match unsafe { libc::fork() } {
        0 => {}
        answer => exit_now(i32::from(answer < 0)),
    }
}

/// `clone(2)` with `CLONE_PARENT`: the child's parent is the caller's parent.
pub fn clone_parent(child: impl FnOnce()) -> i32 {
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and without a new stack this is a fork, but
    // that glibc does not learn of it. The child only writes a file and sleeps.
    let answer = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    go_on(i32::try_from(answer).unwrap_or(-1), child)
}

/// `fork(2)` through the 32-bit system call entry.
#[cfg(target_arch = "x86_64")]
pub fn fork_32bit(child: impl FnOnce()) -> i32 {
    const FORK: u64 = 2;
    let answer: u64;
    // SAFETY: the entry preserves all registers but the answer's; r8 to r11
    // were not preserved by old kernels. The child has a copy of this stack.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") FORK => answer,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    go_on(i32::try_from(answer.cast_signed()).unwrap_or(-1), child)
}

/// There is no such entry on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn fork_32bit(_child: impl FnOnce()) -> i32 {
    panic!("this architecture has no 32-bit system call entry")
}

/// Whether [`fork_32bit`] works here. Where it does not, who tries is killed,
/// so the trying is done by another process.
pub fn has_32bit_syscalls() -> bool {
    cfg!(target_arch = "x86_64")
        && Command::new(crate::victim_binary())
            .arg("can-fork-32bit")
            .status()
            .is_ok_and(|status| status.success())
}

fn go_on(answer: i32, child: impl FnOnce()) -> i32 {
    if answer == 0 {
        child();
        exit_now(0);
    }
    assert!(answer > 0, "fork: {}", std::io::Error::last_os_error());
    answer
}

/// Starts a program as `vfork(2)` does: on the caller's memory, while the
/// caller waits.
pub fn vfork_exec(program: &CString, arguments: &[CString]) -> i32 {
    extern "C" fn child(call: *mut c_void) -> i32 {
        // SAFETY: the pointer is to `call` below, whose owner waits in clone.
        let (program, arguments) = unsafe { *call.cast::<(*const i8, *const *const i8)>() };
        // SAFETY: both end with NUL and null, and live in the waiting parent.
        unsafe {
            libc::execv(program, arguments);
            libc::_exit(127)
        }
    }
    let mut pointers: Vec<*const i8> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let mut call = (program.as_ptr(), pointers.as_ptr());
    let mut stack = vec![0_u128; 4096];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is aligned, 64 KiB, and used by nobody else; the
    // caller sleeps until the child has left it.
    let answer = unsafe {
        libc::clone(
            child,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut call).cast(),
        )
    };
    assert!(answer > 0, "clone: {}", std::io::Error::last_os_error());
    answer
}

/// Ends the calling process without any cleaning up.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: takes nothing and does not return.
    unsafe { libc::_exit(code) }
}

/// Ends the calling thread alone, also when it is the leader of its group.
pub fn exit_thread() -> ! {
    // SAFETY: no destructor runs and the stack stays mapped; a victim's main
    // thread owns nothing that its other threads borrow.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("the thread has exited")
}

/// Ignores a signal, which children inherit.
pub fn ignore(signal: i32) {
    // SAFETY: SIG_IGN is a valid disposition and runs no code.
    let answer = unsafe { libc::signal(signal, libc::SIG_IGN) };
    assert!(answer != libc::SIG_ERR, "signal {signal}");
}

/// Lets a signal do what it does without a handler.
pub fn default(signal: i32) {
    // SAFETY: SIG_DFL is a valid disposition and runs no code of ours.
    let answer = unsafe { libc::signal(signal, libc::SIG_DFL) };
    assert!(answer != libc::SIG_ERR, "signal {signal}");
}

/// Runs `action` in the handler of SIGTERM. It runs on whatever was
/// interrupted, so the victim should only be sleeping.
pub fn on_term(action: fn()) {
    static ACTION: OnceLock<fn()> = OnceLock::new();
    extern "C" fn handler(_signal: i32) {
        if let Some(action) = ACTION.get() {
            action();
        }
    }
    ACTION.set(action).expect("one handler a victim");
    let handler: extern "C" fn(i32) = handler;
    // SAFETY: a victim with a handler sleeps and holds no lock, so code that
    // is not async-signal-safe cannot deadlock in it.
    let answer = unsafe { libc::signal(libc::SIGTERM, handler as libc::sighandler_t) };
    assert!(answer != libc::SIG_ERR, "signal SIGTERM");
}

/// Lets what `command` starts inherit a descriptor that closes on exec
/// otherwise. It has to be open until the command is spawned.
pub fn inherit(command: &mut Command, descriptor: RawFd) {
    let keep = move || {
        // SAFETY: F_SETFD changes a flag of a descriptor, or fails.
        match unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: fcntl is async-signal-safe, and nothing is allocated.
    unsafe { command.pre_exec(keep) };
}

/// Limits the descriptors of what `command` starts.
pub fn limit_descriptors(command: &mut Command, limit: u64) {
    let limit = libc::rlimit {
        rlim_cur: limit,
        rlim_max: limit,
    };
    // SAFETY: setrlimit reads the struct, which the closure owns, and is a
    // plain system call.
    let apply = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    };
    // SAFETY: see above; nothing is allocated.
    unsafe { command.pre_exec(apply) };
}

/// Has the kernel answer `errno` to `bpf(2)` of what `command` starts: to this
/// command of it (`enum bpf_cmd`), or to all of it.
pub fn refuse_bpf(command: &mut Command, bpf_command: Option<u32>, errno: i32) {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let is_it = match bpf_command {
        Some(number) => op(IF_EQUAL, 0, 1, number),
        None => op(IF_EQUAL, 0, 0, 0),
    };
    // Of `struct seccomp_data`: the call's number, and its first argument.
    let filter = [
        op(LOAD, 0, 0, 0),
        op(
            IF_EQUAL,
            0,
            3,
            u32::try_from(libc::SYS_bpf).expect("a number"),
        ),
        op(LOAD, 0, 0, 16),
        is_it,
        op(
            RETURN,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno.cast_unsigned(),
        ),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let apply = move || {
        let program = libc::sock_fprog {
            len: 6,
            filter: filter.as_ptr().cast_mut(),
        };
        // SAFETY: a plain system call; the kernel copies the filter, which the
        // closure owns, and whose length is as is said.
        match unsafe {
            libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            )
        } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: prctl is async-signal-safe, and nothing is allocated.
    unsafe { command.pre_exec(apply) };
}

/// Makes the standard input of what `command` starts its controlling terminal,
/// in a session of its own.
pub fn own_terminal(command: &mut Command) {
    let apply = || {
        // SAFETY: two plain system calls; the second one's argument is 0.
        let answer = unsafe {
            if libc::setsid() < 0 {
                -1
            } else {
                libc::ioctl(0, libc::TIOCSCTTY, 0)
            }
        };
        match answer {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: see above; nothing is allocated.
    unsafe { command.pre_exec(apply) };
}

/// Numbers in memory that is shared with all later children.
pub fn shared_numbers(count: usize) -> &'static [AtomicI32] {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, zeroed, which is never unmapped.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            count * size_of::<AtomicI32>(),
            protection,
            flags,
            -1,
            0,
        )
    };
    assert!(
        start != libc::MAP_FAILED,
        "mmap: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: page-aligned, as long as asked for, zero is a valid AtomicI32,
    // and everybody who shares it uses it as atomics.
    unsafe { std::slice::from_raw_parts(start.cast(), count) }
}
