//! The paths of the API.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, FromRequestParts, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::OpenApi;

use super::answer::{Document, Failed};
use super::body::{JsonBody, QueryPart};
use crate::api;
use crate::reap::Report;
use crate::service::{Caller, Heard, Service, ServiceError};

type Shared = State<Arc<Service>>;
type Who = Extension<Caller>;

/// All paths.
pub(super) fn router(service: Arc<Service>) -> Router {
    let router = Router::new()
        .route("/v1/sessions", get(list_sessions).post(open_session))
        .route(
            "/v1/sessions/{session}",
            get(show_session).delete(release_session),
        )
        .route("/v1/sessions/{session}/close", post(close_session))
        .route("/v1/reaps", get(list_reaps).post(reap))
        .route("/v1/reaps/{reap}", get(show_reap).delete(give_up_reap))
        .route("/v1/reaps/{reap}/cancel", post(cancel_reap))
        .route("/v1/tree", get(tree))
        .route("/v1/processes/{process}/lineage", get(lineage))
        .route("/v1/processes/{process}/why", get(why))
        .route("/v1/keeps", post(keep))
        .route("/v1/events", get(events))
        .route("/v1/status", get(status))
        .route("/v1/openapi.json", get(openapi))
        .route("/metrics", get(metrics));
    or_else(router).with_state(service)
}

/// The one path that needs no permission.
pub(super) fn metrics_only(service: Arc<Service>) -> Router {
    let router = Router::new().route("/metrics", get(metrics));
    or_else(router).with_state(service)
}

/// What is answered to everything else.
fn or_else(router: Router<Arc<Service>>) -> Router<Arc<Service>> {
    router
        .fallback(async || Failed::new(api::ErrorCode::NotFound, "there is no such path"))
        .method_not_allowed_fallback(async || {
            Failed::new(
                api::ErrorCode::MethodNotAllowed,
                "the path does not know this method",
            )
        })
}

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "tracker",
        description = "The sidecar of tracker, over HTTP on a Unix socket. See docs/api.md.",
        license(name = "MIT OR Apache-2.0")
    ),
    paths(
        list_sessions,
        open_session,
        show_session,
        close_session,
        list_reaps,
        reap,
        show_reap,
        cancel_reap,
        give_up_reap,
        release_session,
        tree,
        lineage,
        why,
        keep,
        events,
        status,
        metrics
    ),
    components(schemas(api::ErrorBody, api::Event))
)]
struct Description;

/// The OpenAPI document, as `docs/openapi.json` has it.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    Description::openapi()
}

/// Runs what may block where it may, and writes the answer there as well: a
/// tree of 8,000 processes has megabytes.
async fn blocking<T: Serialize>(
    service: Arc<Service>,
    work: impl FnOnce(&Arc<Service>) -> Result<T, ServiceError> + Send + 'static,
) -> Result<Document, Failed> {
    let run = move || Document::new(&work(&service)?);
    tokio::task::spawn_blocking(run)
        .await
        .unwrap_or_else(|error| {
            Err(Failed::new(
                api::ErrorCode::Internal,
                format!("the request failed: {error}"),
            ))
        })
}

/// Sessions that the caller may see, oldest first
#[utoipa::path(get, path = "/v1/sessions", responses(
    (status = 200, body = api::SessionList), (status = "4XX", body = api::ErrorBody)
))]
async fn list_sessions(State(service): Shared, Extension(caller): Who) -> Result<Document, Failed> {
    blocking(service, move |service| service.sessions(caller)).await
}

/// Open a session for a process
#[utoipa::path(post, path = "/v1/sessions", request_body = api::OpenSession, responses(
    (status = 200, body = api::SessionInfo), (status = "4XX", body = api::ErrorBody)
))]
async fn open_session(
    State(service): Shared,
    Extension(caller): Who,
    JsonBody(request): JsonBody<api::OpenSession>,
) -> Result<Document, Failed> {
    blocking(service, move |service| {
        service.open_session(caller, &request)
    })
    .await
}

