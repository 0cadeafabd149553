//! Rows travel to SQLite as one JSON array a table, so that a commit costs a statement a table and not a statement a
//! row (measured: each statement through sqlx costs 22 µs). Long texts of the rows stand beside them in one blob, from which
//! each is cut out, so that none is quoted, parsed and unquoted on its way. `json_each` and `->>` are SQLite's own;
//! PostgreSQL has the same under other names.

use std::str::FromStr;

use serde::{Serialize, de::DeserializeOwned};
use sqlx::{Row, SqliteConnection, sqlite::SqliteRow};

use super::StoreError;

/// Rows on their way, as the JSON array that `json_each` takes apart.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    table: &'static str,
    text: Vec<u8>,
    long: Vec<u8>,
    broken: Option<String>,
}

/// A long text of a row: where among those of its table it begins, counted from 1, and how many bytes it has.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Long(usize, usize);

impl Rows {
    pub(super) fn of(table: &'static str) -> Self {
        Self { table, text: Vec::new(), long: Vec::new(), broken: None }
    }

    /// Puts a long text beside the rows; statements read it as
    /// `cast(substr($long, v->>'$.column[0]', v->>'$.column[1]') as text)`.
    pub(super) fn long_text(&mut self, text: &str) -> Long {
        self.long_bytes(text.as_bytes())
    }

    /// The same of bytes, which statements read without the cast.
    pub(super) fn long_bytes(&mut self, bytes: &[u8]) -> Long {
        self.long.extend_from_slice(bytes);
        Long(self.long.len() + 1 - bytes.len(), bytes.len())
    }

    /// The same of a value as JSON.
    pub(super) fn long_json<T: Serialize>(&mut self, value: &T) -> Long {
        let begin = self.long.len();
        if let Err(e) = serde_json::to_writer(&mut self.long, value) {
            self.broken = Some(e.to_string());
        }
        Long(begin + 1, self.long.len() - begin)
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
    pub(super) async fn write(
        self,
        connection: &mut SqliteConnection,
        statement: &'static str,
    ) -> Result<(), StoreError> {
        let mut transaction = Transaction::default();
        transaction.add(self, &[statement])?;
        transaction.commit(connection).await
    }

    /// The finished array and the long texts, if there are any rows.
    fn finish(mut self) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        let table = self.table;
        if let Some(what) = self.broken {
            return Err(StoreError::Corrupt { table, what });
        }
        if self.text.is_empty() {
            return Ok(None);
        }
        self.text.push(b']');
        // serde_json writes UTF-8.
        let text = String::from_utf8(self.text);
        text.map(|text| Some((text, self.long)))
            .map_err(|e| StoreError::Corrupt { table, what: e.to_string() })
    }
}

/// Statements that are carried out together or not at all. They travel to SQLite's thread as one text: it is the round
/// trips that cost (22 us each), not the statements.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    sql: String,
    arguments: Vec<Argument>,
}

#[derive(Debug)]
enum Argument {
    Text(String),
    Blob(Vec<u8>),
}

impl Transaction {
    /// Adds statements that read rows from `$1` and their long texts from `$long`; nothing if there are none. A statement
    /// that takes rows apart begins with `with rows (v) as materialized (select value from jsonb_each($1))`: each mention of
    /// the table's own column would make its value anew, and the binary form is found its way in without being read
    /// (measured: together half of the cost of a registration). What only adds rows is an `insert or rollback`: as no
    /// statement of a transaction can fail alone, SQLite need not keep how each page was before it.
    pub(super) fn add(&mut self, rows: Rows, statements: &[&'static str]) -> Result<(), StoreError> {
        let Some((text, long)) = rows.finish()? else { return Ok(()) };
        self.arguments.push(Argument::Text(text));
        let place = format!("${}", self.arguments.len());
        let mut place_of_long = String::new();
        if !long.is_empty() {
            self.arguments.push(Argument::Blob(long));
            place_of_long = format!("${}", self.arguments.len());
        }
        for statement in statements {
            self.sql.push_str(&statement.replace("$1", &place).replace("$long", &place_of_long));
            self.sql.push_str(";\n");
        }
        Ok(())
    }

    pub(super) async fn commit(self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        if self.arguments.is_empty() {
            return Ok(());
        }
        let sql = sqlx::AssertSqlSafe(format!("begin immediate;\n{}commit", self.sql));
        let query = self.arguments.into_iter().fold(sqlx::query(sql), |query, argument| match argument {
            Argument::Text(text) => query.bind(text),
            Argument::Blob(bytes) => query.bind(bytes),
        });
        let result = query.execute(&mut *connection).await;
        if result.is_err() {
            // If it failed before it began there is nothing to roll back, which is an error of no interest.
            let _ = sqlx::query("rollback").execute(&mut *connection).await;
        }
        result?;
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
