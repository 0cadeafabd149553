//! Work that blocks, off the threads that answer.

use super::StateError;

/// Carries out `work` where it may block.
///
/// # Errors
/// When it panicked, or the runtime ends.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StateError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| StateError::Unavailable(e.to_string()))
}
