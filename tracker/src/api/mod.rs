//! The types of the sidecar's API, version 1: what requests and answers look
//! like as JSON. Server and client share them, and the OpenAPI document is made
//! from them.

mod error;
mod process_ref;
mod request;
mod response;

pub use error::{ErrorBody, ErrorCode, ErrorDetail};
pub use process_ref::ProcessRef;
pub use request::{
    CloseSession, EventsQuery, Keep, MAX_GRACE_MS, MAX_NAME_LEN, OpenSession, ReapRequest,
    ReapTarget, ReapsQuery, TreeQuery,
};
pub use response::{
    Ancestor, Event, EventKind, Exit, Lineage, Process, ProcessKey, Reap, ReapList, SessionInfo,
    SessionList, Status, Streamed, Tree, Verdict, Why,
};
