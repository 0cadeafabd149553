//! Callbacks: what they hear, in which order, and that what fails in them is contained.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use trainhead::{
    base::Tasks,
    controller::{
        Callback, Called, Reported, RunContext, TrainController, TrainResult, UploadMode, WorkerSession,
    },
    model::{Checkpoint, ControllerState, FirstFailure, StopReport, ledger::Bundle},
};

use crate::closures::{Failure, Head};

/// Writes down what it hears, and fails where it is told to.
#[derive(Debug, Default)]
struct Recorder {
    heard: Mutex<Vec<String>>,
    fail_first_start: AtomicBool,
    panic_at_end: bool,
}

impl Recorder {
    fn heard(&self, what: impl Into<String>) {
        self.heard.lock().push(what.into());
    }
}

#[async_trait]
impl Callback for Recorder {
    async fn after_controller_start(&self, run: &RunContext) -> Called {
        self.heard(format!("start of {}", run.run_name));
        Ok(())
    }
    async fn before_worker_group_start(&self, _: &RunContext, attempt: u32, _: &[Bundle]) -> Called {
        self.heard(format!("before {attempt}"));
        if self.fail_first_start.swap(false, Ordering::SeqCst) {
            return Err("no licence".into());
        }
        Ok(())
    }
    async fn after_report(&self, _: &RunContext, report: &Reported) -> Called {
        self.heard(format!("report {} {:?}", report.step, report.metrics));
        Ok(())
    }
    async fn after_checkpoint_commit(&self, _: &RunContext, checkpoint: &Checkpoint) -> Called {
        self.heard(format!("checkpoint {} of step {}", checkpoint.number, checkpoint.record.step));
        Ok(())
    }
    async fn after_worker_group_shutdown(&self, _: &RunContext, attempt: u32, _: &StopReport) -> Called {
        self.heard(format!("over {attempt}"));
        Ok(())
    }
    async fn after_state_update(
        &self,
        _: &RunContext,
        _: ControllerState,
        next: ControllerState,
        _: Option<&str>,
    ) -> Called {
        self.heard(next.as_str());
        Ok(())
    }
    async fn before_failure_decision(&self, _: &RunContext, failure: &FirstFailure) -> Called {
        self.heard(format!("failure of rank {:?}", failure.rank));
        Ok(())
    }
    async fn after_controller_finish(&self, _: &RunContext, result: &TrainResult) -> Called {
        self.heard(format!("end as {}", result.run_status));
        assert!(!self.panic_at_end, "a callback that panics");
        Ok(())
    }
}

#[tokio::test]
async fn callbacks_hear_of_each_checkpoint_once_before_the_run_ends() {
    let head = Head::new().await;
    let work = TempDir::new().unwrap();
    let dir = work.path().to_owned();
    let recorder = Arc::new(Recorder::default());
    let controller = head.with_callback(recorder.clone(), move |session| {
        for step in [10, 20] {
            std::fs::write(dir.join("weights"), step.to_string())?;
            session.report_checkpoint(Some(step), [("loss", 0.5)], &dir, UploadMode::Sync)?;
        }
        Ok(())
    });
    let result = controller.run().await;
    assert_eq!(result.checkpoint.map(|c| c.record.step), Some(20));
    let heard = recorder.heard.lock().clone();
    let of_interest = |h: &&String| h.starts_with("checkpoint") || h.starts_with("end");
    assert_eq!(
        heard.iter().filter(of_interest).collect::<Vec<_>>(),
        ["checkpoint 0 of step 10", "checkpoint 1 of step 20", "end as FINISHED"]
    );
}

#[tokio::test]
async fn callbacks_hear_of_a_run_in_order() {
    let head = Head::new().await;
    let recorder = Arc::new(Recorder { panic_at_end: true, ..Recorder::default() });
    let controller = head.with_callback(recorder.clone(), |session| {
        session.report(Some(7), [("loss", 0.5)])?;
        session.finish(json!({"loss": 0.5}));
        if session.context().attempt == 0 { Err("bad batch".into()) } else { Ok(()) }
    });
    let result = controller.run().await;
    assert_eq!((result.run_status, result.num_attempts), ("FINISHED", 2));
    assert_eq!(result.return_value, Some(json!({"loss": 0.5})));
    let heard = recorder.heard.lock().clone();
    let expected = [
        "SCHEDULING",
        "before 0",
        "RUNNING",
        "failure of rank Some(0)",
        "RESTARTING",
        "over 0",
        "before 1",
        "over 1",
        "FINISHED",
        "end as FINISHED",
    ];
    let mut at = 0;
    for what in expected {
        let found = heard.iter().skip(at).position(|h| h == what);
        at += found.unwrap_or_else(|| panic!("{what} is not in {heard:?} after {at}")) + 1;
    }
    // Ranks report when they like.
    let reports = heard.iter().filter(|h| *h == "report 7 [(\"loss\", 0.5)]").count();
    assert_eq!(reports, 2, "{heard:?}");
    assert!(heard.first().is_some_and(|h| h.starts_with("start of ")), "{heard:?}");
}

#[tokio::test]
async fn a_callback_that_fails_at_the_start_costs_the_attempt_and_not_the_run() {
    let head = Head::new().await;
    let recorder = Arc::new(Recorder { fail_first_start: AtomicBool::new(true), ..Recorder::default() });
    let controller = head.with_callback(recorder.clone(), |session: WorkerSession| {
        // The first group lives until it is ended for the callback's failure.
        while session.context().attempt == 0 && !session.stops() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok::<(), Failure>(())
    });
    let result = controller.run().await;
    assert_eq!(result.run_status, "FINISHED", "{result:?}");
    let record = head.record(&result).await;
    assert_eq!(record["num_failures"], json!({"worker": 0, "controller": 1, "preemption": 0}));
    assert_eq!(record["attempts"][0]["end_reason"], "callback_failed");
    let detail = record["attempts"][0]["status_detail"].as_str().unwrap();
    assert!(detail.contains("before_worker_group_start failed: no licence"), "{detail}");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_callback_that_does_not_return() {
    /// Never comes back from the first question.
    #[derive(Debug)]
    struct Stuck;
    #[async_trait]
    impl Callback for Stuck {
        async fn before_worker_group_start(&self, _: &RunContext, _: u32, _: &[Bundle]) -> Called {
            std::future::pending().await
        }
    }
    let head = Head::new().await;
    let controller: TrainController<_> = head.with_callback(Arc::new(Stuck), |_| Ok(()));
    let handle = controller.handle();
    let mut view = handle.view();
    let running = Tasks::new().spawn(controller.run());
    view.wait_for(|v| v.state == ControllerState::Scheduling).await.unwrap();
    let asked = std::time::Instant::now();
    handle.stop("nobody (test)");
    view.wait_for(|v| v.state == ControllerState::Aborted).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let result = running.await.unwrap();
    assert_eq!(result.run_status, "ABORTED");
}
