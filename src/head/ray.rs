//! Ray's two published shapes, so that whatever reads Ray's Train API reads TrainHead. Like Ray they answer with all
//! runs, but a piece at a time: however many there are, only a few are in memory at once.

use std::io;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::StatusCode,
    response::Response,
};
use futures_util::stream;
use serde::Deserialize;
use tracing::warn;
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::ApiQuery,
    problem::{AnyProblem, Problem},
    router::Head,
    runs::{json, page_size},
};
use crate::{
    model::{RunRecord, ray_v1::RayV1Run, ray_v2::RayV2Run, view::StatsOf},
    state::{PageToken, StateError},
};

/// Runs in memory at once.
const CHUNK: u32 = 100;

/// Which runs are asked for: all, as Ray answers, unless a page is named.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RayParams {
    /// How many; all if neither this nor a token is given.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
}

/// Runs in the shape of Ray Train V1.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the OpenAPI document only")]
pub(super) struct RayV1RunList<'a> {
    /// The runs, newest start first.
    train_runs: Vec<RayV1Run<'a>>,
    /// Only where a page was asked for: where to go on; null on the last page.
    #[schema(required = false)]
    next_page_token: Option<String>,
}

/// Runs in the shape of Ray Train V2.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the OpenAPI document only")]
pub(super) struct RayV2RunList<'a> {
    /// The runs, newest start first.
    train_runs: Vec<RayV2Run<'a>>,
    /// Only where a page was asked for: where to go on; null on the last page.
    #[schema(required = false)]
    next_page_token: Option<String>,
}

/// Lists runs in the shape of Ray Train V1. In Ray's path `v2` is the version of the API.
#[utoipa::path(get, path = "/api/train/v2/runs", tag = "read", params(RayParams),
    responses((status = 200, body = inline(RayV1RunList)), AnyProblem))]
pub(super) async fn list_ray_v1_runs(
    State(head): State<Head>,
    ApiQuery(params): ApiQuery<RayParams>,
) -> Result<Response, Problem> {
    answer(head, &params, |record, _, stats| serde_json::to_vec(&RayV1Run::of(record, stats))).await
}

/// Lists runs in the shape of Ray Train V2. In Ray's path `v2` is the version of Ray Train, `v1` that of the API.
#[utoipa::path(get, path = "/api/train/v2/runs/v1", tag = "read", params(RayParams),
    responses((status = 200, body = inline(RayV2RunList)), AnyProblem))]
pub(super) async fn list_ray_v2_runs(
    State(head): State<Head>,
    ApiQuery(params): ApiQuery<RayParams>,
) -> Result<Response, Problem> {
    answer(head, &params, |record, storage, stats| serde_json::to_vec(&RayV2Run::of(record, storage, stats)))
        .await
}

/// Makes the JSON of a run, of its directory and of what its workers use right now.
type WriteRun = fn(&RunRecord, &str, &StatsOf) -> serde_json::Result<Vec<u8>>;

async fn answer(head: Head, params: &RayParams, write: WriteRun) -> Result<Response, Problem> {
    let RayParams { page_size: asked, page_token } = params;
    let paged = asked.is_some() || page_token.is_some();
    let mut walk = Walk {
        head,
        write,
        from: page_token.as_deref().map(PageToken::parse).transpose()?,
        left: if paged { Some(page_size(*asked)?) } else { None },
        begun: false,
        done: false,
    };
    // What is wrong with the request or the store shows at the first piece, when it can still be said.
    let mut first = br#"{"train_runs":["#.to_vec();
    first.extend(walk.next().await?);
    let body = stream::unfold((Some(first), walk), |(first, mut walk)| async move {
        let piece = match first {
            Some(first) => Ok(first),
            None if walk.done => return None,
            // A list that breaks off must not look like one that is complete: the connection is broken instead.
            None => walk.next().await.map_err(|e| {
                warn!("a list broke off: {e}");
                walk.done = true;
                io::Error::other(e)
            }),
        };
        Some((piece.map(Bytes::from), (None, walk)))
    });
    Ok(json(StatusCode::OK, Body::from_stream(body)))
}

