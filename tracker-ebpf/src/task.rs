//! Kernel structs, read at the offsets that the loader found in the kernel's BTF.

use aya_ebpf::Global;
use tracker_ebpf::COMM_LEN;

use crate::settings;

/// A typed pointer that the kernel handed to a BTF program, or that was read
/// through one. A load through it is checked by the verifier at load time, and
/// reads 0 instead of faulting should the pointer be bad.
#[derive(Clone, Copy)]
pub(crate) struct Struct(*const u8);

impl Struct {
    /// The pointer.
    #[inline(always)]
    pub(crate) fn at(pointer: *const u8) -> Struct {
        Struct(pointer)
    }

    /// The field at `offset`.
    #[inline(always)]
    pub(crate) fn field<T: Copy>(self, offset: &Global<u32>) -> T {
        // SAFETY: the verifier accepts the program only if the kernel's type
        // has a field of this size at this offset.
        unsafe { *self.0.add(offset.load() as usize).cast::<T>() }
    }

    /// The pointer at `offset`.
    #[inline(always)]
    pub(crate) fn follow(self, offset: &Global<u32>) -> Struct {
        Struct(self.field(offset))
    }

    /// The address itself.
    #[inline(always)]
    pub(crate) fn address(self) -> *const u8 {
        self.0
    }
}

/// A `task_struct`: a thread.
#[derive(Clone, Copy)]
pub(crate) struct Task(pub(crate) Struct);

impl Task {
    /// The thread's own id.
    #[inline(always)]
    pub(crate) fn pid(self) -> u32 {
        self.0.field(&settings::TASK_PID)
    }

    /// The id of its thread group: what user space calls the pid.
    #[inline(always)]
    pub(crate) fn tgid(self) -> u32 {
        self.0.field(&settings::TASK_TGID)
    }

    /// When this thread started; a process starts when its leader does.
    #[inline(always)]
    pub(crate) fn start_ns(self) -> u64 {
        self.0.field(&settings::TASK_START)
    }

    /// The thread group leader.
    #[inline(always)]
    pub(crate) fn leader(self) -> Task {
        Task(self.0.follow(&settings::TASK_LEADER))
    }

    /// The parent, which need not be the creator.
    #[inline(always)]
    pub(crate) fn parent(self) -> Task {
        Task(self.0.follow(&settings::TASK_PARENT))
    }

    /// The name.
    #[inline(always)]
    pub(crate) fn comm(self) -> [u8; COMM_LEN] {
        // Two loads instead of sixteen.
        let words: [u64; 2] = self.0.field(&settings::TASK_COMM);
        // SAFETY: any bits are valid in both types, which are of one size.
        unsafe { core::mem::transmute(words) }
    }
}
