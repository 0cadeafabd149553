//! What the state layer answers when it cannot do what was asked.

use crate::{base::error::chain, model::Refusal, store::StoreError};

/// Why a command or query was not carried out. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StateError {
    /// The rules do not allow it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too many commands wait.
    #[error("too many commands wait for the store")]
    Busy,
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// The store cannot be read or written just now.
    #[error("the store failed: {0}")]
    Unavailable(String),
    /// The head is stopping.
    #[error("the head is stopping")]
    Stopping,
    /// The database is of a later version.
    #[error(
        "the database is of version {found}, but this program knows versions up to {known}: use a newer trainhead, or another --data-dir"
    )]
    NewerDatabase {
        /// Version of the database.
        found: i64,
        /// Newest version known here.
        known: i64,
    },
}

impl From<StoreError> for StateError {
    fn from(e: StoreError) -> Self {
        match e {
            StoreError::Full => Self::DiskFull,
            StoreError::Newer { found, known } => Self::NewerDatabase { found, known },
            StoreError::Sqlite(_)
            | StoreError::Io(_)
            | StoreError::Copy { .. }
            | StoreError::Migrate(_)
            | StoreError::Corrupt { .. }
            | StoreError::Record(..) => Self::Unavailable(chain(&e)),
        }
    }
}
