//! The commands that look at runs and ask them to stop: clients of a head's API.

use std::{io::Write, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use serde_json::Value;

use super::{
    head::{Head, Port, Published},
    options::{Abort, Global, Logs, Runs, Show},
    output::{duration, number, plain, table},
};
use crate::{
    base::{Timestamp, number::from_millis},
    model::{RunStatus, commands::StopRun},
    state::HttpState,
};

/// Runs a command against a head, which is our own if there is none.
pub(super) async fn with_head<T>(
    global: &Global,
    command: impl AsyncFnOnce(&HttpState) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let head = Head::find_or_embed(global, Port::Exactly(0), Published::No).await?;
    let result = command(&HttpState::new(head.url())?).await;
    head.leave().await;
    result
}

/// `trainhead runs`
pub(super) async fn runs(global: &Global, args: &Runs) -> anyhow::Result<ExitCode> {
    let mut query = vec![("page_size", args.limit.to_string()), ("include", "workers,evidence".to_owned())];
    query.extend(args.status.iter().map(|s| ("status", s.to_string())));
    query.extend(args.search.iter().map(|text| ("q", text.clone())));
    query.extend(args.experiment.iter().map(|name| ("experiment", name.clone())));
    query.extend(args.tag.iter().map(|tag| ("tag", tag.clone())));
    query.extend(args.sort.iter().map(|sort| ("sort", sort.clone())));
    if args.trashed {
        query.push(("trashed", "true".to_owned()));
    }
    let list: Value = with_head(global, async |http| Ok(http.get("/api/train/runs", &query).await?)).await?;
    if global.json {
        println!("{list}");
        return Ok(ExitCode::SUCCESS);
    }
    let now = Timestamp::from_ms(int(&list, "server_time_ms"));
    let rows: Vec<Vec<String>> = array(&list, "train_runs")
        .iter()
        .map(|run| {
            let start = Timestamp::from_ms(int(run, "start_time_ms"));
            let took = run.get("duration_ms").and_then(Value::as_i64).map_or(now.since(start), from_millis);
            let step = run.pointer("/evidence/progress/last_step").and_then(Value::as_i64);
            vec![
                text(run, "run_status"),
                text(run, "name"),
                text(run, "experiment"),
                format!("{} ago", duration(now.since(start))),
                duration(took),
                step.map_or_else(String::new, |s| s.to_string()),
                text(run, "id"),
            ]
        })
        .collect();
    if rows.is_empty() {
        println!("no runs; start one with: trainhead run --workers 2 -- python3 train.py");
    } else {
        println!("{}", table(&["STATUS", "NAME", "EXPERIMENT", "STARTED", "TOOK", "STEP", "ID"], &rows));
        let total = int(&list, "total_size");
        let shown = i64::try_from(rows.len()).unwrap_or(i64::MAX);
        if total > shown {
            println!("{shown} of {total}; -n shows more");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `trainhead show`
pub(super) async fn show(global: &Global, args: &Show) -> anyhow::Result<ExitCode> {
    let run = with_head(global, async |http| find(http, &args.run).await).await?;
    if global.json {
        println!("{run}");
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::stdout().lock();
    let why = run
        .get("status_detail")
        .and_then(Value::as_str)
        .map(|d| format!(": {}", plain(d)))
        .unwrap_or_default();
    let by =
        run.get("ended_by").and_then(Value::as_str).map(|by| format!(", by the {by}")).unwrap_or_default();
    writeln!(out, "{}  {}", text(&run, "name"), text(&run, "id"))?;
    writeln!(out, "{}{by}{why}", text(&run, "run_status"))?;
    let start = Timestamp::from_ms(int(&run, "start_time_ms"));
    let now = Timestamp::from_ms(int(&run, "server_time_ms"));
    let took = run.get("duration_ms").and_then(Value::as_i64).map_or(now.since(start), from_millis);
    writeln!(
        out,
        "started {start}, {} {}",
        if run["end_time_ms"].is_null() { "for" } else { "took" },
        duration(took)
    )?;
    evidence(&mut out, &run, now)?;
    let failed =
        |kind: &str| run.pointer(&format!("/num_failures/{kind}")).and_then(Value::as_i64).unwrap_or(0);
    let counts = [("worker", "failures"), ("controller", "failed starts"), ("preemption", "preemptions")];
    let counts: Vec<String> = counts
        .iter()
        .filter(|(kind, _)| failed(kind) > 0)
        .map(|(kind, words)| format!("{words}: {}", failed(kind)))
        .collect();
    if !counts.is_empty() {
        writeln!(out, "{}", counts.join(" · "))?;
    }
    if let Some(failure) = run.get("first_failure").filter(|f| !f.is_null()) {
        writeln!(out, "\nfirst failure: {}", text(failure, "message"))?;
        for line in array(failure, "log_tail").iter().rev().take(10).rev() {
            writeln!(out, "  | {}", plain(line.as_str().unwrap_or_default()))?;
        }
    }
    for attempt in array(&run, "attempts") {
        let reason =
            attempt.get("end_reason").and_then(Value::as_str).map(|r| format!(" ({r})")).unwrap_or_default();
        let detail = attempt
            .get("status_detail")
            .and_then(Value::as_str)
            .map(|d| format!(": {}", plain(d)))
            .unwrap_or_default();
        writeln!(out, "\nattempt {} {}{reason}{detail}", int(attempt, "ordinal"), text(attempt, "status"))?;
        if let Some(report) = attempt.get("stop_report").filter(|r| !r.is_null()) {
            let ended = array(report, "processes_ended").len();
            let forced = if report["forced"] == true { " by force" } else { "" };
            let left = match array(report, "left") {
                [] => "nothing is left".to_owned(),
                left => format!("{} could not be ended", Value::from(left)),
            };
            writeln!(out, "{ended} processes ended{forced}, {left}")?;
        }
        let rows: Vec<Vec<String>> = array(attempt, "workers")
            .iter()
            .map(|w| {
                vec![
                    int(w, "world_rank").to_string(),
                    text(w, "status"),
                    text(w, "node_id"),
                    int(w, "pid").to_string(),
                    exit(w),
                ]
            })
            .collect();
        if !rows.is_empty() {
            writeln!(out, "{}", table(&["RANK", "STATUS", "NODE", "PID", "EXIT"], &rows))?;
        }
    }
    let metrics = run.get("last_metrics").and_then(Value::as_object).filter(|m| !m.is_empty());
    if let Some(metrics) = metrics {
        writeln!(out)?;
        for (key, value) in metrics {
            writeln!(out, "{} = {}", plain(key), value.as_f64().map_or_else(|| value.to_string(), number))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn evidence(out: &mut impl Write, run: &Value, now: Timestamp) -> anyhow::Result<()> {
    let at = |pointer: &str| run.pointer(pointer).and_then(Value::as_i64);
    let process = run.pointer("/evidence/process/state").and_then(Value::as_str).unwrap_or("unknown");
    let contact = at("/evidence/contact/last_contact_ms").map(|ms| now.since(Timestamp::from_ms(ms)));
    let step =
        at("/evidence/progress/last_step").map_or_else(|| "no step yet".to_owned(), |s| format!("step {s}"));
    let stalled = run.pointer("/evidence/progress/stalled").and_then(Value::as_bool).unwrap_or(false);
    writeln!(
        out,
        "process {process} · last contact {} ago · {step}{}",
        contact.map_or_else(|| "?".to_owned(), duration),
        if stalled { " · stalled" } else { "" }
    )?;
    Ok(())
}

fn exit(worker: &Value) -> String {
    let field = |name: &str| worker.pointer(&format!("/exit/{name}"));
    match (field("signal").and_then(Value::as_str), field("code").and_then(Value::as_i64)) {
        (Some(signal), _) => signal.to_owned(),
        (None, Some(code)) => format!("code {code}"),
        (None, None) => field("cause").and_then(Value::as_str).map(plain).unwrap_or_default(),
    }
}

/// `trainhead logs`
pub(super) async fn logs(global: &Global, args: &Logs) -> anyhow::Result<ExitCode> {
    with_head(global, async |http| {
        let run = find(http, &args.run).await?;
        let newest = int(&run, "num_attempts") - 1;
        let attempt = args.attempt.map_or(newest, i64::from);
        if attempt < 0 {
            bail!("{} has no attempt yet", text(&run, "name"));
        }
        let mut query = Vec::new();
        query.extend(args.tail.map(|n| ("tail", n.to_string())));
        query.extend(args.follow.then(|| ("follow", "1".to_owned())));
        let path = format!("/api/train/runs/{}/logs/{attempt}/{}", text(&run, "id"), args.rank);
        let mut response = http.get_raw(&path, &query).await?;
        while let Some(chunk) = response.chunk().await.context("the log broke off")? {
            let mut out = std::io::stdout().lock();
            if out.write_all(&chunk).and_then(|()| out.flush()).is_err() {
                // Whoever read it has had enough.
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// `trainhead abort`
pub(super) async fn abort(global: &Global, args: &Abort) -> anyhow::Result<ExitCode> {
    with_head(global, async |http| {
        let run = find(http, &args.run).await?;
        let path = format!("/api/train/runs/{}", text(&run, "id"));
        let grace_period_ms =
            args.grace_period.and_then(|s| u64::try_from(Duration::from_secs_f64(s).as_millis()).ok());
        let body = StopRun { reason: args.reason.clone(), grace_period_ms };
        let mut now: Value = http.post(&format!("{path}/stop"), None, &body).await?;
        while args.wait && now["run_status"] == RunStatus::Started.as_str() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            now = http.get(&path, &[]).await?;
        }
        if global.json {
            println!("{now}");
        } else if now["run_status"] == RunStatus::Started.as_str() {
            println!("{} was asked to stop", text(&now, "name"));
        } else {
            println!("{} is {}", text(&now, "name"), text(&now, "run_status"));
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// The run that is meant: by id, by name (the newest of that name), or by the beginning of its id.
pub(super) async fn find(http: &HttpState, wanted: &str) -> anyhow::Result<Value> {
    let query = [("q", wanted.to_owned()), ("page_size", "1000".to_owned())];
    let list: Value = http.get("/api/train/runs", &query).await?;
    let runs = array(&list, "train_runs");
    let is = |run: &&Value, field: &str| run.get(field).and_then(Value::as_str) == Some(wanted);
    let begins: Vec<&Value> = runs.iter().filter(|r| text(r, "id").starts_with(wanted)).collect();
    let found = runs.iter().find(|r| is(r, "id")).or_else(|| runs.iter().find(|r| is(r, "name")));
    let found = match (found, begins.as_slice()) {
        (Some(run), _) => run,
        (None, [only]) => only,
        (None, []) => bail!("there is no run {wanted:?}; 'trainhead runs' lists them"),
        (None, many) => bail!("{} runs have an id that begins with {wanted:?}; write more of it", many.len()),
    };
    let id = text(found, "id");
    Ok(http.get(&format!("/api/train/runs/{id}"), &[]).await?)
}

pub(super) fn text(value: &Value, field: &str) -> String {
    value.get(field).and_then(Value::as_str).map(plain).unwrap_or_default()
}

fn int(value: &Value, field: &str) -> i64 {
    value.get(field).and_then(Value::as_i64).unwrap_or(0)
}

fn array<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
