//! Serving: accept, answer, and stop in order.

use std::{io, time::Duration};

use axum::{Router, serve::ListenerExt};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// What is in flight gets this long when the head stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves `router` until `stop` is cancelled, then finishes what is in flight.
///
/// # Errors
/// When the listener fails.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) -> io::Result<()> {
    // Without this, an answer in several writes (a stream) waits 40 ms for Nagle's algorithm.
    let listener = listener.tap_io(|stream| {
        if let Err(e) = stream.set_nodelay(true) {
            warn!("a connection keeps its delay: {e}");
        }
    });
    let drained = stop.clone();
    let serving =
        axum::serve(listener, router).with_graceful_shutdown(async move { drained.cancelled().await });
    let limit = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = serving => result,
        () = limit => Ok(()),
    }
}
