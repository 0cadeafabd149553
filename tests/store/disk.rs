//! Databases of other versions, and directories that somebody holds.

use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tempfile::TempDir;
use trainhead::state::{DataDir, StateError, StateOptions, start};

async fn open(data_dir: &DataDir) -> Result<(), StateError> {
    let lock = data_dir.try_lock().unwrap().expect("nobody else holds it");
    let (_, task) = start(StateOptions::new(data_dir.clone(), lock)).await?;
    assert!(task.shutdown(Duration::from_secs(10)).await);
    Ok(())
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_not_changed_by_a_byte() {
    let temp = TempDir::new().unwrap();
    let data_dir = DataDir::open(temp.path()).unwrap();
    open(&data_dir).await.unwrap();
    let url = format!("sqlite://{}", data_dir.database().display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
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
