//! A worker group of processes on this machine: each attempt has an agent of its own, which is the parent of the ranks,
//! so that the tree of an attempt is exactly the descendants of its agent. A task for each attempt talks to the agent;
//! the controller talks to the task, and never waits.

mod drive;
mod launch;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;

pub use launch::{Launch, Orphans};

use super::group::{GroupEvent, GroupSpec, WorkerGroup};
use crate::base::Tasks;
use drive::{Order, drive};

/// Orders are few: a stop, a kill, signals. One that finds no room comes after as many that mean no less.
const ORDERS: usize = 64;
/// Events that nobody has taken yet; beyond that the task waits, and with it the agent's words.
const EVENTS: usize = 1024;

/// Processes on this machine, held by an agent.
#[derive(Debug)]
pub struct AgentGroup {
    launch: Launch,
    tasks: Tasks,
    now: Option<Driven>,
}

/// The attempt that is there.
#[derive(Debug)]
struct Driven {
    orders: mpsc::Sender<Order>,
    events: mpsc::Receiver<GroupEvent>,
}

impl AgentGroup {
    /// A group that runs `launch`.
    #[must_use]
    pub fn new(launch: Launch) -> Self {
        Self { launch, tasks: Tasks::new(), now: None }
    }

    fn order(&self, order: Order) {
        if let Some(driven) = &self.now {
            // Closed: it is over, which is the next event.
            let _ = driven.orders.try_send(order);
        }
    }
}

#[async_trait]
impl WorkerGroup for AgentGroup {
    fn start(&mut self, spec: GroupSpec) {
        let (orders, received) = mpsc::channel(ORDERS);
        let (told, events) = mpsc::channel(EVENTS);
        drop(self.tasks.spawn(drive(self.launch.clone(), spec, received, told)));
        self.now = Some(Driven { orders, events });
    }

    async fn event(&mut self) -> GroupEvent {
        let Some(driven) = &mut self.now else { return std::future::pending().await };
        match driven.events.recv().await {
            Some(event) => {
                if matches!(
                    event,
                    GroupEvent::StartFailed { .. } | GroupEvent::Ended(_) | GroupEvent::Lost(_)
                ) {
                    self.now = None;
                }
                event
            }
            // It says how it ended before it ends.
            None => std::future::pending().await,
        }
    }

    fn signal(&mut self, signal: i32) {
        self.order(Order::Signal(signal));
    }

    fn shutdown(&mut self, signal: i32, grace: Duration) {
        self.order(Order::Stop { signal, grace });
    }

    fn abort(&mut self) {
        self.order(Order::Kill);
    }
}
