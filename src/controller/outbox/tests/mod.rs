//! The outbox before a head that comes and goes.

use serde_json::{Map, json};
use tempfile::TempDir;

use super::*;
use crate::{
    base::{AttemptId, SystemClock, Timestamp, number::size},
    controller::{
        checkpoints::{CheckpointOptions, Desk},
        fake_head::{FakeHead, Heard, LIMIT},
        session::SessionInfo,
    },
    model::{ControllerState, verbs::SetState},
    state::ClientError,
};

mod spools;

struct Place {
    head: Arc<FakeHead>,
    session: Arc<Session>,
    outbox: Outbox,
    tasks: Tasks,
    run_dir: TempDir,
}

impl Place {
    fn new(limits: Limits, prepare: impl FnOnce(&TempDir, &FakeHead)) -> Self {
        let (head, tasks, run_dir) = (FakeHead::new(), Tasks::new(), TempDir::new().unwrap());
        prepare(&run_dir, &head);
        let info = SessionInfo {
            run_id: RunId::generate(),
            run_name: "r".into(),
            experiment: None,
            storage_path: run_dir.path().to_owned(),
            grace_period_ms: 0,
            config: Map::new(),
        };
        let run = info.run_id.clone();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let (options, at) = (CheckpointOptions::default(), run_dir.path().to_owned());
        let desk = Desk::open(options, run.clone(), None, at, Arc::clone(&clock), &tasks);
        let session = Arc::new(Session::new(info, desk, Arc::clone(&clock)));
        session.begin_attempt(0, 0, 2, None);
        let register = RegisterRun {
            id: Some(run.clone()),
            resume: true,
            ..RegisterRun::by(crate::base::ActorId::generate())
        };
        let beat = Duration::from_secs(3600);
        let client: Arc<dyn StateClient> = head.clone();
        let outbox = Outbox::with(client, run, register, Arc::clone(&session), clock, beat, limits, &tasks);
        Self { head, session, outbox, tasks, run_dir }
    }

    fn report(&self, rank: u32, steps: std::ops::Range<u64>) {
        let points = steps.map(|step| json!({"step": step, "metrics": {"loss": 0.5}}));
        let points = points.map(|point| serde_json::from_value(point).unwrap()).collect();
        self.session.log(rank, points).unwrap();
    }

    fn goes_away(&self) {
        self.head.set(|seen| (seen.away, seen.asked_in_vain) = (true, 0));
    }

    fn comes_back(&self) {
        self.head.set(|seen| seen.away = false);
    }

    fn steps(&self, rank: u32) -> Vec<u64> {
        let steps = |heard: &Heard| match heard {
            Heard::Report(batch) if batch.rank == rank => batch.columns.clone().unwrap().step,
            _ => Vec::new(),
        };
        self.head.set(|seen| seen.heard.iter().flat_map(steps).collect())
    }

    async fn end(self) {
        assert!(self.tasks.shutdown("the test", LIMIT).await);
    }
}

fn small() -> Limits {
    Limits {
        items: 32,
        weight: 512 * 1024,
        segment_items: 8,
        segment_weight: 128 * 1024,
        spool_bytes: 1 << 30,
    }
}

fn state(state: ControllerState) -> RunVerb {
    RunVerb::SetState(SetState { state, status_detail: None })
}

fn attempt() -> BeginAttempt {
    BeginAttempt::unreserved(AttemptId::generate(), 2, None)
}

/// What the head heard, in a word each.
fn words(heard: &[Heard]) -> Vec<String> {
    let word = |heard: &Heard| match heard {
        Heard::Register(body) if body.resume => "resume".to_owned(),
        Heard::Register(_) => "register".to_owned(),
        Heard::Say(RunVerb::SetState(body)) => body.state.to_string(),
        Heard::Say(RunVerb::EndAttempt(..)) => "end attempt".to_owned(),
        Heard::Say(other) => format!("{other:?}"),
        Heard::Begin(_) => "begin".to_owned(),
        Heard::Report(batch) => format!("metrics from {}", batch.columns.as_ref().unwrap().step[0]),
    };
    heard.iter().map(word).collect()
}

