//! `trainhead serve`: the head alone.

use std::{io::Write, process::ExitCode};

use anyhow::bail;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::{
    head::{EmbeddedHead, Port, Published, data_dir},
    options::{Global, Serve},
};

/// Serves until SIGTERM or SIGINT.
pub(super) async fn serve(global: &Global, _: &Serve) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let data_dir = data_dir(global)?;
    let Some(lock) = data_dir.try_lock()? else {
        let who = data_dir
            .head_info()
            .map(|head| format!(" at {} (pid {})", head.url, head.pid))
            .unwrap_or_default();
        bail!("a head{who} serves {} already", data_dir.root().display());
    };
    let head =
        EmbeddedHead::start(global, data_dir, lock, Port::Exactly(global.port), Published::Yes).await?;
    announce(global, &head.url);
    tokio::select! {
        _ = terminate.recv() => info!("SIGTERM: stopping"),
        _ = interrupt.recv() => info!("SIGINT: stopping"),
    }
    head.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

fn announce(global: &Global, url: &str) {
    let line = if global.json {
        serde_json::json!({"url": url}).to_string()
    } else {
        format!("TrainHead is at {url}")
    };
    let mut out = std::io::stdout().lock();
    // A head that nobody listens to serves all the same.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
