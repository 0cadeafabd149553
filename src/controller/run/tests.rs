//! What a controller hears from the head before it is driven.

use tempfile::TempDir;

use super::*;
use crate::{
    base::SystemClock,
    controller::{ClosureGroup, fake_head::FakeHead, fake_head::LIMIT},
    state::DataDir,
};

async fn result(resume: bool, answers: impl FnOnce(&FakeHead)) -> TrainResult {
    let (head, temp) = (FakeHead::new(), TempDir::new().unwrap());
    answers(&head);
    let options = ControllerOptions {
        resume,
        ..ControllerOptions::new(
            RunId::generate(),
            1,
            DataDir::open(temp.path()).unwrap(),
            Arc::new(SystemClock::new()),
        )
    };
    let controller = TrainController::new(options, head, ClosureGroup::new(|_| Ok(()))).unwrap();
    let told = |news: &FromHead| news.registered.is_some() || news.refused.is_some();
    timeout(LIMIT, controller.outbox.news().wait_for(told)).await.unwrap().unwrap();
    timeout(LIMIT, controller.run()).await.expect("it does what it was told before")
}

#[tokio::test]
async fn a_run_whose_registration_is_answered_at_once_is_resumed_all_the_same() {
    let result = result(true, |_| ()).await;
    assert_eq!((result.run_status, result.num_attempts), ("FINISHED", 4));
}

#[tokio::test]
async fn a_run_that_is_refused_at_once_does_not_train() {
    let result = result(false, |head| head.set(|seen| seen.refuses_registration = true)).await;
    assert_eq!(result.run_status, "ABORTED");
}
