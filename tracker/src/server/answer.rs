//! Answers, and errors as the JSON that docs/api.md promises.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::api::{ErrorBody, ErrorCode, ErrorDetail};
use crate::service::ServiceError;

/// A request that failed.
#[derive(Debug)]
pub(super) struct Failed {
    code: ErrorCode,
    message: String,
}

impl Failed {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Failed {
        Failed {
            code,
            message: message.into(),
        }
    }
}

impl From<ServiceError> for Failed {
    fn from(error: ServiceError) -> Failed {
        let code = error.code();
        if code == ErrorCode::Internal {
            tracing::error!("a request failed: {error}");
        }
        Failed::new(code, error.to_string())
    }
}

impl Failed {
    /// The body of the answer.
    fn body(&self) -> Option<Vec<u8>> {
        // What was sent may be part of the message; it stays one line.
        let message: String = self
            .message
            .chars()
            .map(|char| if char.is_control() { ' ' } else { char })
            .collect();
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code,
                message,
            },
        };
        let mut text = serde_json::to_vec(&body).ok()?;
        // For people with curl.
        text.push(b'\n');
        Some(text)
    }

    /// The whole answer as it goes over the wire, for what was not a request
    /// that the router could see. The connection ends with it.
    pub(super) fn on_the_wire(&self, status: StatusCode) -> Vec<u8> {
        let body = self.body().unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        [head.into_bytes(), body].concat()
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self.body() {
            Some(body) => {
                let kind = [(CONTENT_TYPE, "application/json")];
                (self.status(), kind, body).into_response()
            }
            None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

/// A document, already written where it may take time.
pub(super) struct Document(Vec<u8>);

impl Document {
    pub(super) fn new(value: &impl Serialize) -> Result<Document, Failed> {
        let mut text = serde_json::to_vec(value).map_err(|error| {
            Failed::new(
                ErrorCode::Internal,
                format!("cannot write the answer: {error}"),
            )
        })?;
        // For people with curl.
        text.push(b'\n');
        Ok(Document(text))
    }
}

impl IntoResponse for Document {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