/// A walk through the list.
struct Walk {
    head: Head,
    write: WriteRun,
    from: Option<PageToken>,
    /// How many runs may still come; none if all are asked for.
    left: Option<u32>,
    /// Whether a run was written.
    begun: bool,
    done: bool,
}

impl Walk {
    /// The next piece of the answer.
    async fn next(&mut self) -> Result<Vec<u8>, StateError> {
        let size = self.left.map_or(CHUNK, |left| left.min(CHUNK));
        let mut out = Vec::new();
        let page = self.head.state.record_page(size, self.from.take()).await?;
        for record in &page.records {
            let nothing = StatsOf::new();
            let stats = page.stats.get(&record.run.id).unwrap_or(&nothing);
            let storage = self.head.state.data_dir().run_dir(&record.run.id);
            match (self.write)(record, &storage.to_string_lossy(), stats) {
                Ok(run) => {
                    out.extend_from_slice(if self.begun { b"," } else { b"" });
                    out.extend_from_slice(&run);
                    self.begun = true;
                }
                Err(e) => warn!(run.id = %record.run.id, "run {} is left out of a list: {e}", record.run.id),
            }
        }
        self.left = self.left.map(|left| left - size);
        self.done = page.next.is_none() || self.left == Some(0);
        if self.done {
            out.push(b']');
            if self.left.is_some() {
                let next = serde_json::json!(page.next.as_ref().map(ToString::to_string));
                out.extend_from_slice(format!(",\"next_page_token\":{next}").as_bytes());
            }
            out.push(b'}');
        }
        self.from = page.next;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        body::to_bytes,
        http::{Request, header},
    };
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use crate::{
        head::{AllowedHosts, Assets, HeadOptions, router},
        model::commands::RegisterRun,
        state::{DataDir, StateOptions, start},
        store,
    };

    #[tokio::test]
    async fn a_row_that_cannot_be_read_costs_its_run_its_place_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(dir.path()).unwrap();
        let database = data_dir.database();
        let lock = data_dir.try_lock().unwrap().unwrap();
        let options = StateOptions::new(data_dir, lock);
        let (state, task) = start(options).await.unwrap();
        for i in 0..4 {
            let body = json!({"id": format!("r{i}"), "controller": {"actor_id": "c"}, "start_time_ms": 1_700_000_000_000_i64 - i});
            state.register(serde_json::from_value::<RegisterRun>(body).unwrap()).await.unwrap();
        }
        let (mut writer, _) = store::open(&database).await.unwrap();
        for bad in [
            "update runs set phase = 'NONSENSE' where id = 'r0'",
            "update runs set tags = '{' where id = 'r3'",
            // A value that is weird and can be read is shown.
            "update runs set start_time_ms = 9223372036854775807 where id = 'r2'",
            "insert into attempts (run_id, ordinal, attempt_id, status, start_time_ms, num_workers)
                values ('r2', 0, 'a', 'PENDING', -1, 4294967295)",
        ] {
            writer.spoil(bad).await;
        }
        let router = router(HeadOptions {
            state,
            hosts: AllowedHosts::loopback_and([]),
            base_path: "/".into(),
            assets: Assets::Embedded,
            stop: CancellationToken::new(),
        });
        for (path, left) in [
            ("/api/train/v2/runs", json!(["r1", "r2"])),
            ("/api/train/v2/runs/v1", json!(["r1", "r2"])),
            ("/api/train/v2/runs/v1?page_size=1", json!([])),
            ("/api/train/v2/runs/v1?page_size=2", json!(["r1"])),
        ] {
            let request = Request::get(path).header(header::HOST, "localhost").body(super::Body::empty());
            let response = router.clone().oneshot(request.unwrap()).await.unwrap();
            assert_eq!(response.status(), 200, "{path}");
            let bytes = to_bytes(response.into_body(), 1 << 24).await.unwrap();
            let list: Value = serde_json::from_slice(&bytes).unwrap();
            let ids: Value =
                list["train_runs"].as_array().unwrap().iter().map(|run| run["id"].clone()).collect();
            assert_eq!(ids, left, "{path}");
        }
        drop(router);
        assert!(task.shutdown(std::time::Duration::from_secs(10)).await);
    }
}
