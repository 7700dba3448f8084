//! The sidecar: HTTP and JSON over a Unix socket.

mod answer;
mod body;
mod connection;
mod daemon;
mod listen;
mod routes;
#[cfg(test)]
mod tests;

pub use daemon::{Config, Daemon, DaemonError};
pub use listen::{ListenError, Listener};
pub use routes::openapi_document;
