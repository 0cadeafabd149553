//! The signals that mean something to a run.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::controller::{ControllerHandle, TrainResult, process};

/// Those that are listened for, from before anything is started.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Passes signals on to a controller while it runs: once is a graceful stop, again is by force. SIGTERM under a
    /// scheduler is a notice of preemption.
    pub(super) async fn pass_on(
        &mut self,
        run: impl Future<Output = TrainResult>,
        handle: &ControllerHandle,
    ) -> TrainResult {
        tokio::pin!(run);
        let user =
            std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".into());
        // Schedulers that are about to take the machine away say so with SIGTERM.
        let job = std::env::var("SLURM_JOB_ID").ok().filter(|job| !job.is_empty());
        let mut asked = false;
        loop {
            let name = tokio::select! {
                result = &mut run => return result,
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => match &job {
                    Some(job) => {
                        handle.preempt(&format!("preempted: SIGTERM in Slurm job {job}"));
                        continue;
                    }
                    None => "SIGTERM",
                },
                _ = self.hangup.recv() => "SIGHUP",
                _ = self.user1.recv() => {
                    handle.signal(process::parse_signal("SIGUSR1").unwrap_or(10));
                    continue;
                }
                _ = self.user2.recv() => {
                    handle.signal(process::parse_signal("SIGUSR2").unwrap_or(12));
                    continue;
                }
            };
            if std::mem::replace(&mut asked, true) {
                handle.kill();
            } else {
                handle.stop(&format!("{user} ({name})"));
            }
        }
    }

    /// Waits for a signal to end.
    pub(super) async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