/// One session, by id or name
#[utoipa::path(get, path = "/v1/sessions/{session}", params(("session", description = "Id or name")),
    responses((status = 200, body = api::SessionInfo), (status = "4XX", body = api::ErrorBody)
))]
async fn show_session(
    State(service): Shared,
    Extension(caller): Who,
    Segment(session): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.session(caller, &session)).await
}

/// End what a session owns, and the session; answers when it is over
#[utoipa::path(post, path = "/v1/sessions/{session}/close", request_body = api::CloseSession,
    params(("session", description = "Id or name")), responses(
    (status = 200, body = Report), (status = "4XX", body = api::ErrorBody)
))]
async fn close_session(
    State(service): Shared,
    Extension(caller): Who,
    Segment(session): Segment,
    JsonBody(request): JsonBody<api::CloseSession>,
) -> Result<Document, Failed> {
    outcome(service, move |service| {
        service.close_session(caller, &session, &request)
    })
    .await
}

/// End processes; answers when it is over
#[utoipa::path(post, path = "/v1/reaps", request_body = api::ReapRequest, responses(
    (status = 200, body = Report), (status = "4XX", body = api::ErrorBody)
))]
async fn reap(
    State(service): Shared,
    Extension(caller): Who,
    JsonBody(request): JsonBody<api::ReapRequest>,
) -> Result<Document, Failed> {
    outcome(service, move |service| service.reap(caller, &request)).await
}

/// Waits for the outcome of a reap. It goes on when nobody waits any more.
async fn outcome(
    service: Arc<Service>,
    begin: impl FnOnce(&Arc<Service>) -> Result<crate::service::Outcome, ServiceError> + Send + 'static,
) -> Result<Document, Failed> {
    let started = tokio::task::spawn_blocking(move || begin(&service)).await;
    let gone = || {
        Failed::new(
            api::ErrorCode::Internal,
            "the reap ended without an outcome",
        )
    };
    let outcome = started.map_err(|_| gone())??;
    let report = outcome.await.map_err(|_| gone())??;
    Document::new(&report)
}

/// The last 200 reaps that the caller may see, newest first, without reports
#[utoipa::path(get, path = "/v1/reaps", params(api::ReapsQuery), responses(
    (status = 200, body = api::ReapList), (status = "4XX", body = api::ErrorBody)
))]
async fn list_reaps(
    State(service): Shared,
    Extension(caller): Who,
    QueryPart(query): QueryPart<api::ReapsQuery>,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.reaps(caller, &query)).await
}

/// One reap, with its report when it is over
#[utoipa::path(get, path = "/v1/reaps/{reap}", params(("reap", description = "Id")), responses(
    (status = 200, body = api::Reap), (status = "4XX", body = api::ErrorBody)
))]
async fn show_reap(
    State(service): Shared,
    Extension(caller): Who,
    Segment(reap): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.one_reap(caller, &reap)).await
}

/// Stop a reap for good: no further signal, no further attempt; answers at once
#[utoipa::path(delete, path = "/v1/reaps/{reap}", params(("reap", description = "Id")),
    responses((status = 200, body = api::Reap), (status = "4XX", body = api::ErrorBody)
))]
async fn give_up_reap(
    State(service): Shared,
    Extension(caller): Who,
    Segment(reap): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.give_up_reap(caller, &reap)).await
}

/// Stop an attempt that is under way; answers at once, its report comes soon
#[utoipa::path(post, path = "/v1/reaps/{reap}/cancel", params(("reap", description = "Id")),
    responses((status = 200, body = api::Reap), (status = "4XX", body = api::ErrorBody)
))]
async fn cancel_reap(
    State(service): Shared,
    Extension(caller): Who,
    Segment(reap): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.cancel_reap(caller, &reap)).await
}

/// End a session, and leave its members alone
#[utoipa::path(delete, path = "/v1/sessions/{session}",
    params(("session", description = "Id or name")), responses(
    (status = 200, body = api::SessionInfo), (status = "4XX", body = api::ErrorBody)
))]
async fn release_session(
    State(service): Shared,
    Extension(caller): Who,
    Segment(session): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| {
        service.release_session(caller, &session)
    })
    .await
}

