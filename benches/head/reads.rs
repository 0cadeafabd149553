//! Reads: pages of the list, text searches, one run in full, each beside the same bytes fixed.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::{
    Options,
    compare::{Side, compare, print_head},
    seed,
    server::Server,
};

/// A page of the list.
const PAGE: &str = "/api/train/runs?page_size=100";

/// Something to ask for.
pub(crate) struct Query {
    what: String,
    path: String,
    /// Of a POST.
    body: Option<String>,
}

impl Query {
    pub(crate) fn get(what: impl Into<String>, path: impl Into<String>) -> Self {
        Self { what: what.into(), path: path.into(), body: None }
    }

    pub(crate) fn post(what: impl Into<String>, path: impl Into<String>, body: String) -> Self {
        Self { what: what.into(), path: path.into(), body: Some(body) }
    }

    pub(crate) fn page(what: &str, filter: &str) -> Self {
        Self::get(what, format!("{PAGE}{filter}"))
    }

    fn side<'a>(&self, head: &'a Server) -> Side<'a> {
        match &self.body {
            Some(body) => Side::post("head", head, &self.path, body.as_bytes(), 200),
            None => Side::get("head", head, &self.path),
        }
    }
}

/// Pages in every order and with every kind of filter.
pub(crate) async fn lists(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## Pages of 100 of {} runs with 2 workers each\n", options.runs);
    let head = Server::head_on_copy(store).await?;
    let first: Value = serde_json::from_slice(&head.connect().await?.get(PAGE).await?.body)?;
    let token = first["next_page_token"].as_str().context("there is no second page")?;
    let experiment = first["train_runs"][0]["experiment"].as_str().context("no experiment")?;
    let newest = first["train_runs"][0]["start_time_ms"].as_u64().context("no start")?;
    let week_before = newest - 7 * 24 * 3600 * 1000;
    let queries = [
        Query::page("page", ""),
        Query::page("second page", &format!("&page_token={token}")),
        Query::page("`status=ERRORED`", "&status=ERRORED"),
        Query::page("`status=STARTED`, the oldest", "&status=STARTED"),
        Query::page("`experiment=`", &format!("&experiment={experiment}")),
        Query::page("`tag=`", "&tag=team:vision"),
        Query::page("`started_after_ms=` a week ago", &format!("&started_after_ms={week_before}")),
        Query::page("`sort=name`", "&sort=name"),
        Query::page("`sort=-duration`", "&sort=-duration"),
        Query::page("`sort=metric:loss`", "&sort=metric:loss"),
    ];
    beside_fixed(&head, &queries, &[1, 16, 64], options).await?;
    head.stop().await;
    Ok(())
}

/// Text searches.
pub(crate) async fn search(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## Text search in {} runs\n", options.runs);
    let head = Server::head_on_copy(store).await?;
    let queries = [
        Query::page("a word of one run", &format!("&q={}", seed::RARE)),
        Query::page("a word of none", &format!("&q={}", seed::ABSENT)),
        Query::page("a word of all", &format!("&q={}", seed::COMMON)),
    ];
    beside_fixed(&head, &queries, &[1], options).await?;
    head.stop().await;
    Ok(())
}

/// One run in full.
pub(crate) async fn one(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## One run of {} in full, ended, 2 attempts with 8 workers each\n", options.runs);
    let head = Server::head_on_copy(store).await?;
    let query = Query::get("run", format!("/api/train/runs/{}", seed::ONE));
    beside_fixed(&head, &[query], &[1, 16, 64], options).await?;
    head.stop().await;
    Ok(())
}

/// Each query beside its answer as fixed bytes, and as a file that nginx serves, if there is one.
pub(crate) async fn beside_fixed(
    head: &Server,
    queries: &[Query],
    clients: &[usize],
    options: &Options,
) -> anyhow::Result<()> {
    let (mut connection, mut answers) = (head.connect().await?, Vec::new());
    for (i, query) in queries.iter().enumerate() {
        let answer = match &query.body {
            Some(body) => connection.post(&query.path, None, body.as_bytes()).await?,
            None => connection.get(&query.path).await?,
        };
        answers.push((i.to_string(), answer.body));
    }
    let named: Vec<(&str, &[u8])> = answers.iter().map(|(name, body)| (name.as_str(), &body[..])).collect();
    let peer = Server::peer(&named).await?;
    let nginx = match &options.nginx {
        Some(program) => Some(Server::nginx(program, &named).await?),
        None => None,
    };
    print_head(if nginx.is_some() { &["head", "fixed", "nginx"] } else { &["head", "fixed"] });
    for (query, (name, body)) in queries.iter().zip(named) {
        let found = if query.path.starts_with(PAGE) { found(body)? } else { String::new() };
        let what = format!("{}{found} ({} bytes)", query.what, body.len());
        for &clients in clients {
            let fixed = format!("/fixed/{name}");
            let mut sides = vec![query.side(head), Side::get("fixed", &peer, &fixed)];
            sides.extend(nginx.as_ref().map(|nginx| Side::get("nginx", nginx, &fixed)));
            compare(&format!("{what}, clients: {clients}"), &mut sides, clients, options).await?;
        }
    }
    peer.stop().await;
    if let Some(nginx) = nginx {
        nginx.end().await?;
    }
    println!();
    Ok(())
}

/// How many runs a page has, and of how many.
fn found(body: &[u8]) -> anyhow::Result<String> {
    let answer: Value = serde_json::from_slice(body)?;
    let Some(runs) = answer["train_runs"].as_array() else { return Ok(String::new()) };
    let total = answer["total_size"].as_u64().context("no total_size")?;
    ensure!(!runs.is_empty() || total == 0, "an empty page of {total} runs");
    Ok(format!(", {} of {total}", runs.len()))
}
