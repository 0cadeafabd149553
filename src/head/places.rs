//! Where runs belong and where they run: experiments and nodes.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{
    extract::ApiQuery,
    problem::{AnyProblem, Problem},
    router::Head,
    runs::page_size,
};
use crate::{
    base::Timestamp,
    state::{Experiment, NodeView},
};

/// Which experiments are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExperimentParams {
    /// How many.
    #[param(minimum = 1, maximum = 1000)]
    page_size: Option<u32>,
    /// The `next_page_token` of the answer before.
    page_token: Option<String>,
}

/// A page of the experiments.
#[derive(Serialize, ToSchema)]
pub(super) struct ExperimentList {
    /// By name.
    experiments: Vec<Experiment>,
    /// Where to go on; null on the last page.
    next_page_token: Option<String>,
}

/// Experiments by name, with their runs counted. Runs in the trash do not count.
#[utoipa::path(get, path = "/api/train/experiments", tag = "read", params(ExperimentParams),
    responses((status = 200, body = inline(ExperimentList)), AnyProblem))]
pub(super) async fn list_experiments(
    State(head): State<Head>,
    ApiQuery(params): ApiQuery<ExperimentParams>,
) -> Result<Json<ExperimentList>, Problem> {
    let limit = usize::try_from(page_size(params.page_size)?).unwrap_or(1);
    let mut experiments = head.state.experiments(params.page_token.as_deref(), limit + 1).await?;
    let more = experiments.len() > limit;
    experiments.truncate(limit);
    let next_page_token = experiments.last().filter(|_| more).map(|e| e.name.clone());
    Ok(Json(ExperimentList { experiments, next_page_token }))
}

/// All nodes.
#[derive(Serialize, ToSchema)]
pub(super) struct NodeList {
    /// By id.
    nodes: Vec<NodeView>,
    /// The server's time of this answer.
    server_time_ms: Timestamp,
}

/// Hosts that workers are on, were on, or could be placed on: what they have, what attempts have reserved of it, who is
/// on them, and for the head's own host its devices.
#[utoipa::path(get, path = "/api/train/nodes", tag = "read",
    responses((status = 200, body = inline(NodeList)), AnyProblem))]
pub(super) async fn list_nodes(State(head): State<Head>) -> Result<Json<NodeList>, Problem> {
    let nodes = head.state.nodes().await?;
    Ok(Json(NodeList { nodes, server_time_ms: head.state.now() }))
}
