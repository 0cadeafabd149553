//! Where ranks that hang stand: their Python stacks, taken by py-spy if it is installed, in their logs.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{process::Command, sync::oneshot, time::timeout};

use super::failure;
use crate::base::Tasks;

/// No more ranks are looked at: they stand at the same place as a rule.
const RANKS: usize = 8;
/// How long one look may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Appends the stacks of these processes to their logs. Says the end of the first one's log when that is done.
pub(super) fn write(ranks: Vec<(u32, PathBuf)>, tasks: &Tasks) -> oneshot::Receiver<Vec<String>> {
    let (done, written) = oneshot::channel();
    let stop = tasks.stopping();
    drop(tasks.spawn(async move {
        let all = async {
            for (pid, log) in ranks.iter().take(RANKS) {
                let stacks = stacks(*pid).await;
                let log = log.clone();
                // A log that cannot be written any more is without them.
                let _ = tokio::task::spawn_blocking(move || append(&log, &stacks)).await;
            }
            let log = ranks.into_iter().next().map(|(_, log)| log);
            tokio::task::spawn_blocking(move || {
                log.and_then(|log| failure::log_tail(&log).ok()).unwrap_or_default()
            })
            .await
            .unwrap_or_default()
        };
        tokio::select! {
            // The controller may be gone.
            tail = all => drop(done.send(tail)),
            () = stop.cancelled() => {}
        }
    }));
    written
}

async fn stacks(pid: u32) -> String {
    let mut command = Command::new("py-spy");
    command.args(["dump", "--pid", &pid.to_string()]).stdin(Stdio::null()).kill_on_drop(true);
    let said = match timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(Ok(output)) => format!("py-spy: {}", String::from_utf8_lossy(&output.stderr).trim()),
        Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => {
            "install py-spy to see here where it stands (pip install py-spy)".to_owned()
        }
        Ok(Err(e)) => format!("py-spy: {e}"),
        Err(_) => format!("py-spy did not answer within {} s", LIMIT.as_secs()),
    };
    format!("\n[trainhead] process {pid} reports nothing; its stacks:\n{}\n", said.trim_end())
}

fn append(log: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(log)?.write_all(text.as_bytes())
}
