//! The kernel probe as a source: membership from its map, history from its
//! ring buffer.

mod adopt;
mod btf;
mod census;
mod counters;
mod decode;
mod error;
mod known;
mod load;
mod log;
mod maps;
mod offsets;
mod pins;
mod ring;
mod source;

pub use counters::Counters;
pub use error::LoadError;
pub use load::LoadOptions;
pub use pins::{PinsError, unpin};
pub use source::EbpfSource;

/// Whether the kernel describes its types.
pub(super) fn has_btf() -> bool {
    std::path::Path::new(offsets::PATH).exists()
}

/// Whether `sched_process_exit` says itself that the thread group is dead.
pub(super) fn exit_has_group_dead() -> Option<bool> {
    let data = std::fs::read(offsets::PATH).ok()?;
    let layout = offsets::Layout::find(&data).ok()?;
    Some(layout.exit_has_group_dead)
}
