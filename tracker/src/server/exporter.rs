//! The numbers for Prometheus over TCP. Whoever reaches the port may read them,
//! and nothing else: there is no way from here to the API.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::Semaphore;

use super::http;
use super::listen::ListenError;

/// How many connections there may be. Prometheus needs one.
const MAX: usize = 64;

/// A port that nobody is answered on yet.
#[derive(Debug)]
pub(super) struct Exporter {
    listener: TcpListener,
}

impl Exporter {
    pub(super) fn bind(address: SocketAddr) -> Result<Exporter, ListenError> {
        let bind = || {
            let listener = TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            tracing::info!("metrics at http://{bound}/metrics");
            if !bound.ip().is_loopback() {
                tracing::warn!("whoever reaches {bound} can read the metrics");
            }
            Ok(Exporter { listener })
        };
        bind().map_err(|source| ListenError::Port { address, source })
    }

    /// Answers until the runtime ends. Nobody is waited for then: a scrape that
    /// fails is made again.
    pub(super) fn spawn(self, router: Router) -> io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let places = Arc::new(Semaphore::new(MAX));
        tokio::spawn(async move {
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Most likely out of descriptors: not to be tried at once.
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        continue;
                    }
                };
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                    tokio::spawn(http::turn_away(stream));
                    continue;
                };
                let router = router.clone();
                tokio::spawn(async move {
                    http::serve(stream, router, std::future::pending()).await;
                    drop(place);
                });
            }
        });
        Ok(())
    }
}
