//! Databases of other versions, directories that somebody holds, and space that is given back.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;
use tokio::time::{Instant, interval};
use trainhead::{
    base::{ActorId, ManualClock, RunId, Timestamp},
    model::{
        commands::RegisterRun,
        retention::CollectGarbage,
        series::{AttemptChoice, Axis, Mode, SeriesRequest, Span},
        verbs::RunVerb,
    },
    state::{DataDir, Include, ListQuery, StateError, StateOptions, processes::identify, start},
};

const VERSION_2: &str = include_str!("../fixtures/store_v2.sql");

async fn open(data_dir: &DataDir) -> Result<(), StateError> {
    let lock = data_dir.try_lock().unwrap().expect("nobody else holds it");
    let (_, task) = start(StateOptions::new(data_dir.clone(), lock)).await?;
    assert!(task.shutdown(Duration::from_secs(10)).await);
    Ok(())
}

async fn connect(path: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}?mode=rwc", path.display())).await.unwrap()
}

async fn number(connection: &mut SqliteConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// A real database of version 2 in a directory.
async fn of_version_2(temp: &TempDir) -> DataDir {
    let data_dir = DataDir::open(temp.path()).unwrap();
    let mut connection = connect(&data_dir.database()).await;
    sqlx::raw_sql(VERSION_2).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    data_dir
}

/// What lies beside the database, but for the lock and the runs.
fn beside(data_dir: &DataDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data_dir.root()).unwrap().map(|e| e.unwrap().path());
    let known = ["runs", "trainhead.lock", "trainhead.db", "trainhead.db-wal", "trainhead.db-shm"];
    entries.filter(|path| !known.iter().any(|name| path.ends_with(name))).collect()
}

#[tokio::test]
async fn a_database_of_an_earlier_version_is_migrated_after_a_copy_of_it_was_made() {
    let temp = TempDir::new().unwrap();
    let data_dir = of_version_2(&temp).await;
    let lock = data_dir.try_lock().unwrap().unwrap();
    let (state, task) = start(StateOptions::new(data_dir.clone(), lock)).await.unwrap();
    let list = state.list(&ListQuery::default(), &Include::default()).await.unwrap();
    let list: Value = serde_json::from_slice(&list).unwrap();
    let statuses = [("old-run", "FINISHED"), ("old-bad", "ERRORED")];
    for (name, status) in statuses {
        let run = list["train_runs"].as_array().unwrap().iter().find(|r| r["name"] == name).unwrap();
        assert_eq!(run["run_status"], status);
        // Members that documents have only since version 3.
        for member in ["settings", "datasets", "framework_versions", "notes", "trashed_at_ms", "omitted"] {
            assert!(run.get(member).is_some(), "{name} has no {member}: {run}");
        }
        let id = RunId::parse(run["id"].as_str().unwrap()).unwrap();
        let one: Value = serde_json::from_slice(&state.run(&id).await.unwrap()).unwrap();
        assert_eq!(one["settings"], run["settings"]);
        assert_eq!(one["attempts"].as_array().unwrap().len(), 1);
    }
    assert!(task.shutdown(Duration::from_secs(10)).await);

    let copies = beside(&data_dir);
    assert_eq!(copies.len(), 1, "{copies:?}");
    let name = copies[0].file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("trainhead.db.v2-") && name.ends_with(".backup"), "{name}");
    let mut copy = connect(&copies[0]).await;
    assert_eq!(number(&mut copy, "select max(version) from _sqlx_migrations").await, 2);
    assert_eq!(number(&mut copy, "select count(*) from runs").await, 2);
    let ok: String = sqlx::query_scalar("pragma integrity_check").fetch_one(&mut copy).await.unwrap();
    assert_eq!(ok, "ok");
    copy.close().await.unwrap();

    let mut migrated = connect(&data_dir.database()).await;
    assert_eq!(number(&mut migrated, "select sum(num_attempts) from runs").await, 2);
    let workers = "select sum(num_workers) = (select count(*) from workers) from runs";
    assert_eq!(number(&mut migrated, workers).await, 1);
    assert_eq!(number(&mut migrated, "select num_failures from runs where name = 'old-bad'").await, 1);
    migrated.close().await.unwrap();

    open(&data_dir).await.unwrap();
    assert_eq!(beside(&data_dir), copies, "there was nothing to migrate");
}

