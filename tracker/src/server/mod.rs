//! The sidecar's transport: HTTP and JSON over a Unix socket.

mod answer;
mod body;
mod connection;
mod listen;
mod routes;

use std::io;
use std::sync::Arc;

pub use listen::{ListenError, Listener};
pub use routes::openapi_document;

use crate::service::Service;

/// Answers requests until `stop` is ready; those under way are answered after
/// that. Members of `group` may do all that root may.
pub async fn serve(
    listener: &Listener,
    service: Arc<Service>,
    group: Option<u32>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let router = routes::router(Arc::clone(&service));
    let proc = crate::process::Proc::open().map_err(io::Error::other)?;
    connection::accept(listener.to_tokio()?, router, &proc, group, stop).await;
    Ok(())
}