/// Processes, each with who created it
#[utoipa::path(get, path = "/v1/tree", params(api::TreeQuery), responses(
    (status = 200, body = api::Tree), (status = "4XX", body = api::ErrorBody)
))]
async fn tree(
    State(service): Shared,
    Extension(caller): Who,
    QueryPart(query): QueryPart<api::TreeQuery>,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.tree(caller, &query)).await
}

/// The creators of a process up to the root, dead ones too
#[utoipa::path(get, path = "/v1/processes/{process}/lineage",
    params(("process", description = "PID, PID@START or self")), responses(
    (status = 200, body = api::Lineage), (status = "4XX", body = api::ErrorBody)
))]
async fn lineage(
    State(service): Shared,
    Extension(caller): Who,
    Segment(process): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.lineage(caller, &process)).await
}

/// Who owns a process, why, and what a reap would do with it
#[utoipa::path(get, path = "/v1/processes/{process}/why",
    params(("process", description = "PID, PID@START or self")), responses(
    (status = 200, body = api::Why), (status = "4XX", body = api::ErrorBody)
))]
async fn why(
    State(service): Shared,
    Extension(caller): Who,
    Segment(process): Segment,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.why(caller, &process)).await
}

/// Spare a process and its descendants in every reap
#[utoipa::path(post, path = "/v1/keeps", request_body = api::Keep, responses(
    (status = 200, body = api::Process), (status = "4XX", body = api::ErrorBody)
))]
async fn keep(
    State(service): Shared,
    Extension(caller): Who,
    JsonBody(request): JsonBody<api::Keep>,
) -> Result<Document, Failed> {
    blocking(service, move |service| service.keep(caller, &request)).await
}

/// What happens to processes from now on, as server-sent events
#[utoipa::path(get, path = "/v1/events", params(api::EventsQuery), responses(
    (status = 200, body = api::Event, content_type = "text/event-stream"),
    (status = "4XX", body = api::ErrorBody)
))]
async fn events(
    State(service): Shared,
    Extension(caller): Who,
    QueryPart(query): QueryPart<api::EventsQuery>,
) -> Result<Response, Failed> {
    let mut subscriber = service.subscribe(caller, &query)?;
    let (send, receive) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(heard) = subscriber.next().await {
            let event = match heard {
                Heard::Event(event) => sse_event(&event),
                Heard::Missed(count) => Some(
                    sse::Event::default()
                        .event("missed")
                        .data(format!("{{\"missed\":{count}}}")),
                ),
            };
            let Some(event) = event else { continue };
            // The reader is gone.
            if send.send(Ok::<_, Infallible>(event)).await.is_err() {
                return;
            }
        }
    });
    let keep_alive = KeepAlive::new().interval(Duration::from_secs(15));
    Ok(Sse::new(ReceiverStream::new(receive))
        .keep_alive(keep_alive)
        .into_response())
}

fn sse_event(event: &api::Event) -> Option<sse::Event> {
    let kind = match event.kind {
        api::EventKind::Fork => "fork",
        api::EventKind::Exec => "exec",
        api::EventKind::Exit => "exit",
    };
    sse::Event::default().event(kind).json_data(event).ok()
}

/// How the daemon is
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = api::Status)))]
async fn status(State(service): Shared) -> Result<Document, Failed> {
    blocking(service, |service| service.status()).await
}

/// Numbers for Prometheus
#[utoipa::path(get, path = "/metrics", responses((status = 200, body = String)))]
async fn metrics(State(service): Shared) -> Result<Response, Failed> {
    let text = tokio::task::spawn_blocking(move || service.metrics()).await;
    let text = text.map_err(|error| Failed::new(api::ErrorCode::Internal, error.to_string()))??;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(openapi_document())
}

/// The one variable part of a path.
struct Segment(String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Segment, Failed> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Segment(text)),
            Err(error) => Err(Failed::new(api::ErrorCode::BadRequest, error.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_openapi_document_is_the_one_that_is_served() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
        let mut made = super::openapi_document().to_pretty_json().unwrap();
        made.push('\n');
        if std::env::var_os("TRACKER_WRITE_OPENAPI").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        let how = "run `TRACKER_WRITE_OPENAPI=1 cargo test -p tracker --lib openapi` and commit it";
        assert!(
            committed == made,
            "docs/openapi.json is not what the types say: {how}"
        );
    }
}
