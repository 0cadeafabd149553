//! The life of one attempt's agent: start it, have it start the ranks, pass on what it says and what it is to do, and
//! clear away what is left at the end.

use std::{io, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tracing::warn;

use super::{Launch, Orphans};
use crate::{
    base::{error::chain, log_limit::keep_within, number, until},
    controller::{
        agent::{
            AgentError, AgentProcess, CgroupUse, FromAgent, RankSpec, StartedWorker, ToAgent, sweep_orphans,
        },
        failure,
        group::{GroupEvent, GroupSpec, RankExit},
        policy::Permanent,
        process::signal_name,
        words::new_worker,
    },
    model::StopReport,
};

/// How long the agent may take to start all ranks.
const START_LIMIT: Duration = Duration::from_secs(120);
/// What an agent gets beyond the grace to end a tree by force and say so; one that hangs is killed, and its ranks with it.
const END_LIMIT: Duration = Duration::from_secs(15);
/// How long what is left of a killed agent's tree may take to go.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);
/// The sizes of logs are looked at this often.
const LOOK_AT_LOGS: Duration = Duration::from_millis(500);
/// A rank that fails for a port that somebody holds does so soon.
const PORT_LIMIT: Duration = Duration::from_secs(120);

/// What the controller wants of the group.
#[derive(Debug)]
pub(super) enum Order {
    Signal(i32),
    Stop { signal: i32, grace: Duration },
    Kill,
}

/// Drives one attempt from its start to its last event, which is one of `StartFailed`, `Ended` and `Lost`. If the
/// controller is gone, so are its orders, and the agent ends everything.
pub(super) async fn drive(
    launch: Launch,
    spec: GroupSpec,
    mut orders: mpsc::Receiver<Order>,
    events: mpsc::Sender<GroupEvent>,
) {
    let last = match start(&launch, &spec, &mut orders).await {
        Ok((agent, port)) => {
            let drive = Drive {
                launch: &launch,
                spec: &spec,
                port,
                events: &events,
                begun: Instant::now(),
                deadline: None,
                stopping: false,
                failed: false,
                started: false,
                limits_logs: true,
            };
            drive.run(agent, orders).await
        }
        Err(event) => event,
    };
    // The controller is gone: nobody to tell.
    let _ = events.send(last).await;
}

fn failed(message: String, permanent: Permanent) -> GroupEvent {
    GroupEvent::StartFailed { message, permanent }
}

/// Starts the agent and asks it for the ranks. Whoever is to stop meanwhile has not begun.
async fn start(
    launch: &Launch,
    spec: &GroupSpec,
    orders: &mut mpsc::Receiver<Order>,
) -> Result<(AgentProcess, u16), GroupEvent> {
    let no_place =
        |e: std::io::Error| failed(format!("no port or directory for the workers: {e}"), Permanent::No);
    let port = Launch::free_port().map_err(no_place)?;
    let ranks: Vec<RankSpec> = launch.ranks(spec, port).map_err(no_place)?;
    let asked = async {
        let mut agent = AgentProcess::spawn(&launch.agent).await?;
        agent.send(&ToAgent::Start { ranks, cgroup: CgroupUse::IfPossible }).await?;
        Ok(agent)
    };
    tokio::select! {
        agent = asked => match agent {
            Ok(agent) => Ok((agent, port)),
            Err(e) => {
                let permanent =
                    if matches!(e, AgentError::Spawn { .. }) { Permanent::Yes } else { Permanent::No };
                Err(failed(format!("the agent: {}", chain(&e)), permanent))
            }
        },
        () = told_to_end(orders) => Err(failed("stopped before the workers were started".into(), Permanent::No)),
    }
}

async fn told_to_end(orders: &mut mpsc::Receiver<Order>) {
    loop {
        match orders.recv().await {
            Some(Order::Signal(_)) => {}
            Some(Order::Stop { .. } | Order::Kill) | None => return,
        }
    }
}

struct Drive<'a> {
    launch: &'a Launch,
    spec: &'a GroupSpec,
    port: u16,
    events: &'a mpsc::Sender<GroupEvent>,
    begun: Instant,
    /// When an agent that was told to end is taken for stuck; or one that has not started the ranks.
    deadline: Option<Instant>,
    stopping: bool,
    /// A rank has failed.
    failed: bool,
    started: bool,
    limits_logs: bool,
}

enum Over {
    Said(GroupEvent),
    Lost,
    /// The controller is gone.
    Deserted,
}

