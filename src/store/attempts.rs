//! Tables `attempts` and `workers`.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::{
    StoreError,
    json_row::{array, json, optional_word, small, word},
};
use crate::{
    base::{RunId, Timestamp},
    model::{Attempt, RunRecord, Trail, Worker},
};

pub(super) fn rows<'a>(record: &'a RunRecord, trail: &'a Trail) -> impl Iterator<Item = Value> + 'a {
    record.attempts.iter().filter(|a| trail.attempts.contains(&a.ordinal)).map(|attempt| {
        let Attempt {
            id,
            ordinal,
            status,
            end_reason,
            status_detail,
            start_time,
            end_time,
            num_workers,
            workers: _,
        } = attempt;
        json!({
            "run_id": record.run.id,
            "ordinal": ordinal,
            "attempt_id": id,
            "status": status,
            "end_reason": end_reason,
            "status_detail": status_detail,
            "start_time_ms": start_time,
            "end_time_ms": end_time,
            "num_workers": num_workers,
        })
    })
}

pub(super) fn worker_rows<'a>(record: &'a RunRecord, trail: &'a Trail) -> impl Iterator<Item = Value> + 'a {
    let worker = |&(ordinal, rank): &(u32, u32)| {
        let attempt = record.attempts.get(usize::try_from(ordinal).ok()?)?;
        let Worker {
            actor_id,
            world_rank,
            local_rank,
            node_rank,
            node_id,
            node_ip,
            pid,
            gpu_ids,
            status,
            exit,
            resources,
        } = attempt.workers.get(&rank)?;
        Some(json!({
            "run_id": record.run.id,
            "ordinal": ordinal,
            "world_rank": world_rank,
            "actor_id": actor_id,
            "local_rank": local_rank,
            "node_rank": node_rank,
            "node_id": node_id,
            "node_ip": node_ip,
            "pid": pid,
            "gpu_ids": gpu_ids,
            "status": status,
            "exit": exit,
            "resources": resources,
        }))
    };
    trail.workers.iter().filter_map(worker)
}

pub(super) async fn write(connection: &mut SqliteConnection, rows: &[Value]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into attempts (run_id, ordinal, attempt_id, status, end_reason, status_detail, start_time_ms,
            end_time_ms, num_workers)
        select value->>'run_id', value->>'ordinal', value->>'attempt_id', value->>'status', value->>'end_reason',
            value->>'status_detail', value->>'start_time_ms', value->>'end_time_ms', value->>'num_workers'
        from json_each($1)
        where true
        on conflict (run_id, ordinal) do update set
            status = excluded.status,
            end_reason = excluded.end_reason,
            status_detail = excluded.status_detail,
            end_time_ms = excluded.end_time_ms",
    )
    .bind(array("attempts", rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) async fn write_workers(
    connection: &mut SqliteConnection,
    rows: &[Value],
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "insert into workers (run_id, ordinal, world_rank, actor_id, local_rank, node_rank, node_id, node_ip, pid,
            gpu_ids, status, exit, resources)
        select value->>'run_id', value->>'ordinal', value->>'world_rank', value->>'actor_id', value->>'local_rank',
            value->>'node_rank', value->>'node_id', value->>'node_ip', value->>'pid', value->>'gpu_ids',
            value->>'status', value->>'exit', value->>'resources'
        from json_each($1)
        where true
        on conflict (run_id, ordinal, world_rank) do update set
            status = excluded.status,
            exit = excluded.exit",
    )
    .bind(array("workers", rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// All attempts of a run with their workers, oldest first.
pub(super) async fn of_run(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<Attempt>, StoreError> {
    let rows = sqlx::query(
        "select ordinal, attempt_id, status, end_reason, status_detail, start_time_ms, end_time_ms, num_workers
        from attempts
        where run_id = $1
        order by ordinal",
    )
    .bind(run.to_string())
    .fetch_all(&mut *connection)
    .await?;
    let mut attempts: Vec<Attempt> = rows.iter().map(attempt).collect::<Result<_, _>>()?;
    let rows = sqlx::query(
        "select ordinal, world_rank, actor_id, local_rank, node_rank, node_id, node_ip, pid, gpu_ids, status, exit,
            resources
        from workers
        where run_id = $1
        order by ordinal, world_rank",
    )
    .bind(run.to_string())
    .fetch_all(&mut *connection)
    .await?;
    for row in &rows {
        let ordinal: usize = small("workers", row, "ordinal")?;
        let worker = worker(row)?;
        match attempts.get_mut(ordinal) {
            Some(attempt) => attempt.workers.insert(worker.world_rank, worker),
            None => {
                return Err(StoreError::Corrupt { table: "workers", what: format!("ordinal = {ordinal}") });
            }
        };
    }
    Ok(attempts)
}

fn attempt(row: &SqliteRow) -> Result<Attempt, StoreError> {
    const T: &str = "attempts";
    Ok(Attempt {
        id: word(T, row, "attempt_id")?,
        ordinal: small(T, row, "ordinal")?,
        status: word(T, row, "status")?,
        end_reason: optional_word(T, row, "end_reason")?,
        status_detail: row.try_get("status_detail")?,
        start_time: Timestamp::from_ms(row.try_get("start_time_ms")?),
        end_time: row.try_get::<Option<i64>, _>("end_time_ms")?.map(Timestamp::from_ms),
        num_workers: small(T, row, "num_workers")?,
        workers: BTreeMap::new(),
    })
}

fn worker(row: &SqliteRow) -> Result<Worker, StoreError> {
    const T: &str = "workers";
    Ok(Worker {
        actor_id: word(T, row, "actor_id")?,
        world_rank: small(T, row, "world_rank")?,
        local_rank: small(T, row, "local_rank")?,
        node_rank: small(T, row, "node_rank")?,
        node_id: row.try_get("node_id")?,
        node_ip: row.try_get("node_ip")?,
        pid: row.try_get("pid")?,
        gpu_ids: json(T, row, "gpu_ids")?,
        status: word(T, row, "status")?,
        exit: json(T, row, "exit")?,
        resources: json(T, row, "resources")?,
    })
}
