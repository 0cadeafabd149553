//! The session by itself: what it takes, counts, refuses and answers.

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    base::{ManualClock, RunId, Tasks, Timestamp},
    controller::checkpoints::{CheckpointOptions, Wait},
};

struct Place {
    session: Arc<Session>,
    dir: TempDir,
    tasks: Tasks,
}

impl Place {
    /// The first attempt of two ranks has begun.
    async fn new() -> Self {
        let (dir, tasks) = (TempDir::new().unwrap(), Tasks::new());
        let info = SessionInfo {
            run_id: RunId::generate(),
            run_name: "r".into(),
            experiment: None,
            storage_path: dir.path().into(),
            grace_period_ms: 0,
            config: Map::new(),
        };
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp::from_ms(1_800_000_000_000)));
        let (run, at, options) = (info.run_id.clone(), dir.path().to_owned(), CheckpointOptions::default());
        let desk = Desk::open(options, run, None, at, Arc::clone(&clock), &tasks);
        desk.begin_attempt(0, 2).await.unwrap();
        let session = Arc::new(Session::new(info, desk, clock));
        session.begin_attempt(0, 0, 2, None);
        Self { session, dir, tasks }
    }

    async fn report(&self, rank: u32, json: Value) -> Result<ReportAnswer, SessionError> {
        self.session.report(rank, serde_json::from_value(json).unwrap()).await
    }

    async fn index(&self, rank: u32) -> u64 {
        self.report(rank, json!({"metrics": {"a": 1}})).await.unwrap().report_index
    }

    async fn refused(&self, rank: u32, json: Value) -> String {
        match self.report(rank, json).await {
            Err(SessionError::Invalid(invalid)) => invalid.field,
            other => panic!("{other:?}"),
        }
    }

    /// Which steps of whom wait for the outbox.
    fn taken(&self) -> Vec<((u32, u32), Vec<u64>)> {
        let steps = |taken: Vec<Taken>| taken.iter().map(|t| t.step).collect();
        self.session.take_reports().into_iter().map(|(whose, taken)| (whose, steps(taken))).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

fn from_step(step: u64) -> Option<Usable> {
    Some(Usable { number: 0, step, attempt: 0, path: None, metrics: BTreeMap::new() })
}

#[tokio::test]
async fn a_report_without_a_step_gets_the_run_s_report_index_over_all_attempts() {
    let place = Place::new().await;
    for index in 0..3 {
        assert_eq!(place.index(0).await, index);
    }
    place.session.begin_attempt(1, 1, 2, None);
    assert_eq!(place.index(0).await, 3);
    assert_eq!(place.taken(), [((0, 0), vec![0, 1, 2]), ((1, 0), vec![3])]);
    assert!(place.taken().is_empty());
}

#[tokio::test]
async fn steps_go_on_behind_the_checkpoint_that_an_attempt_goes_on_from() {
    let place = Place::new().await;
    for _ in 0..9 {
        place.index(0).await;
    }
    place.session.begin_attempt(1, 1, 2, from_step(5));
    assert_eq!(place.session.context(1).unwrap().checkpoint, from_step(5));
    assert_eq!((place.index(0).await, place.index(0).await, place.index(1).await), (6, 7, 6));
    // A controller that takes the run over knows no more than the checkpoint.
    let resumed = Place::new().await;
    resumed.session.begin_attempt(4, 0, 1, from_step(5));
    assert_eq!(resumed.index(0).await, 6);
}

#[tokio::test]
async fn a_bad_value_is_refused_by_name_and_a_stop_is_told() {
    let place = Place::new().await;
    assert_eq!(place.refused(1, json!({"metrics": {"a": 1, "b": {"c": "x"}}})).await, "metrics.b/c");
    assert!(place.taken().is_empty());
    assert!(place.report(2, json!({"metrics": {}})).await.is_err());
    place.session.request_stop();
    assert!(place.report(1, json!({"metrics": {"a": "NaN"}})).await.unwrap().stop);
}

#[tokio::test]
async fn a_report_that_is_sent_again_is_taken_once() {
    let place = Place::new().await;
    let first = json!({"seq": 70, "metrics": {"a": 1}});
    let second = json!({"seq": 71, "metrics": {"a": 2}});
    for (report, index) in [(&first, 0), (&first, 0), (&second, 1), (&second, 1)] {
        assert_eq!(place.report(0, report.clone()).await.unwrap().report_index, index);
    }
    assert_eq!(place.report(1, first.clone()).await.unwrap().report_index, 0, "another rank's own");
    place.session.begin_attempt(1, 1, 2, None);
    assert_eq!(place.report(0, second).await.unwrap().report_index, 2, "another process counts as it likes");
    assert_eq!(place.taken(), [((0, 0), vec![0, 1]), ((0, 1), vec![0]), ((1, 0), vec![2])]);
}

#[tokio::test]
async fn a_shard_that_cannot_be_is_refused_by_name_and_nothing_of_its_report_is_taken() {
    let place = Place::new().await;
    let dir = place.dir.path().to_owned();
    let file = dir.join("file");
    std::fs::write(&file, "").unwrap();
    let cases = [
        (json!({"path": "here"}), "checkpoint.path"),
        (json!({"path": file}), "checkpoint.path"),
        (json!({"path": dir.join("nowhere")}), "checkpoint.path"),
        (json!({"path": dir, "ranks": [1]}), "checkpoint.ranks"),
        (json!({"path": dir, "ranks": [0, 2]}), "checkpoint.ranks"),
    ];
    for (checkpoint, field) in cases {
        let report = json!({"metrics": {"a": 1}, "checkpoint": checkpoint});
        assert_eq!(place.refused(0, report).await, field, "{checkpoint}");
    }
    assert!(place.taken().is_empty());
    let point = json!({"metrics": {}, "checkpoint": {"path": dir}});
    let logged = place.session.log(0, vec![serde_json::from_value(point).unwrap()]);
    assert!(matches!(logged, Err(SessionError::Invalid(e)) if e.field == "points[0].checkpoint"));
}

#[tokio::test]
async fn a_shard_is_moved_before_its_report_returns_and_makes_a_checkpoint_with_the_others() {
    let place = Place::new().await;
    let mine = |rank: u32| {
        let dir = place.dir.path().join(format!("of-{rank}"));
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join(format!("model-{rank}")), rank.to_string()).unwrap();
        dir
    };
    let handed = |rank: u32, mode: &str| {
        let checkpoint = json!({"path": mine(rank), "upload_mode": mode, "delete_local": true});
        json!({"step": 7, "metrics": {"a": 1}, "checkpoint": checkpoint})
    };
    let first = place.report(0, handed(0, "sync")).await.unwrap();
    assert_eq!(first.checkpoint, None, "rank 1's is missing");
    place.report(1, handed(1, "async")).await.unwrap();
    let all = place.session.checkpoints(0, Consistency::Committed, None, None).await.unwrap();
    assert_eq!(all.iter().map(|c| (c.step, c.num_files)).collect::<Vec<_>>(), [(7, 2)]);
    let next = place.report(0, json!({"metrics": {}})).await.unwrap();
    assert_eq!(next.checkpoint.map(|c| c.step), Some(7));
    let usable = place.session.checkpoint(1).await.unwrap().unwrap();
    let path = usable.path.unwrap();
    assert_eq!(std::fs::read_to_string(path.join("model-1")).unwrap(), "1");
    place.session.desk.close_attempt(0, Wait::Uploads).await.unwrap();
    assert!(!place.dir.path().join("of-0").exists(), "it was moved");
}

#[tokio::test]
async fn the_latest_checkpoint_is_what_the_run_went_on_from_until_it_has_one_of_its_own() {
    let place = Place::new().await;
    assert_eq!(place.session.checkpoint(0).await.unwrap(), None);
    place.session.begin_attempt(1, 1, 2, from_step(3));
    assert_eq!(place.session.checkpoint(0).await.unwrap(), from_step(3));
    assert!(place.session.checkpoint(2).await.is_err());
}