#[tokio::test]
async fn the_order_is_kept_over_an_outage_and_every_message_arrives_once() {
    let place = Place::new(Limits::default(), |_, head| head.set(|seen| seen.loses = Some(3)));
    place.outbox.say(state(ControllerState::Scheduling));
    let begun = place.outbox.begin(attempt());
    assert_eq!(begun.await.unwrap().unwrap().num_workers, 2);
    let registered = place.outbox.news().borrow().registered.clone().unwrap();
    assert_eq!(
        (registered.name.as_str(), registered.num_attempts, registered.num_failures.worker),
        ("named", 3, 2)
    );
    place.goes_away();
    place.report(0, 0..10);
    place.outbox.say(state(ControllerState::Running));
    place.head.wait_for("try", |seen| seen.asked_in_vain > 1).await;
    place.report(0, 10..20);
    place.outbox.say(state(ControllerState::Restarting));
    place.report(0, 20..30);
    assert!(!place.outbox.flush(Duration::from_millis(1)).await);
    place.comes_back();
    assert!(place.outbox.flush(LIMIT).await);
    assert_eq!(
        words(&place.head.set(|seen| seen.heard.clone())),
        [
            "resume",
            "SCHEDULING",
            "begin",
            "metrics from 0",
            "RUNNING",
            "metrics from 10",
            "RESTARTING",
            "metrics from 20"
        ]
    );
    place.end().await;
}