impl Drive<'_> {
    async fn run(mut self, mut agent: AgentProcess, mut orders: mpsc::Receiver<Order>) -> GroupEvent {
        let mut look = interval(LOOK_AT_LOGS);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.deadline = Some(self.begun + START_LIMIT);
        let over = loop {
            tokio::select! {
                message = agent.recv() => match message {
                    Ok(Some(message)) => {
                        if let Some(over) = self.heard(message).await {
                            break over;
                        }
                    }
                    Ok(None) => break Over::Lost,
                    Err(e) => {
                        warn!("the agent is not understood: {e}");
                        break Over::Lost;
                    }
                },
                order = orders.recv() => match order {
                    Some(order) => self.obey(&mut agent, order).await,
                    None => break Over::Deserted,
                },
                () = until(self.deadline) => {
                    warn!("the agent does not answer and is ended");
                    break Over::Lost;
                }
                _ = look.tick() => self.limit_logs().await,
            }
        };
        let swept = self.clear_away(agent, matches!(over, Over::Deserted)).await;
        // What was written since the last look.
        self.limit_logs().await;
        match over {
            Over::Said(GroupEvent::Ended(report)) => GroupEvent::Ended(merged(report, swept)),
            Over::Said(event) => event,
            Over::Lost | Over::Deserted => GroupEvent::Lost(swept),
        }
    }

    /// Passes on what the agent says; its last word ends the attempt.
    async fn heard(&mut self, message: FromAgent) -> Option<Over> {
        let event = match message {
            FromAgent::Hello { .. } => return None,
            FromAgent::Started { workers, .. } => {
                self.started = true;
                if !self.stopping {
                    self.deadline = None;
                }
                let bundle = |rank| self.spec.reservation.iter().find(|b| b.world_rank == rank);
                let worker =
                    |w: StartedWorker| new_worker(w.rank, Some(w.pid), &self.launch.host, bundle(w.rank));
                GroupEvent::Started {
                    workers: workers.into_iter().map(worker).collect(),
                    master_address: Some(format!("127.0.0.1:{}", self.port)),
                }
            }
            FromAgent::StartFailed { message, permanent, .. } => {
                let permanent = if permanent { Permanent::Yes } else { Permanent::No };
                return Some(Over::Said(failed(message, permanent)));
            }
            FromAgent::Exited { rank, code, signal, oom, .. } => {
                let signal = signal.map(|n| signal_name(n).into_owned());
                let out_of_memory = oom.map(|oom| oom.sentence());
                let exit = RankExit { rank, code, signal, out_of_memory, ..RankExit::default() };
                GroupEvent::Exited(self.with_evidence(exit).await)
            }
            FromAgent::Ended { report } => return Some(Over::Said(GroupEvent::Ended(report))),
        };
        // The controller is gone: its orders end next.
        let _ = self.events.send(event).await;
        None
    }

    /// The first rank that fails by itself is worth a look at what it left.
    async fn with_evidence(&mut self, exit: RankExit) -> RankExit {
        if exit.is_success() || self.stopping || std::mem::replace(&mut self.failed, true) {
            return exit;
        }
        let log = self.launch.log(self.spec, exit.rank);
        let error_file = self.launch.data_dir.error_file(&self.spec.run, self.spec.attempt, exit.rank);
        let found = tokio::task::spawn_blocking(move || failure::evidence(&log, &error_file)).await;
        let failure::Evidence { log_tail, message } = found.unwrap_or_default();
        let port_taken = self.begun.elapsed() < PORT_LIMIT && failure::names_taken_port(&log_tail, self.port);
        RankExit { log_tail, message, port_taken, ..exit }
    }

    async fn obey(&mut self, agent: &mut AgentProcess, order: Order) {
        let message = match order {
            Order::Signal(signal) => ToAgent::Signal { signal },
            Order::Stop { signal, grace } => {
                self.end_within(grace);
                let grace_ms = u64::try_from(number::millis(grace)).unwrap_or(0);
                ToAgent::Stop { signal, grace_ms }
            }
            Order::Kill => {
                self.end_within(Duration::ZERO);
                ToAgent::Kill
            }
        };
        // A stuck agent does not even take words in.
        match timeout(END_LIMIT, agent.send(&message)).await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => warn!("the agent was not told: {e}"),
            Err(_) => self.deadline = Some(Instant::now()),
        }
    }

    fn end_within(&mut self, grace: Duration) {
        self.stopping = true;
        let at = Instant::now() + grace + END_LIMIT;
        self.deadline = Some(self.deadline.filter(|_| self.started).map_or(at, |known| known.min(at)));
    }

    /// Reaps the agent. If it was killed, its ranks died with it, and what they left behind came home to us; else there
    /// is nothing to find.
    async fn clear_away(&self, agent: AgentProcess, deserted: bool) -> StopReport {
        if let Err(e) = agent.finish().await {
            warn!("the agent was not reaped: {e}");
        }
        if deserted || self.launch.orphans == Orphans::Unknown {
            return StopReport::default();
        }
        match tokio::task::spawn_blocking(|| sweep_orphans(&[], SWEEP_LIMIT)).await {
            Ok(swept) => StopReport {
                forced: !swept.processes_ended.is_empty(),
                processes_ended: swept.processes_ended,
                left: swept.left,
            },
            Err(_) => StopReport::default(),
        }
    }

    /// Keeps the logs within their limit, if they have one.
    async fn limit_logs(&mut self) {
        let Some(max) = self.launch.log_max_bytes.filter(|_| self.limits_logs) else { return };
        let logs: Vec<_> = (0..self.spec.num_workers).map(|rank| self.launch.log(self.spec, rank)).collect();
        let limited = tokio::task::spawn_blocking(move || {
            logs.iter().try_for_each(|log| match keep_within(log, max) {
                // Not written yet.
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
                result => result.map(drop),
            })
        });
        if let Ok(Err(e)) = limited.await {
            warn!("--log-max-bytes is without effect: {e}");
            self.limits_logs = false;
        }
    }
}

fn merged(said: StopReport, swept: StopReport) -> StopReport {
    StopReport {
        processes_ended: [said.processes_ended, swept.processes_ended].concat(),
        forced: said.forced || swept.forced,
        left: [said.left, swept.left].concat(),
    }
}