#[tokio::test]
async fn metrics_of_an_earlier_version_become_chunks_and_read_the_same() {
    let temp = TempDir::new().unwrap();
    let data_dir = of_version_2(&temp).await;
    let mut connection = connect(&data_dir.database()).await;
    let run: String = sqlx::query_scalar("select id from runs where name = 'old-run'")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    sqlx::raw_sql(
        "delete from metric_points;
        delete from metric_keys;
        insert into metric_keys (id, run_id, key) select 7, id, 'loss' from runs where name = 'old-run';
        with recursive n (i) as (select 0 union all select i + 1 from n where i < 9999)
        insert into metric_points (key_id, rank, step, attempt, time_ms, value, bits)
        select 7, 1, i, i >= 5000, 1700000000000 + i, i, case when i % 2 then 4607182418800017408 else -1 end from n;",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    for _ in 0..2 {
        let lock = data_dir.try_lock().unwrap().unwrap();
        let (state, task) = start(StateOptions::new(data_dir.clone(), lock)).await.unwrap();
        let request = SeriesRequest {
            keys: vec!["loss".into()],
            rank: Some(1),
            attempt: AttemptChoice::Merged,
            span: Span::ALL,
            max_points: 100_000,
            mode: Mode::Raw,
            axis: Axis::Step,
            since: None,
        };
        let series = state.series(&RunId::parse(&run).unwrap(), &request).await.unwrap().series;
        assert_eq!(series[0].step, (0..10_000).collect::<Vec<i64>>());
        assert_eq!(series[0].attempt_at[4_999..5_001], [0, 1]);
        assert_eq!(series[0].value[1].0, 1.0);
        assert_eq!(series[0].value[2].0.to_bits(), u64::MAX, "bit by bit");
        assert!(task.shutdown(Duration::from_secs(10)).await);
    }
    let mut connection = connect(&data_dir.database()).await;
    assert_eq!(number(&mut connection, "select count(*) from metric_points").await, 0);
    assert_eq!(number(&mut connection, "select count(*) from metric_chunks").await, 2);
}

