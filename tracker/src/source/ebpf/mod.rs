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
mod maps;
mod offsets;
mod ring;
mod source;

pub use counters::Counters;
pub use error::LoadError;
pub use load::LoadOptions;
pub use source::EbpfSource;
