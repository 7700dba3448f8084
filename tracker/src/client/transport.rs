//! One request over one connection.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::Client;
use super::error::ClientError;
use crate::api::ErrorBody;

impl Client {
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::GET, path, Bytes::new()).await
    }

    /// The text of an answer.
    pub(super) async fn get_text(&self, path: &str) -> Result<Bytes, ClientError> {
        let exchange = async { text(self.send(Method::GET, path, Bytes::new()).await?).await };
        self.in_time(exchange).await
    }

    pub(super) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.ask(Method::DELETE, path, Bytes::new()).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(body).map_err(|e| ClientError::Request(e.to_string()))?;
        self.ask(Method::POST, path, body.into()).await
    }

    /// The body of an answer that does not end.
    pub(super) async fn stream(&self, path: &str) -> Result<Incoming, ClientError> {
        let response = self
            .in_time(self.send(Method::GET, path, Bytes::new()))
            .await?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        Err(refusal(response).await)
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let exchange = async { read(self.send(method, path, body).await?).await };
        self.in_time(exchange).await
    }

    async fn in_time<T>(
        &self,
        exchange: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let Some(waited) = self.timeout else {
            return exchange.await;
        };
        match tokio::time::timeout(waited, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(ClientError::NoAnswer {
                socket: self.socket.clone(),
                waited,
            }),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let stream =
            UnixStream::connect(&self.socket)
                .await
                .map_err(|source| ClientError::NoDaemon {
                    socket: self.socket.clone(),
                    source,
                })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer, or with the future that waits for it.
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "tracker")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| ClientError::Request(error.to_string()))?;
        Ok(sender.send_request(request).await?)
    }
}

async fn read<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, ClientError> {
    let text = text(response).await?;
    serde_json::from_slice(&text).map_err(|error| ClientError::NotUnderstood(error.to_string()))
}

async fn text(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    if !response.status().is_success() {
        return Err(refusal(response).await);
    }
    Ok(response.into_body().collect().await?.to_bytes())
}

async fn refusal(response: Response<Incoming>) -> ClientError {
    let status = response.status();
    match response
        .into_body()
        .collect()
        .await
        .map(http_body_util::Collected::to_bytes)
    {
        Ok(body) => match serde_json::from_slice::<ErrorBody>(&body) {
            Ok(body) => ClientError::Refused(body.error),
            Err(_) => ClientError::NotUnderstood(format!("status {status}")),
        },
        Err(error) => ClientError::Broken(error),
    }
}
