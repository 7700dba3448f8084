//! What a request carries, read with limits, and errors as JSON.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::answer::Failed;
use crate::api::ErrorCode;

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 64 << 10;
/// How long the body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A body of JSON. An empty one is `{}`.
pub(super) struct JsonBody<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &S) -> Result<JsonBody<T>, Failed> {
        let (parts, body) = request.into_parts();
        let bytes = read(&parts, body).await?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        if !bytes.is_empty() && !is_json(&parts) {
            return Err(Failed::new(
                ErrorCode::UnsupportedMediaType,
                "the body must be JSON, with 'content-type: application/json'",
            ));
        }
        serde_json::from_slice(text)
            .map(JsonBody)
            .map_err(|error| Failed::new(ErrorCode::BadRequest, format!("bad request: {error}")))
    }
}

async fn read(parts: &Parts, body: Body) -> Result<bytes::Bytes, Failed> {
    let too_large = || {
        Failed::new(
            ErrorCode::TooLarge,
            format!("a request has at most {MAX_BODY} bytes"),
        )
    };
    // Who says how much is coming need not send it.
    let announced = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    if announced
        .and_then(|value| value.parse().ok())
        .is_some_and(|len: u64| len > MAX_BODY as u64)
    {
        return Err(too_large());
    }
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect());
    match collected.await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err(Failed::new(
            ErrorCode::BadRequest,
            format!("the body cannot be read: {error}"),
        )),
        Err(_) => Err(Failed::new(
            ErrorCode::Timeout,
            "the body did not arrive in time",
        )),
    }
}

/// `curl -d` says that its body is a form when it is not told otherwise. What
/// browsers may send to other sites without asking is not a worry here: they
/// do not reach a Unix socket.
fn is_json(parts: &Parts) -> bool {
    let Some(kind) = parts.headers.get(CONTENT_TYPE) else {
        return true;
    };
    let kind = kind.to_str().unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/x-www-form-urlencoded"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

/// The parameters after the `?`.
pub(super) struct QueryPart<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for QueryPart<T> {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<QueryPart<T>, Failed> {
        axum::extract::Query::try_from_uri(&parts.uri)
            .map(|axum::extract::Query(query)| QueryPart(query))
            .map_err(|error| Failed::new(ErrorCode::BadRequest, error.body_text()))
    }
}
