//! An embedded controller with Rust closures as the train function, over the in-process state.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;
use trainhead::{
    base::{RunId, SystemClock},
    controller::{
        Callback, ClosureGroup, ControllerOptions, FailurePolicy, TrainController, TrainResult, UploadMode,
        WorkerSession,
    },
    state::{DataDir, StateClient, StateHandle, StateOptions, StateTask, start},
};

/// A step of training takes some time.
fn breathe() {
    std::thread::park_timeout(Duration::from_millis(1));
}

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

pub(crate) struct Head {
    dir: DataDir,
    pub(crate) state: StateHandle,
    _task: StateTask,
    _temp: TempDir,
}

impl Head {
    pub(crate) async fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let lock = dir.try_lock().unwrap().unwrap();
        let options = StateOptions::new(dir.clone(), lock);
        let (state, task) = start(options).await.unwrap();
        Self { dir, state, _task: task, _temp: temp }
    }

    fn controller<F>(&self, workers: u32, max_failures: i64, train: F) -> TrainController<ClosureGroup>
    where
        F: Fn(WorkerSession) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.controller_by(Arc::new(self.state.clone()), workers, max_failures, train)
    }

    /// A run of one worker that may fail once, watched by a callback.
    pub(crate) fn with_callback<F>(
        &self,
        callback: Arc<dyn Callback>,
        train: F,
    ) -> TrainController<ClosureGroup>
    where
        F: Fn(WorkerSession) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let clock = Arc::new(SystemClock::new());
        let options = ControllerOptions {
            callbacks: vec![callback],
            failures: FailurePolicy { max_failures: 1, ..FailurePolicy::default() },
            grace: Duration::from_secs(5),
            heartbeat: Duration::from_millis(50),
            ..ControllerOptions::new(RunId::generate(), 1, self.dir.clone(), clock)
        };
        TrainController::new(options, Arc::new(self.state.clone()), ClosureGroup::new(train)).unwrap()
    }

    /// The same by another way to the state.
    pub(crate) fn controller_by<F>(
        &self,
        client: Arc<dyn StateClient>,
        workers: u32,
        max_failures: i64,
        train: F,
    ) -> TrainController<ClosureGroup>
    where
        F: Fn(WorkerSession) -> Result<(), Failure> + Send + Sync + 'static,
    {
        let clock = Arc::new(SystemClock::new());
        let options = ControllerOptions {
            experiment: Some("closures".into()),
            tags: [("kind".to_owned(), "test".to_owned())].into(),
            failures: FailurePolicy { max_failures, ..FailurePolicy::default() },
            grace: Duration::from_secs(5),
            heartbeat: Duration::from_millis(50),
            ..ControllerOptions::new(RunId::generate(), workers, self.dir.clone(), clock)
        };
        TrainController::new(options, client, ClosureGroup::new(train)).unwrap()
    }

    pub(crate) async fn record(&self, result: &TrainResult) -> Value {
        assert!(result.delivered);
        serde_json::from_slice(&self.state.run(&result.run_id).await.unwrap()).unwrap()
    }
}

#[tokio::test]
async fn closures_train_report_and_finish() {
    let head = Head::new().await;
    let controller = head.controller(3, 0, |session| {
        for step in 0..100 {
            session.report(Some(step), [("loss", 1.0), ("rank", f64::from(session.context().rank))])?;
        }
        Ok(())
    });
    let result = controller.run().await;
    assert_eq!((result.exit_code, result.run_status), (0, "FINISHED"));
    let run = head.record(&result).await;
    assert_eq!(run["run_status"], "FINISHED");
    assert_eq!(run["attempts"][0]["end_reason"], "completed");
    assert_eq!(run["evidence"]["progress"]["ranks"].as_array().unwrap().len(), 3);
    let metrics = head.state.metrics(&result.run_id).await.unwrap();
    assert_eq!(metrics.metrics.iter().find(|m| m.key == "loss").unwrap().count, 300);
}