#[tokio::test]
async fn one_bad_run_keeps_no_head_from_starting_and_no_other_from_being_shown() {
    for (spoil, shown) in [
        // Found when the documents are made anew.
        ("update runs set settings = '[' where name = 'old-bad'", vec!["old-run"]),
        // Found when the list is read.
        ("update runs set run_status = 'NONSENSE' where name = 'old-bad'", vec!["old-run"]),
        // Found when what lives is read.
        (
            "update runs set run_status = 'STARTED', phase = 'NONSENSE' where name = 'old-bad'",
            vec!["old-run"],
        ),
    ] {
        let temp = TempDir::new().unwrap();
        let data_dir = of_version_2(&temp).await;
        let mut connection = connect(&data_dir.database()).await;
        sqlx::query(spoil).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        let lock = data_dir.try_lock().unwrap().unwrap();
        let (state, task) = start(StateOptions::new(data_dir.clone(), lock)).await.unwrap();
        let include = Include { metrics: vec!["*".into()], ..Include::default() };
        let list = state.list(&ListQuery::default(), &include).await.unwrap();
        let list: Value = serde_json::from_slice(&list).unwrap();
        let names: Vec<&str> =
            list["train_runs"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(names, shown, "{spoil}");
        assert!(task.shutdown(Duration::from_secs(10)).await);
    }
}

#[tokio::test]
async fn a_database_that_cannot_be_copied_is_not_migrated() {
    let temp = TempDir::new().unwrap();
    let data_dir = of_version_2(&temp).await;
    let before = std::fs::read(data_dir.database()).unwrap();
    // Stands where the copy is written, and cannot be removed as a file.
    let in_the_way = data_dir.root().join("trainhead.db.unfinished-copy");
    std::fs::create_dir(&in_the_way).unwrap();
    let refused = open(&data_dir).await.unwrap_err().to_string();
    assert!(refused.contains("nothing was changed") && refused.contains("trainhead.db.v2-"), "{refused}");
    assert_eq!(std::fs::read(data_dir.database()).unwrap(), before);
    assert_eq!(beside(&data_dir), std::slice::from_ref(&in_the_way));
    std::fs::remove_dir(in_the_way).unwrap();
    open(&data_dir).await.unwrap();
}

#[tokio::test]
async fn what_deleted_runs_took_is_given_back_to_the_disk() {
    const RUNS: usize = 24;
    let temp = TempDir::new().unwrap();
    let data_dir = DataDir::open(temp.path()).unwrap();
    let lock = data_dir.try_lock().unwrap().unwrap();
    let (state, task) = start(StateOptions::new(data_dir.clone(), lock)).await.unwrap();
    for i in 0..RUNS {
        let mut body = RegisterRun::by(ActorId::parse("c").unwrap());
        body.id = Some(RunId::parse(&format!("r{i}")).unwrap());
        body.settings.insert("long".into(), Value::String("x".repeat(500_000)));
        let (registration, _) = state.register(body).await.unwrap();
        let end = serde_json::from_value(json!({"run_status": "FINISHED"})).unwrap();
        state.say(&registration.run_id, &registration.token, RunVerb::End(end)).await.unwrap();
    }
    let full = state.readiness().await.unwrap().database_bytes;
    assert!(full > 10_000_000, "more than one step gives back: {full}");
    let all =
        CollectGarbage { keep: Some(0), purge: true, trash_for_ms: Some(0), ..CollectGarbage::default() };
    // The first request fills the trash, the second one empties it.
    assert_eq!(state.collect_garbage(all.clone()).await.unwrap().trashed.len(), RUNS);
    assert_eq!(state.collect_garbage(all).await.unwrap().purged.len(), RUNS);
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut looks = interval(Duration::from_millis(20));
    while state.readiness().await.unwrap().database_bytes > 1_000_000 {
        assert!(Instant::now() < deadline, "nothing is given back");
        looks.tick().await;
    }
    assert!(task.shutdown(Duration::from_secs(10)).await);
    let left = data_dir.database().metadata().unwrap().len();
    assert!(left < 1_000_000, "{left} of {full} are left");
}

#[tokio::test]
async fn who_died_with_a_head_is_known_as_dead_by_the_first_answer_of_the_next() {
    let temp = TempDir::new().unwrap();
    let data_dir = DataDir::open(temp.path()).unwrap();
    // It stands still: the next head is asked in the very moment in which it begins.
    let clock = Arc::new(ManualClock::at(Timestamp::from_ms(1_800_000_000_000)));
    let begin = async || {
        let lock = data_dir.try_lock().unwrap().unwrap();
        let options = StateOptions { clock: clock.clone(), ..StateOptions::new(data_dir.clone(), lock) };
        start(options).await.unwrap()
    };
    let (state, task) = begin().await;
    let mut controller = Command::new("sleep").arg("600").spawn().unwrap();
    let mut body = RegisterRun::by(ActorId::parse("c").unwrap());
    body.controller.process = Some(identify(controller.id()).unwrap());
    let (registration, _) = state.register(body).await.unwrap();
    assert!(task.shutdown(Duration::from_secs(10)).await);
    controller.kill().unwrap();
    controller.wait().unwrap();

    // On this thread nothing of the head runs before the question is asked.
    let (state, task) = begin().await;
    let shown: Value = serde_json::from_slice(&state.run(&registration.run_id).await.unwrap()).unwrap();
    assert_eq!(shown["run_status"], "ABORTED");
    assert!(task.shutdown(Duration::from_secs(10)).await);
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_not_changed_by_a_byte() {
    let temp = TempDir::new().unwrap();
    let data_dir = DataDir::open(temp.path()).unwrap();
    open(&data_dir).await.unwrap();
    let mut connection = connect(&data_dir.database()).await;
    let newest: i64 = sqlx::query_scalar("select max(version) from _sqlx_migrations")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time)
        values (999, 'later', 1, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::query("pragma wal_checkpoint(truncate)").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    let before = std::fs::read(data_dir.database()).unwrap();
    let refused = open(&data_dir).await.unwrap_err();
    assert!(
        matches!(refused, StateError::NewerDatabase { found: 999, known } if known == newest),
        "{refused}"
    );
    assert!(refused.to_string().contains("999") && refused.to_string().contains(&newest.to_string()));
    assert_eq!(std::fs::read(data_dir.database()).unwrap(), before);
}

#[tokio::test]
async fn a_database_opens_again_and_its_wal_is_folded_by_an_orderly_stop() {
    let temp = TempDir::new().unwrap();
    let data_dir = DataDir::open(temp.path()).unwrap();
    for _ in 0..3 {
        open(&data_dir).await.unwrap();
        let wal = temp.path().join("trainhead.db-wal");
        assert!(wal.metadata().map_or(0, |m| m.len()) == 0, "nothing waits in the WAL");
    }
}