#[tokio::test]
async fn what_memory_does_not_hold_waits_on_disk_and_arrives_once_and_in_order() {
    const POINTS: u64 = 200_000;
    let place = Place::new(small(), |_, head| head.set(|seen| (seen.away, seen.loses) = (true, Some(7))));
    let waiting = || place.outbox.link.put(|queue| queue.in_memory());
    let mut most = (0, 0);
    for from in (0..POINTS / 2).step_by(1000) {
        place.report(0, from..from + 1000);
        place.report(1, from..from + 1000);
        // Looking takes what was reported, as a verb does.
        let (items, weight) = waiting();
        most = (most.0.max(items), most.1.max(weight));
        let spilled = async {
            while waiting().1 > small().weight || waiting().0 > small().items {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, spilled).await.expect("it goes to disk");
    }
    assert!(most.0 <= small().items + 2 && most.1 <= small().weight + 64 * 1024, "{most:?}");
    let on_disk = || std::fs::read_dir(place.run_dir.path().join("spool")).map_or(0, Iterator::count);
    assert!(on_disk() > 10, "{} segments", on_disk());
    place.outbox.say(state(ControllerState::Scheduling));
    assert!(place.steps(0).is_empty());
    place.comes_back();
    assert!(place.outbox.flush(Duration::from_secs(60)).await);
    for rank in 0..2 {
        assert_eq!(place.steps(rank), (0..POINTS / 2).collect::<Vec<_>>());
    }
    let heard = place.head.set(|seen| words(&seen.heard));
    assert_eq!((heard.first().unwrap().as_str(), heard.last().unwrap().as_str()), ("resume", "SCHEDULING"));
    assert_eq!((place.outbox.dropped_points(), on_disk()), (0, 0));
    assert!(!place.run_dir.path().join("spool").exists());
    place.end().await;
}

#[tokio::test]
async fn without_a_disk_the_newest_metrics_are_dropped_and_counted_and_no_verb_is() {
    let limits = Limits { items: 4, segment_items: 2, ..small() };
    let place = Place::new(limits, |run_dir, head| {
        std::fs::write(run_dir.path().join("spool"), "in the way").unwrap();
        head.set(|seen| seen.away = true);
    });
    for i in 0..100 {
        place.report(0, i..i + 1);
        place.outbox.say(RunVerb::BeginAttempt(attempt()));
    }
    place.head.wait_for("try", |seen| seen.asked_in_vain > 1).await;
    place.comes_back();
    assert!(place.outbox.flush(LIMIT).await);
    let verbs = place.head.set(|seen| seen.heard.iter().filter(|h| matches!(h, Heard::Say(_))).count());
    let steps = place.steps(0);
    let dropped = place.outbox.dropped_points();
    assert_eq!((verbs, size(steps.len()) + dropped), (100, 100));
    assert!(dropped > 50);
    assert_eq!(steps, (0..size(steps.len())).collect::<Vec<_>>(), "the newest are dropped");
    place.end().await;
}

#[tokio::test]
async fn a_beginning_is_answered_refused_or_withdrawn() {
    let place = Place::new(Limits::default(), |_, head| head.set(|seen| seen.refuses_begin = true));
    let refused = place.outbox.begin(attempt()).await.unwrap();
    assert!(matches!(refused, Err(ClientError::Refused { slug, .. }) if slug == "no-resources"));
    place.head.set(|seen| seen.refuses_begin = false);
    place.goes_away();
    // The one is tried in vain already when it is withdrawn, the other one has not had its turn.
    let first = place.outbox.begin(attempt());
    place.head.wait_for("try", |seen| seen.asked_in_vain > 0).await;
    let second = place.outbox.begin(attempt());
    place.outbox.say(state(ControllerState::Scheduling));
    let third = place.outbox.begin(attempt());
    drop((first, second));
    place.comes_back();
    assert!(third.await.unwrap().is_ok());
    assert!(place.outbox.flush(LIMIT).await);
    assert_eq!(words(&place.head.set(|seen| seen.heard.clone())), ["resume", "SCHEDULING", "begin"]);
    place.end().await;
}

#[tokio::test]
async fn a_refused_registration_says_why() {
    let place = Place::new(Limits::default(), |_, head| head.set(|seen| seen.refuses_registration = true));
    let waiting = place.outbox.begin(attempt());
    let mut news = place.outbox.news();
    let told = tokio::time::timeout(LIMIT, news.wait_for(|told| told.fenced)).await.unwrap().unwrap().clone();
    let refused = told.refused.unwrap();
    assert_eq!((refused.slug.as_str(), refused.detail.as_str()), ("run-ended", "no"));
    for waiting in [waiting, place.outbox.begin(attempt())] {
        assert!(
            matches!(waiting.await.unwrap(), Err(ClientError::Refused { slug, .. }) if slug == "run-ended")
        );
    }
    place.outbox.say(state(ControllerState::Scheduling));
    assert!(!place.outbox.flush(LIMIT).await, "nothing was recorded");
    assert_eq!(place.outbox.link.put(|queue| queue.in_memory()), (0, 0));
    place.end().await;
}

#[tokio::test]
async fn a_demand_is_asked_for_at_once_and_its_answer_is_news() {
    let place = Place::new(Limits::default(), |_, _| {});
    let mut news = place.outbox.news();
    place.head.wait_for("beat", |seen| !seen.demands.is_empty()).await;
    for max_workers in [4, 8] {
        let demand = Demand {
            min_workers: 1,
            max_workers,
            resources_per_worker: [("CPU".to_owned(), 1.0)].into(),
            node_ids: Vec::new(),
        };
        place.outbox.set_demand(Some(demand));
        let told =
            tokio::time::timeout(LIMIT, news.wait_for(|told| told.fits.is_some())).await.unwrap().unwrap();
        assert_eq!(told.fits, Some(max_workers - 1));
    }
    place.outbox.set_demand(None);
    assert_eq!(place.outbox.news().borrow().fits, None);
    place.head.wait_for("beat without a demand", |seen| seen.demands.last().unwrap().is_none()).await;
    place.end().await;
}

#[tokio::test]
async fn a_report_keeps_its_time_while_it_waits() {
    let place = Place::new(Limits::default(), |_, head| head.set(|seen| seen.away = true));
    let before = Timestamp::from_ms(1_700_000_000_000);
    let point = json!({"step": 1, "time_ms": before, "metrics": {"a": 1}});
    place.session.log(0, vec![serde_json::from_value(point).unwrap()]).unwrap();
    place.comes_back();
    place
        .head
        .wait_for("report", |seen| {
            let time = |heard: &Heard| match heard {
                Heard::Report(batch) => batch.columns.as_ref()?.time_ms.clone(),
                _ => None,
            };
            seen.heard.iter().find_map(time).is_some_and(|times| times == [before])
        })
        .await;
    place.end().await;
}
