//! A controller whose head is away: training goes on, and the record is whole when the head is back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use trainhead::{
    base::{RunId, Secret},
    model::{
        commands::{Heartbeat, HeartbeatAnswer, RegisterRun, Registration},
        metrics::{ReportBatch, Stored},
        verbs::{BeginAttempt, Begun, RunVerb},
    },
    state::{ClientError, StateClient, StateHandle},
};

use crate::closures::Head;

/// A way to the state that is cut on demand; and of all answers that come through, each third one is lost.
#[derive(Clone, Debug)]
struct Line {
    state: StateHandle,
    cut: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
}

impl Line {
    async fn pass<T>(&self, answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        if self.cut.load(Ordering::SeqCst) {
            return Err(ClientError::Unreachable("cut".to_owned()));
        }
        let answer = answer.await;
        let lost = self.answers.fetch_add(1, Ordering::SeqCst) % 3 == 2;
        if lost { Err(ClientError::Unreachable("lost".to_owned())) } else { answer }
    }
}

#[async_trait]
impl StateClient for Line {
    async fn register(&self, body: RegisterRun) -> Result<Registration, ClientError> {
        self.pass(StateClient::register(&self.state, body)).await
    }

    async fn say(&self, run: &RunId, token: &Secret, verb: RunVerb) -> Result<(), ClientError> {
        self.pass(StateClient::say(&self.state, run, token, verb)).await
    }

    async fn begin_attempt(
        &self,
        run: &RunId,
        token: &Secret,
        body: BeginAttempt,
    ) -> Result<Begun, ClientError> {
        self.pass(StateClient::begin_attempt(&self.state, run, token, body)).await
    }

    async fn append_log(
        &self,
        run: &RunId,
        token: &Secret,
        whose: (u32, u32),
        offset: u64,
        bytes: Bytes,
    ) -> Result<u64, ClientError> {
        self.pass(StateClient::append_log(&self.state, run, token, whose, offset, bytes)).await
    }

    async fn report(&self, run: &RunId, token: &Secret, batch: ReportBatch) -> Result<Stored, ClientError> {
        self.pass(StateClient::report(&self.state, run, token, batch)).await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<HeartbeatAnswer, ClientError> {
        self.pass(StateClient::heartbeat(&self.state, beat)).await
    }
}

#[tokio::test]
async fn what_happens_while_the_head_is_away_is_recorded_when_it_is_back() {
    let head = Head::new().await;
    let cut = Arc::new(AtomicBool::new(false));
    let line = Line { state: head.state.clone(), cut: Arc::clone(&cut), answers: Arc::default() };
    let cuts = Arc::clone(&cut);
    let controller = head.controller_by(Arc::new(line), 2, 1, move |session| {
        let context = session.context().clone();
        for step in 0..500 {
            session.report(Some(step), [("loss", 1.0)])?;
            if step == 100 && context.attempt == 0 {
                cuts.store(true, Ordering::SeqCst);
            }
        }
        // Both report all before the one ends the other.
        if context.attempt == 0 && context.rank == 0 { Err("boom".into()) } else { Ok(()) }
    });
    let mut view = controller.handle().view();
    let (result, ()) = tokio::join!(controller.run(), async {
        let second = view.wait_for(|v| v.attempt == 1);
        tokio::time::timeout(Duration::from_secs(20), second).await.expect("a second attempt").unwrap();
        cut.store(false, Ordering::SeqCst);
    });
    assert_eq!((result.exit_code, result.num_attempts), (0, 2));
    let run = head.record(&result).await;
    assert_eq!(
        (run["run_status"].as_str(), run["num_failures"]["worker"].as_i64()),
        (Some("FINISHED"), Some(1))
    );
    assert_eq!(run["attempts"][0]["status"], "ERRORED");
    assert_eq!(run["attempts"][1]["status"], "FINISHED");
    let metrics = head.state.metrics(&result.run_id).await.unwrap();
    assert_eq!(metrics.metrics.iter().find(|m| m.key == "loss").unwrap().count, 2000);
    assert!(!result.storage_path.join("spool").exists());
}
