//! How a request that failed is answered.

use serde::{Deserialize, Serialize};

/// The body of every answer that is not a success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorDetail {
    /// For programs.
    pub code: ErrorCode,
    /// For people: one line.
    pub message: String,
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the request makes no sense: malformed JSON, an unknown field, a pid that cannot be.
    BadRequest,
    /// 403: the caller may not do that, or nobody may.
    Forbidden,
    /// 404: there is no such path, session, process or reap, or the process is dead.
    NotFound,
    /// 405: the path does not know this method.
    MethodNotAllowed,
    /// 408: the request did not arrive in time.
    Timeout,
    /// 409: the name belongs to several sessions, the pid to another process,
    /// or a reap of the session is under way.
    Conflict,
    /// 409: it could be done, and must not be: the directory to reap is there.
    Refused,
    /// 413: the request is larger than 64 KiB.
    TooLarge,
    /// 415: the body is not JSON.
    UnsupportedMediaType,
    /// 500: the daemon failed: the disk is full, the probe does not answer.
    Internal,
    /// 503: too many connections or requests, or the daemon is shutting down.
    Unavailable,
}

impl ErrorCode {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            ErrorCode::BadRequest => 400,
            ErrorCode::Forbidden => 403,
            ErrorCode::NotFound => 404,
            ErrorCode::MethodNotAllowed => 405,
            ErrorCode::Timeout => 408,
            ErrorCode::Conflict | ErrorCode::Refused => 409,
            ErrorCode::TooLarge => 413,
            ErrorCode::UnsupportedMediaType => 415,
            ErrorCode::Internal => 500,
            ErrorCode::Unavailable => 503,
        }
    }
}
