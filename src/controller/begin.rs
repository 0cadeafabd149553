//! How a controller comes to be: its session, its way to the head, its machine and its callbacks.

use std::{collections::VecDeque, sync::Arc};

use serde_json::{Map, Value};
use tokio::sync::watch;

use super::{
    callbacks::{Callbacks, RunContext},
    checkpoints::Desk,
    group::WorkerGroup,
    handle::asks,
    last_report::LastReport,
    log_shipper::LogShipper,
    machine::{Machine, Rules},
    options::{ControllerOptions, ControllerView},
    outbox::Outbox,
    run::{TrainController, Waits},
    session::{Session, SessionInfo},
    session_server,
};
use crate::{
    base::{ActorId, Tasks, number},
    model::{
        checkpoint::{RETENTION, Retention},
        commands::{ControllerIdentity, RegisterRun},
        names::made_up_name,
    },
    state::StateClient,
};

impl<G: WorkerGroup> TrainController<G> {
    /// A controller for a run. The head need not be there yet: the run is registered when it is.
    ///
    /// # Errors
    /// When the session's socket cannot be made.
    pub fn new(
        mut options: ControllerOptions,
        client: Arc<dyn StateClient>,
        group: G,
    ) -> std::io::Result<Self> {
        let run_id = options.run_id.clone();
        let tasks = Tasks::new();
        let begun = options.clock.monotonic();
        let name = options.name.clone().unwrap_or_else(|| made_up_name(&run_id));
        let storage_path = options.data_dir.run_dir(&run_id);
        std::fs::create_dir_all(&storage_path)?;
        let info = SessionInfo {
            run_id: run_id.clone(),
            run_name: name.clone(),
            experiment: options.experiment.clone(),
            storage_path: storage_path.clone(),
            grace_period_ms: number::millis(options.grace),
            config: options.settings.clone(),
        };
        let desk = Desk::open(
            options.checkpoints.clone(),
            run_id.clone(),
            options.experiment.clone(),
            storage_path.clone(),
            Arc::clone(&options.clock),
            &tasks,
        )
        .named(&name);
        let session = Arc::new(Session::new(info, desk.clone(), Arc::clone(&options.clock)));
        if let Some(socket) = &options.session_socket {
            session_server::serve(Arc::clone(&session), socket, &tasks)?;
        }
        let register = RegisterRun {
            id: Some(run_id.clone()),
            name: Some(name.clone()),
            experiment: options.experiment.clone(),
            job_id: options.job_id.clone(),
            settings: with_retention(options.settings.clone(), &options.checkpoints.retention),
            tags: options.tags.clone(),
            start_time_ms: Some(options.clock.now()),
            controller: ControllerIdentity {
                actor_id: ActorId::generate(),
                lease_ttl_ms: u64::try_from(options.lease_ttl.as_millis()).ok(),
                process: options.process.clone(),
            },
            resume: options.resume,
            ..RegisterRun::by(ActorId::generate())
        };
        let outbox = Outbox::start(
            Arc::clone(&client),
            run_id.clone(),
            register,
            Arc::clone(&session),
            Arc::clone(&options.clock),
            options.heartbeat,
            &tasks,
        );
        let shipper = options.ships_logs.then(|| {
            LogShipper::start(client, run_id.clone(), options.data_dir.clone(), outbox.token(), &tasks)
        });
        let rules = Rules {
            run: run_id.clone(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            scaling: options.scaling.clone(),
            failures: options.failures,
            health: options.health,
        };
        let machine = Machine::new(rules);
        let run = RunContext {
            run_id: run_id.clone(),
            run_name: name,
            experiment: options.experiment.clone(),
            storage_path,
        };
        let callbacks = Callbacks::start(std::mem::take(&mut options.callbacks), run, &tasks);
        if let Some(hook) = callbacks.reports() {
            session.tell_of_reports(hook);
        }
        let (show, view) = watch::channel(ControllerView {
            state: machine.state(),
            detail: None,
            attempt: 0,
            workers_alive: 0,
            workers: 0,
            failures: machine.failures(),
            checkpoint: None,
            moving: None,
            last: LastReport::default(),
            registered: None,
        });
        let (handle, asks) = asks(view);
        Ok(Self {
            options,
            run_id,
            group,
            machine,
            session,
            desk,
            outbox,
            callbacks,
            shipper,
            tasks,
            asks,
            show,
            handle,
            stalled: false,
            began: false,
            ready: None,
            over: None,
            waits: Waits::default(),
            effects: VecDeque::new(),
            outcome: None,
            begun,
        })
    }
}

/// The settings say which checkpoints are kept, so that whoever reads the ledger can tell.
fn with_retention(mut settings: Map<String, Value>, retention: &Retention) -> Map<String, Value> {
    if *retention != Retention::default() && Retention::of_settings(&settings) != *retention {
        settings.insert(RETENTION.to_owned(), serde_json::to_value(retention).unwrap_or_default());
    }
    settings
}
