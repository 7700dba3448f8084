//! The sidecar: HTTP and JSON over a Unix socket, and its numbers over TCP if
//! that is wanted.

mod answer;
mod body;
mod connection;
mod daemon;
mod exporter;
mod http;
mod listen;
mod refusal;
mod routes;
#[cfg(test)]
mod tests;

pub use daemon::{Config, Daemon, DaemonError};
pub use listen::{ListenError, Listener};
pub use routes::openapi_document;
