//! Rows travel to SQLite as one JSON array a table, so that a commit costs a statement a table and not a statement a
//! row (measured: each statement through sqlx costs 22 µs). `json_each` and `->>` are SQLite's own; PostgreSQL has the
//! same under other names.

use std::str::FromStr;

use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::StoreError;

/// Rows on their way, as the JSON array that `json_each` takes apart.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    table: &'static str,
    text: Vec<u8>,
    broken: Option<String>,
}

impl Rows {
    pub(super) fn of(table: &'static str) -> Self {
        Self { table, text: Vec::new(), broken: None }
    }

    pub(super) fn push<T: Serialize>(&mut self, row: &T) {
        self.text.push(if self.text.is_empty() { b'[' } else { b',' });
        if let Err(e) = serde_json::to_writer(&mut self.text, row) {
            self.broken = Some(e.to_string());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Writes the rows by a statement that reads them from `$1`, if there are any.
    ///
    /// Such a statement begins with `with rows (v) as materialized (select value from json_each($1))`: each mention of
    /// `json_each`'s own column would make its text anew (measured: half of the cost of a registration).
    pub(super) async fn write(
        self,
        connection: &mut SqliteConnection,
        statement: &'static str,
    ) -> Result<(), StoreError> {
        self.write_each(connection, &[statement]).await
    }

    /// The same with several statements, one after the other.
    pub(super) async fn write_each(
        mut self,
        connection: &mut SqliteConnection,
        statements: &[&'static str],
    ) -> Result<(), StoreError> {
        let table = self.table;
        if let Some(what) = self.broken {
            return Err(StoreError::Corrupt { table, what });
        }
        if self.text.is_empty() {
            return Ok(());
        }
        self.text.push(b']');
        // serde_json writes UTF-8.
        let text =
            String::from_utf8(self.text).map_err(|e| StoreError::Corrupt { table, what: e.to_string() })?;
        for statement in statements {
            sqlx::query(*statement).bind(text.as_str()).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

/// The values as a JSON array, for a query that takes many.
pub(super) fn array<T: Serialize>(table: &'static str, rows: &[T]) -> Result<String, StoreError> {
    serde_json::to_string(rows).map_err(|e| StoreError::Corrupt { table, what: e.to_string() })
}

/// A column whose text is one of a closed set of words.
pub(super) fn word<T: FromStr>(
    table: &'static str,
    row: &SqliteRow,
    column: &'static str,
) -> Result<T, StoreError> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::Corrupt { table, what: format!("{column} = {text:?}") })
}

/// A column that may be null and else is one of a closed set of words.
pub(super) fn optional_word<T: FromStr>(
    table: &'static str,
    row: &SqliteRow,
    column: &'static str,
) -> Result<Option<T>, StoreError> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| {
        text.parse().map_err(|_| StoreError::Corrupt { table, what: format!("{column} = {text:?}") })
    })
    .transpose()
}

/// A column that holds JSON.
pub(super) fn json<T: DeserializeOwned>(
    table: &'static str,
    row: &SqliteRow,
    column: &'static str,
) -> Result<T, StoreError> {
    let text: Option<String> = row.try_get(column)?;
    serde_json::from_str(text.as_deref().unwrap_or("null"))
        .map_err(|e| StoreError::Corrupt { table, what: format!("{column}: {e}") })
}

/// A column that holds a number which fits a smaller type.
pub(super) fn small<T: TryFrom<i64>>(
    table: &'static str,
    row: &SqliteRow,
    column: &'static str,
) -> Result<T, StoreError> {
    let n: i64 = row.try_get(column)?;
    T::try_from(n).map_err(|_| StoreError::Corrupt { table, what: format!("{column} = {n}") })
}
