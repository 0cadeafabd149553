//! Tables `runs` and `actors`.

use std::{collections::HashMap, time::Duration};

use serde::Serialize;
use sqlx::{Row, sqlite::SqliteRow};
use tracing::error;

use super::{
    Reader, StoreError, Writer,
    json_row::{Long, Rows, array, json, optional_word, small, word},
    records::records,
};
use crate::{
    base::{ActorId, RunId, Timestamp, TokenHash, error::chain, number},
    model::{
        Actor, ControllerState, FirstFailure, Phase, ProcessIdentity, RunRecord, RunStatus, Tally,
        run::{ActorStatus, Concluded, Controller, Run, Stop},
        settings::Settings,
        view::Document,
    },
};

#[derive(Serialize)]
pub(super) struct RunRow<'a> {
    id: &'a RunId,
    name: &'a str,
    job_id: &'a Option<String>,
    experiment: &'a Option<String>,
    phase: Phase,
    run_status: RunStatus,
    controller_state: Option<ControllerState>,
    controller_actor_id: &'a ActorId,
    controller_actor_status: ActorStatus,
    status_detail: &'a Option<String>,
    ended_by: Option<Actor>,
    start_time_ms: Timestamp,
    end_time_ms: Option<Timestamp>,
    noticed_at_ms: Option<Timestamp>,
    stop: &'a Option<Stop>,
    concluded: Option<Concluded>,
    first_failure: &'a Option<FirstFailure>,
    settings: Long,
    datasets: Long,
    framework_versions: Long,
    tags: Long,
    notes: &'a Option<String>,
    trashed_at_ms: Option<Timestamp>,
    body_hash: &'a str,
    doc: Long,
    workers_at: usize,
    num_attempts: u32,
    num_failures: u32,
    num_workers: u32,
}

/// Adds a run's row. A live run has no document in it, as it would be another one soon: the start makes it of its record.
pub(super) fn push(rows: &mut Rows, record: &RunRecord, doc: &Document) {
    let Run {
        id,
        name,
        job_id,
        experiment,
        phase,
        controller_state,
        status_detail,
        ended_by,
        start_time,
        end_time,
        noticed_at,
        stop,
        concluded,
        first_failure,
        settings,
        datasets,
        framework_versions,
        tags,
        notes,
        trashed_at,
        body_hash,
    } = &record.run;
    let (doc, workers_at) = if phase.is_terminal() { (&*doc.json, doc.workers_at) } else { ("", 0) };
    let Tally { attempts: num_attempts, failures: num_failures, workers: num_workers } = record.tally();
    let row = RunRow {
        id,
        name,
        job_id,
        experiment,
        phase: *phase,
        run_status: phase.run_status(),
        controller_state: *controller_state,
        controller_actor_id: &record.controller.actor_id,
        controller_actor_status: record.controller.status,
        status_detail,
        ended_by: *ended_by,
        start_time_ms: *start_time,
        end_time_ms: *end_time,
        noticed_at_ms: *noticed_at,
        stop,
        concluded: *concluded,
        first_failure,
        settings: rows.long_text(settings.as_json()),
        datasets: rows.long_json(datasets),
        framework_versions: rows.long_json(framework_versions),
        tags: rows.long_json(tags),
        notes,
        trashed_at_ms: *trashed_at,
        body_hash,
        doc: rows.long_text(doc),
        workers_at,
        num_attempts,
        num_failures,
        num_workers,
    };
    rows.push(&row);
}

#[derive(Serialize)]
pub(super) struct ActorRow<'a> {
    run_id: &'a RunId,
    epoch: u32,
    actor_id: &'a ActorId,
    status: ActorStatus,
    token_hash: String,
    lease_ttl_ms: i64,
    last_contact_ms: Timestamp,
    process: &'a Option<ProcessIdentity>,
    process_ended_ms: Option<Timestamp>,
    clock_skew_ms: Option<i64>,
}

pub(super) fn actor_row(record: &RunRecord) -> ActorRow<'_> {
    let Controller {
        actor_id,
        epoch,
        token,
        stale_tokens: _, // each stands in its own epoch's row
        status,
        lease_ttl,
        last_contact,
        process,
        process_ended,
        clock_skew_ms,
    } = &record.controller;
    ActorRow {
        run_id: &record.run.id,
        epoch: *epoch,
        actor_id,
        status: *status,
        token_hash: token.to_hex(),
        lease_ttl_ms: number::millis(*lease_ttl),
        last_contact_ms: *last_contact,
        process,
        process_ended_ms: *process_ended,
        clock_skew_ms: *clock_skew_ms,
    }
}