#[tokio::test]
async fn a_failing_rank_ends_its_peers_and_is_retried_within_the_budget() {
    let head = Head::new().await;
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let controller = head.controller(2, 1, move |session| {
        let context = session.context().clone();
        assert_eq!(context.restart_count, context.attempt, "each rank sees the same count");
        if context.rank == 1 {
            return if counted.fetch_add(1, Ordering::SeqCst) == 0 { Err("boom".into()) } else { Ok(()) };
        }
        while context.attempt == 0 && !session.report(None, [("x", 1.0)])?.stop {
            breathe();
        }
        Ok(())
    });
    let result = controller.run().await;
    assert_eq!((result.exit_code, result.num_attempts), (0, 2));
    let run = head.record(&result).await;
    assert_eq!(run["attempts"][0]["status"], "ERRORED");
    assert!(run["attempts"][0]["status_detail"].as_str().unwrap().contains("boom"), "{run}");
    assert_eq!(run["attempts"][1]["status"], "FINISHED");
    assert_eq!(run["num_failures"]["worker"], 1);
}

#[tokio::test]
async fn a_panic_without_budget_errors_the_run_with_its_message() {
    let head = Head::new().await;
    let result = head.controller(1, 0, |_| panic!("no such layer")).run().await;
    assert_eq!((result.exit_code, result.run_status), (1, "ERRORED"));
    let run = head.record(&result).await;
    assert_eq!(run["first_failure"]["rank"], 0);
    assert!(run["status_detail"].as_str().unwrap().contains("no such layer"), "{run}");
}

#[tokio::test]
async fn a_stop_by_the_api_is_obeyed_and_recorded_as_the_user_s() {
    let head = Head::new().await;
    let controller = head.controller(2, 5, |session| {
        while !session.report(None, [("x", 1.0)])?.stop {
            breathe();
        }
        Ok(())
    });
    let id = controller.run_id().clone();
    let mut view = controller.handle().view();
    let (result, ()) = tokio::join!(controller.run(), async {
        view.wait_for(|v| v.workers_alive == 2 && v.registered.is_some()).await.unwrap();
        head.state.request_stop(&id, Default::default()).await.unwrap();
    });
    assert_eq!((result.exit_code, result.run_status), (130, "ABORTED"));
    let run = head.record(&result).await;
    assert_eq!((run["run_status"].as_str(), run["ended_by"].as_str()), (Some("ABORTED"), Some("user")));
    assert!(run["status_detail"].as_str().unwrap().starts_with("stopped by user (API)"));
    assert_eq!(run["attempts"][0]["end_reason"], "stopped");
}

#[tokio::test]
async fn a_closure_goes_on_from_its_checkpoint() {
    let head = Head::new().await;
    let work = TempDir::new().unwrap();
    let dir = work.path().to_owned();
    let controller = head.controller(1, 1, move |session| {
        let from = session.checkpoint()?;
        assert_eq!(from.as_ref().map(|c| c.step), session.context().checkpoint.as_ref().map(|c| c.step));
        let start = match &from {
            Some(checkpoint) => {
                let path = checkpoint.path.as_ref().unwrap();
                std::fs::read_to_string(path.join("epoch"))?.parse::<u64>()? + 1
            }
            None => 0,
        };
        for epoch in start..6 {
            std::fs::write(dir.join("epoch"), epoch.to_string())?;
            let metrics = [("loss", 1.0), ("start", start as f64)];
            let answer = session.report_checkpoint(None, metrics, &dir, UploadMode::Sync)?;
            assert_eq!(answer.report_index, epoch);
            if session.context().attempt == 0 && epoch == 3 {
                return Err("boom".into());
            }
        }
        Ok(())
    });
    let result = controller.run().await;
    assert_eq!((result.exit_code, result.num_attempts), (0, 2), "{result:?}");
    assert_eq!(result.last_metrics["start"].0, 4.0);
    let run = head.record(&result).await;
    assert_eq!(run["num_failures"]["worker"], 1);
}
