//! Tables `attempts` and `workers`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::{Row, sqlite::SqliteRow};

use super::{
    Reader, StoreError,
    json_row::{json, optional_word, small, word},
};
use crate::{
    base::{ActorId, AttemptId, RunId, Timestamp},
    model::{
        Attempt, AttemptStatus, EndReason, Exit, RunRecord, StopReport, Trail, Worker, WorkerStatus,
        ledger::Bundle,
    },
};

#[derive(Serialize)]
pub(super) struct AttemptRow<'a> {
    run_id: &'a RunId,
    ordinal: u32,
    attempt_id: &'a AttemptId,
    status: AttemptStatus,
    end_reason: Option<EndReason>,
    status_detail: &'a Option<String>,
    start_time_ms: Timestamp,
    end_time_ms: Option<Timestamp>,
    num_workers: u32,
    reservation: &'a [Bundle],
    master_address: &'a Option<String>,
    stop_report: &'a Option<StopReport>,
}

#[derive(Serialize)]
pub(super) struct WorkerRow<'a> {
    run_id: &'a RunId,
    ordinal: u32,
    world_rank: u32,
    actor_id: &'a ActorId,
    local_rank: u32,
    node_rank: u32,
    node_id: &'a str,
    node_ip: &'a str,
    pid: Option<u32>,
    gpu_ids: &'a [String],
    status: WorkerStatus,
    exit: &'a Option<Exit>,
    resources: &'a Map<String, Value>,
}

pub(super) fn rows<'a>(record: &'a RunRecord, trail: &'a Trail) -> impl Iterator<Item = AttemptRow<'a>> {
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
            reservation,
            master_address,
            stop_report,
            workers: _,
        } = attempt;
        AttemptRow {
            run_id: &record.run.id,
            ordinal: *ordinal,
            attempt_id: id,
            status: *status,
            end_reason: *end_reason,
            status_detail,
            start_time_ms: *start_time,
            end_time_ms: *end_time,
            num_workers: *num_workers,
            reservation,
            master_address,
            stop_report,
        }
    })
}

pub(super) fn worker_rows<'a>(
    record: &'a RunRecord,
    trail: &'a Trail,
) -> impl Iterator<Item = WorkerRow<'a>> {
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
        Some(WorkerRow {
            run_id: &record.run.id,
            ordinal,
            world_rank: *world_rank,
            actor_id,
            local_rank: *local_rank,
            node_rank: *node_rank,
            node_id,
            node_ip,
            pid: *pid,
            gpu_ids,
            status: *status,
            exit,
            resources,
        })
    };
    trail.workers.iter().filter_map(worker)
}

pub(super) const WRITE: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        insert into attempts (run_id, ordinal, attempt_id, status, end_reason, status_detail, start_time_ms,
            end_time_ms, num_workers, reservation, master_address, stop_report)
        select v->>'run_id', v->>'ordinal', v->>'attempt_id', v->>'status', v->>'end_reason',
            v->>'status_detail', v->>'start_time_ms', v->>'end_time_ms', v->>'num_workers', v->>'reservation',
            v->>'master_address', v->>'stop_report'
        from rows
        where true
        on conflict (run_id, ordinal) do update set
            status = excluded.status,
            end_reason = excluded.end_reason,
            status_detail = excluded.status_detail,
            end_time_ms = excluded.end_time_ms,
            master_address = excluded.master_address,
            stop_report = excluded.stop_report";

pub(super) const WRITE_WORKERS: &str =
    "with rows (v) as materialized (select value from jsonb_each($1))
        insert into workers (run_id, ordinal, world_rank, actor_id, local_rank, node_rank, node_id, node_ip, pid,
            gpu_ids, status, exit, resources)
        select v->>'run_id', v->>'ordinal', v->>'world_rank', v->>'actor_id', v->>'local_rank',
            v->>'node_rank', v->>'node_id', v->>'node_ip', v->>'pid', v->>'gpu_ids',
            v->>'status', v->>'exit', v->>'resources'
        from rows
        where true
        on conflict (run_id, ordinal, world_rank) do update set
            status = excluded.status,
            exit = excluded.exit";

impl Reader {
    /// How many workers an attempt has; none if there is no such attempt.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn num_workers(&self, run: &RunId, ordinal: u32) -> Result<Option<u32>, StoreError> {
        let n = sqlx::query_scalar("select num_workers from attempts where run_id = $1 and ordinal = $2")
            .bind(run.to_string())
            .bind(ordinal)
            .fetch_optional(&self.pool)
            .await?;
        Ok(n)
    }

    /// The ordinals of all attempts of a run, in order, and how many workers each has.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn sizes(&self, run: &RunId) -> Result<Vec<(u32, u32)>, StoreError> {
        let sizes =
            sqlx::query_as("select ordinal, num_workers from attempts where run_id = $1 order by ordinal")
                .bind(run.to_string())
                .fetch_all(&self.pool)
                .await?;
        Ok(sizes)
    }
}

/// The columns that make an [`Attempt`].
pub(super) const COLUMNS: &str =
    "run_id, ordinal, attempt_id, status, end_reason, status_detail, start_time_ms, end_time_ms,
    num_workers, reservation, master_address, stop_report";

/// The columns that make a [`Worker`] and say whose it is.
pub(super) const WORKER_COLUMNS: &str =
    "run_id, ordinal, world_rank, actor_id, local_rank, node_rank, node_id, node_ip, pid,
    gpu_ids, status, exit, resources";

/// All attempts of a run with their workers, from their rows, which stand in the order of the ordinals.
pub(super) fn of_run(rows: &[SqliteRow], workers: &[SqliteRow]) -> Result<Vec<Attempt>, StoreError> {
    let mut attempts: Vec<Attempt> = rows.iter().map(attempt).collect::<Result<_, _>>()?;
    for row in workers {
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
        reservation: json::<Option<Vec<Bundle>>>(T, row, "reservation")?.unwrap_or_default(),
        master_address: row.try_get("master_address")?,
        stop_report: json(T, row, "stop_report")?,
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