pub(super) const WRITE: &str =
    "with rows (v) as materialized (select value from jsonb_each($1))
        insert into runs (id, name, job_id, experiment, phase, run_status, controller_state, controller_actor_id,
            controller_actor_status, status_detail, ended_by, start_time_ms, end_time_ms, noticed_at_ms, stop,
            concluded, first_failure, settings, datasets, framework_versions, tags, notes, trashed_at_ms, body_hash,
            doc, workers_at, num_attempts, num_failures, num_workers)
        select v->>'id', v->>'name', v->>'job_id', v->>'experiment', v->>'phase',
            v->>'run_status', v->>'controller_state', v->>'controller_actor_id',
            v->>'controller_actor_status', v->>'status_detail', v->>'ended_by', v->>'start_time_ms',
            v->>'end_time_ms', v->>'noticed_at_ms', v->>'stop', v->>'concluded',
            v->>'first_failure',
            cast(substr($long, v->>'$.settings[0]', v->>'$.settings[1]') as text),
            cast(substr($long, v->>'$.datasets[0]', v->>'$.datasets[1]') as text),
            cast(substr($long, v->>'$.framework_versions[0]', v->>'$.framework_versions[1]') as text),
            cast(substr($long, v->>'$.tags[0]', v->>'$.tags[1]') as text),
            v->>'notes', v->>'trashed_at_ms', v->>'body_hash',
            cast(substr($long, v->>'$.doc[0]', v->>'$.doc[1]') as text), v->>'workers_at',
            v->>'num_attempts', v->>'num_failures', v->>'num_workers'
        from rows
        where true
        on conflict (id) do update set
            name = excluded.name,
            job_id = excluded.job_id,
            experiment = excluded.experiment,
            phase = excluded.phase,
            run_status = excluded.run_status,
            controller_state = excluded.controller_state,
            controller_actor_id = excluded.controller_actor_id,
            controller_actor_status = excluded.controller_actor_status,
            status_detail = excluded.status_detail,
            ended_by = excluded.ended_by,
            start_time_ms = excluded.start_time_ms,
            end_time_ms = excluded.end_time_ms,
            noticed_at_ms = excluded.noticed_at_ms,
            stop = excluded.stop,
            concluded = excluded.concluded,
            first_failure = excluded.first_failure,
            settings = excluded.settings,
            tags = excluded.tags,
            notes = excluded.notes,
            trashed_at_ms = excluded.trashed_at_ms,
            body_hash = excluded.body_hash,
            doc = excluded.doc,
            workers_at = excluded.workers_at,
            num_attempts = excluded.num_attempts,
            num_failures = excluded.num_failures,
            num_workers = excluded.num_workers";

pub(super) const WRITE_ACTORS: &str =
    "with rows (v) as materialized (select value from jsonb_each($1))
        insert into actors (run_id, epoch, actor_id, status, token_hash, lease_ttl_ms, last_contact_ms, process,
            process_ended_ms, clock_skew_ms)
        select v->>'run_id', v->>'epoch', v->>'actor_id', v->>'status', v->>'token_hash',
            v->>'lease_ttl_ms', v->>'last_contact_ms', v->>'process',
            v->>'process_ended_ms', v->>'clock_skew_ms'
        from rows
        where true
        on conflict (run_id, epoch) do update set
            status = excluded.status,
            last_contact_ms = excluded.last_contact_ms,
            process_ended_ms = excluded.process_ended_ms,
            clock_skew_ms = excluded.clock_skew_ms";

pub(super) const WRITE_CONTACTS: &str = "with rows (v) as materialized (select value from jsonb_each($1))
        update actors
        set last_contact_ms = r.v->>'at',
            clock_skew_ms = r.v->>'clock_skew_ms'
        from rows r
        where actors.run_id = r.v->>'run_id'
            and actors.epoch = r.v->>'epoch'";

/// The columns that make a [`Controller`] and say whose it is.
pub(super) const ACTOR_COLUMNS: &str =
    "run_id, actor_id, epoch, token_hash, status, lease_ttl_ms, last_contact_ms, process,
    process_ended_ms, clock_skew_ms";

/// The columns that make a [`Run`]; the list's own document is not among them.
pub(super) const COLUMNS: &str = "id, name, job_id, experiment, phase, controller_state, status_detail, ended_by, start_time_ms,
    end_time_ms, noticed_at_ms, stop, concluded, first_failure, settings, datasets, framework_versions, tags, notes,
    trashed_at_ms, body_hash";

