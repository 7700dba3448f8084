//! tracker finds and ends every process that a command left behind.
//!
//! A process is `(pid, start time)` everywhere in this crate
//! ([`process::ProcessId`]); nothing is ever signalled by a bare pid or by its
//! process group. Who belongs to a session is recorded when a process is
//! created ([`source`]), kept in a map that remembers the dead ancestors of the
//! living ([`lineage`]), and used by a teardown that goes on until nothing is
//! left ([`reap`]) and says truthfully whether that is proven.
//!
//! A program uses it through [`embedded::Tracker`], which tracks by itself, or
//! [`client::Client`], which asks the sidecar (`tracker serve`): both take the
//! requests and give the answers of [`api`].
//!
//! Dependencies between the modules point one way: `cli -> server, client,
//! embedded -> service -> store, reap -> session -> source -> lineage -> process`.

pub mod api;
pub mod cli;
pub mod client;
pub mod embedded;
pub mod lineage;
pub mod process;
pub mod reap;
pub mod server;
pub mod service;
pub mod session;
pub mod source;
pub mod standalone;
pub mod store;