pub(super) fn run(row: &SqliteRow) -> Result<Run, StoreError> {
    const T: &str = "runs";
    Ok(Run {
        id: word(T, row, "id")?,
        name: row.try_get("name")?,
        job_id: row.try_get("job_id")?,
        experiment: row.try_get("experiment")?,
        phase: word(T, row, "phase")?,
        controller_state: optional_word(T, row, "controller_state")?,
        status_detail: row.try_get("status_detail")?,
        ended_by: optional_word(T, row, "ended_by")?,
        start_time: Timestamp::from_ms(row.try_get("start_time_ms")?),
        end_time: row.try_get::<Option<i64>, _>("end_time_ms")?.map(Timestamp::from_ms),
        noticed_at: row.try_get::<Option<i64>, _>("noticed_at_ms")?.map(Timestamp::from_ms),
        stop: json(T, row, "stop")?,
        concluded: json(T, row, "concluded")?,
        first_failure: json(T, row, "first_failure")?,
        settings: Settings::parse(row.try_get("settings")?)
            .map_err(|e| StoreError::Corrupt { table: T, what: format!("settings: {e}") })?,
        datasets: json(T, row, "datasets")?,
        framework_versions: json(T, row, "framework_versions")?,
        tags: json(T, row, "tags")?,
        notes: row.try_get("notes")?,
        trashed_at: row.try_get::<Option<i64>, _>("trashed_at_ms")?.map(Timestamp::from_ms),
        body_hash: row.try_get("body_hash")?,
    })
}

/// A controller from the rows of its run's epochs, oldest first.
pub(super) fn controller(rows: &[SqliteRow]) -> Result<Controller, StoreError> {
    const T: &str = "actors";
    let token = |row: &SqliteRow| {
        let hex: String = row.try_get("token_hash")?;
        TokenHash::from_hex(&hex).ok_or_else(|| StoreError::Corrupt { table: T, what: "token_hash".into() })
    };
    let [earlier @ .., row] = rows else {
        return Err(StoreError::Corrupt { table: T, what: "a run without a controller".into() });
    };
    Ok(Controller {
        actor_id: word(T, row, "actor_id")?,
        epoch: small(T, row, "epoch")?,
        token: token(row)?,
        stale_tokens: earlier.iter().map(token).collect::<Result<_, StoreError>>()?,
        status: word(T, row, "status")?,
        lease_ttl: Duration::from_millis(small(T, row, "lease_ttl_ms")?),
        last_contact: Timestamp::from_ms(row.try_get("last_contact_ms")?),
        process: json(T, row, "process")?,
        process_ended: row.try_get::<Option<i64>, _>("process_ended_ms")?.map(Timestamp::from_ms),
        clock_skew_ms: row.try_get("clock_skew_ms")?,
    })
}

/// Runs that are read together.
const AT_ONCE: usize = 500;

impl Writer {
    /// All runs that have not ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn live_records(&mut self) -> Result<Vec<RunRecord>, StoreError> {
        let ids: Vec<String> =
            sqlx::query_scalar("select id from runs where run_status = 'STARTED' order by id")
                .fetch_all(&mut self.connection)
                .await?;
        let parsed = |id: String| id.parse().map_err(|_| StoreError::Corrupt { table: "runs", what: id });
        let ids = ids.into_iter().map(parsed).collect::<Result<Vec<RunId>, _>>()?;
        let mut all = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            for record in records(&mut self.connection, some).await? {
                match record {
                    Ok(record) => all.push(record),
                    // It cannot be driven any more, but the others can; 'trainhead doctor' names it.
                    Err(e) => error!("a live run cannot be read and is not watched: {}", chain(&e)),
                }
            }
        }
        Ok(all)
    }
}

impl Reader {
    /// The controllers of these runs, each in its newest epoch.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn controllers(&self, runs: &[RunId]) -> Result<HashMap<RunId, Controller>, StoreError> {
        let sql = sqlx::AssertSqlSafe(format!(
            "select {ACTOR_COLUMNS}
            from actors
            where run_id in (select value from json_each($1))
            order by run_id, epoch"
        ));
        let rows = sqlx::query(sql).bind(array("actors", runs)?).fetch_all(&self.pool).await?;
        // Rows of one run stand together, the newest epoch last.
        rows.iter()
            .map(|row| Ok((word("actors", row, "run_id")?, controller(std::slice::from_ref(row))?)))
            .collect()
    }
}
