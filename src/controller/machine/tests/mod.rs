//! The machine against a table of what should follow what, and random sequences of inputs against the run's own model,
//! which refuses what no controller may say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Map;

use super::*;
use crate::{
    base::{ActorId, secret::SigningKey},
    controller::words::new_worker,
    model::{
        AttemptStatus, Phase, RunRecord, RunStatus, StopReport, Trail,
        commands::{ControllerIdentity, RegisterRun},
        ledger::{CPU, Resources},
        verbs::Begun,
    },
};

fn rules(max_failures: i64) -> Rules {
    Rules {
        run: RunId::generate(),
        host: "here".into(),
        scaling: ScalingPolicy::fixed(2),
        failures: FailurePolicy { max_failures, ..FailurePolicy::default() },
        health: HealthPolicy::default(),
    }
}

fn elastic(rules: Rules) -> Rules {
    let scaling = ScalingPolicy {
        min_workers: 1,
        resources_per_worker: Some(Resources::from([(CPU.to_owned(), 1.0)])),
        ..ScalingPolicy::fixed(3)
    };
    Rules { scaling, ..rules }
}

/// A machine, the head's record of its run, and a group that does as it is told.
struct Stage {
    machine: Machine,
    record: RunRecord,
    now: i64,
    /// Ranks that run; none if there is no group.
    group: Option<Vec<u32>>,
    starting: Option<u32>,
    ending: bool,
    asked: Option<RunVerb>,
    done: Option<Outcome>,
    said: Vec<RunVerb>,
}

impl Stage {
    fn new(rules: Rules) -> Self {
        let body = RegisterRun {
            controller: ControllerIdentity {
                actor_id: ActorId::generate(),
                lease_ttl_ms: None,
                process: None,
            },
            settings: Map::new(),
            ..RegisterRun::by(ActorId::generate())
        };
        let token = SigningKey::generate().unwrap().token(&["run"]).hash();
        let now = Timestamp::from_ms(1_800_000_000_000);
        let record =
            RunRecord::register(rules.run.clone(), body, String::new(), token, now, &mut Trail::default());
        let machine = Machine::new(rules);
        Self {
            machine,
            record,
            now: now.as_ms(),
            group: None,
            starting: None,
            ending: false,
            asked: None,
            done: None,
            said: Vec::new(),
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.now)
    }

    /// Gives the machine an input and does what it decides.
    fn on(&mut self, input: Input) {
        self.now += 1;
        let effects = self.machine.on(input, self.now());
        assert!(self.done.is_none() || effects.is_empty(), "after its end: {effects:?}");
        for effect in effects {
            match effect {
                Effect::Say(verb) => self.say(verb),
                Effect::Ask(begin) => {
                    assert_eq!(self.group, None);
                    self.asked = Some(RunVerb::BeginAttempt(begin));
                }
                Effect::Withdraw => self.asked = None,
                Effect::Start { num_workers, .. } => {
                    assert_eq!((&self.group, self.starting), (&None, None), "two groups at once");
                    (self.starting, self.ending) = (Some(num_workers), false);
                }
                Effect::Drain(_) | Effect::Shutdown { .. } | Effect::Abort => self.ending = true,
                Effect::Done(outcome) => self.done = Some(outcome),
                Effect::Demand(_)
                | Effect::Announce(..)
                | Effect::Entered(..)
                | Effect::Failed(_)
                | Effect::Resizing(..)
                | Effect::WriteStacks(_)
                | Effect::Pause(_)
                | Effect::Settle(_) => {}
            }
        }
    }

    fn say(&mut self, verb: RunVerb) {
        let (record, now, trail) = (&mut self.record, Timestamp::from_ms(self.now), &mut Trail::default());
        self.said.push(verb.clone());
        let taken = match verb {
            RunVerb::SetState(body) => record.set_state(body, now, trail),
            RunVerb::BeginAttempt(body) => record.begin_attempt(body, Vec::new(), now, trail),
            RunVerb::AttemptRunning(id, body) => record.attempt_running(&id, body, now, trail),
            RunVerb::ChangeWorkers(id, body) => record.change_workers(&id, body, now, trail),
            RunVerb::EndAttempt(id, body) => record.end_attempt(&id, body, now, trail),
            RunVerb::RecordCheckpoint(number, body) => record.record_checkpoint(number, *body, now, trail),
            RunVerb::End(body) => record.end(*body, now, trail),
        };
        assert!(taken.is_ok(), "{taken:?} for the last of {:#?}", self.said);
    }

    /// The head answers an attempt that was asked for.
    fn answer(&mut self, room: u32) {
        let Some(RunVerb::BeginAttempt(mut begin)) = self.asked.take() else { return };
        if room < begin.min_workers.unwrap_or(begin.num_workers) {
            return self.on(Input::NoRoom("nothing is free".into()));
        }
        begin.num_workers = begin.num_workers.min(room);
        let num_workers = begin.num_workers;
        self.say(RunVerb::BeginAttempt(begin));
        self.on(Input::Begun(Begun { num_workers, reservation: Vec::new() }));
    }

    fn start(&mut self) {
        let Some(n) = self.starting.take() else { return };
        self.group = Some((0..n).collect());
        let workers = (0..n).map(|rank| new_worker(rank, Some(rank + 100), "here", None)).collect();
        self.on(Input::Started { workers, master_address: None });
    }

    fn exit(&mut self, rank: u32, code: i32) {
        let Some(running) = &mut self.group else { return };
        if running.contains(&rank) {
            running.retain(|other| *other != rank);
            self.on(Input::Exited(RankExit { rank, code: Some(code), ..RankExit::default() }));
        }
    }

    /// What the group does once it is to end, or once all of its ranks have ended.
    fn end(&mut self) {
        if self.starting.take().is_some() {
            let message = "stopped".to_owned();
            return self.on(Input::StartFailed { message, permanent: Permanent::No });
        }
        for rank in self.group.clone().unwrap_or_default() {
            self.exit(rank, 1);
        }
        if self.group.take().is_some() {
            self.on(Input::Ended(StopReport::default()));
        }
    }

    fn running(rules: Rules) -> Self {
        let mut stage = Self::new(rules);
        stage.on(Input::Begin);
        stage.answer(3);
        stage.start();
        assert_eq!(stage.machine.state(), ControllerState::Running);
        stage
    }

    fn stop(&mut self) {
        self.on(Input::Stop { detail: "stopped by user root (SIGINT)".into(), grace: None });
    }

    fn last_end(&self) -> (AttemptStatus, EndReason) {
        let attempt = self.record.attempts.iter().rev().find(|a| a.status.is_terminal()).unwrap();
        (attempt.status, attempt.end_reason.unwrap())
    }
}

#[test]
fn preemptions_are_free_and_failures_are_not() {
    let mut stage = Stage::running(rules(1));
    for _ in 0..3 {
        stage.on(Input::Preempt("SIGTERM in Slurm job 7".into()));
        assert_eq!(stage.machine.state(), ControllerState::Preempting);
        stage.end();
        assert_eq!(stage.last_end(), (AttemptStatus::Aborted, EndReason::Preempted));
        stage.start();
    }
    stage.exit(0, 1);
    assert_eq!(stage.machine.state(), ControllerState::Restarting);
    stage.end();
    stage.start();
    stage.exit(1, 3);
    stage.end();
    assert!(matches!(&stage.done, Some(Outcome::Errored { exit_code: 3, .. })), "{:?}", stage.done);
    let counts = stage.record.num_failures();
    assert_eq!((counts.preemption, counts.worker, counts.controller), (3, 2, 0));
    assert_eq!(stage.machine.failures(), counts);
    assert_eq!(stage.record.run.first_failure.as_ref().unwrap().rank, Some(1));
}

#[test]
fn a_preemption_that_is_heard_of_after_its_ranks_failed_is_what_made_them_fail() {
    // A failure that would end the run, and one that would not.
    for max_failures in [0, 1] {
        let mut stage = Stage::running(rules(max_failures));
        stage.exit(0, 143);
        stage.on(Input::Preempt("SIGTERM in Slurm job 7".into()));
        stage.end();
        assert_eq!(stage.last_end(), (AttemptStatus::Aborted, EndReason::Preempted));
        assert_eq!(stage.record.num_failures().worker, 0);
        stage.start();
        assert_eq!(stage.machine.state(), ControllerState::Running);
    }
}

#[test]
fn a_notice_during_the_start_holds_for_the_group_that_is_started() {
    let mut stage = Stage::new(rules(0));
    stage.on(Input::Begin);
    stage.on(Input::Preempt("notice".into()));
    stage.start();
    assert_eq!(stage.machine.state(), ControllerState::Preempting);
    assert!(stage.ending);
}

#[test]
fn a_preempted_run_that_is_to_be_queued_again_ends_with_that_exit_code() {
    let mut rules = rules(0);
    rules.failures.on_preemption = OnPreemption::Requeue;
    let mut stage = Stage::running(rules);
    stage.on(Input::Preempt("notice".into()));
    stage.end();
    let Some(Outcome::Aborted { detail, exit_code: REQUEUE }) = &stage.done else {
        panic!("{:?}", stage.done)
    };
    assert!(detail.contains("trainhead run --resume"), "{detail}");
}

#[test]
fn preemptions_have_a_limit_of_their_own() {
    let mut rules = rules(5);
    rules.failures.max_preemption_failures = 1;
    let mut stage = Stage::running(rules);
    for _ in 0..2 {
        stage.on(Input::Preempt("notice".into()));
        stage.end();
        stage.start();
    }
    assert!(matches!(&stage.done, Some(Outcome::Errored { exit_code: REQUEUE, .. })), "{:?}", stage.done);
}

#[test]
fn the_first_failure_stands_whatever_comes_after_it() {
    let mut stage = Stage::running(rules(0));
    stage.exit(1, 7);
    stage.stop();
    stage.on(Input::CallbackFailed("too late".into()));
    stage.end();
    let Some(Outcome::Errored { detail, exit_code: 7 }) = &stage.done else { panic!("{:?}", stage.done) };
    assert!(detail.starts_with("rank 1 exited with code 7"), "{detail}");
    let failure = stage.record.run.first_failure.as_ref().unwrap();
    assert_eq!(failure.consequences.len(), 1);
    assert_eq!(stage.record.run.phase, Phase::Errored);
}

#[test]
fn a_group_grows_and_shrinks_once_what_it_can_have_has_settled() {
    let mut stage = Stage::new(elastic(rules(0)));
    stage.on(Input::Begin);
    stage.answer(0);
    assert_eq!(stage.machine.state(), ControllerState::Initializing);
    assert!(stage.record.run.status_detail.as_ref().unwrap().contains("nothing is free"));
    stage.on(Input::Fits(1));
    stage.answer(1);
    stage.start();
    assert_eq!(stage.machine.workers(), 1);
    // A number that does not last changes nothing.
    stage.on(Input::Fits(3));
    stage.on(Input::Fits(1));
    stage.on(Input::Settled);
    assert_eq!(stage.machine.state(), ControllerState::Running);
    stage.on(Input::Fits(3));
    stage.on(Input::Settled);
    assert_eq!(stage.machine.state(), ControllerState::Resizing);
    stage.end();
    assert_eq!(stage.last_end(), (AttemptStatus::Aborted, EndReason::Resized));
    stage.answer(3);
    stage.start();
    assert_eq!((stage.machine.workers(), stage.record.num_failures()), (3, NumFailures::default()));
    // Never below its minimum.
    stage.on(Input::Fits(0));
    stage.on(Input::Settled);
    stage.end();
    stage.answer(1);
    stage.start();
    stage.on(Input::Fits(0));
    stage.on(Input::Settled);
    assert_eq!(stage.machine.state(), ControllerState::Running);
}

#[test]
fn a_run_that_waits_for_room_is_stopped_at_once() {
    let mut stage = Stage::new(elastic(rules(0)));
    stage.on(Input::Begin);
    stage.stop();
    assert!(matches!(stage.done, Some(Outcome::Aborted { .. })), "not answered yet");
    let mut stage = Stage::new(elastic(rules(0)));
    stage.on(Input::Begin);
    stage.answer(0);
    stage.stop();
    assert!(matches!(stage.done, Some(Outcome::Aborted { .. })), "no room");
}

#[test]
fn what_will_never_fit_fails_at_once() {
    let mut stage = Stage::new(elastic(rules(9)));
    stage.on(Input::Begin);
    stage.on(Input::Refused("3 workers with GPU 999 each is more than all known nodes have".into()));
    let Some(Outcome::Errored { detail, .. }) = &stage.done else { panic!("{:?}", stage.done) };
    assert!(detail.contains("GPU 999"), "{detail}");
}

#[test]
fn ranks_that_say_nothing_hang_and_are_named() {
    let mut rules = rules(0);
    rules.health.hang_timeout = Some(Duration::from_secs(60));
    let mut stage = Stage::running(rules);
    let silence = |s0, s1| BTreeMap::from([(0, Duration::from_secs(s0)), (1, Duration::from_secs(s1))]);
    stage.on(Input::Tick(silence(1, 59)));
    assert!(!stage.ending);
    stage.on(Input::Tick(silence(1, 60)));
    assert!(!stage.ending, "their stacks are looked at first");
    stage.on(Input::StacksWritten(vec!["in all_reduce".into()]));
    assert!(stage.ending);
    stage.end();
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::Hung));
    let failure = stage.record.run.first_failure.as_ref().unwrap();
    assert_eq!((failure.rank, failure.log_tail.len()), (Some(1), 1));
    assert!(failure.message.starts_with("rank 1 reported nothing for 60 s"), "{}", failure.message);
}

#[test]
fn what_a_group_goes_on_from_and_what_its_checkpoints_wait_for_is_said_and_may_end_it() {
    let mut stage = Stage::new(rules(1));
    stage.on(Input::Begin);
    stage.on(Input::Resumes("goes on from checkpoint 2 (step 20)".into()));
    stage.start();
    assert_eq!(stage.record.run.status_detail.as_deref(), Some("goes on from checkpoint 2 (step 20)"));
    let waits = "the checkpoint of step 30 waits for rank 1 for 60 s".to_owned();
    stage.on(Input::Checkpoints(Some(waits.clone())));
    assert_eq!(stage.record.run.status_detail, Some(waits.clone()));
    stage.on(Input::Checkpoints(None));
    assert_eq!(stage.record.run.status_detail, None);
    stage.on(Input::CheckpointTimedOut(waits.clone()));
    assert!(stage.ending);
    stage.end();
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::Hung));
    assert_eq!(stage.machine.state(), ControllerState::Scheduling, "it is tried again");
    stage.start();
    assert_eq!(stage.record.run.status_detail, None, "nothing was said of what this one goes on from");
}

#[test]
fn ranks_that_end_early_are_said_and_fail_only_if_that_was_asked_for() {
    let mut stage = Stage::running(rules(0));
    stage.exit(0, 0);
    stage.now += 61_000;
    stage.on(Input::Tick(BTreeMap::new()));
    let detail = stage.record.run.status_detail.clone().unwrap();
    assert!(detail.starts_with("rank 0 finished early") && detail.ends_with("rank 1 runs on"), "{detail}");
    stage.exit(1, 0);
    stage.end();
    assert_eq!(stage.done, Some(Outcome::Finished));

    let mut rules = rules(0);
    rules.health.early_exit_timeout = Some(Duration::from_secs(5));
    let mut stage = Stage::running(rules);
    stage.exit(0, 0);
    stage.now += 5_000;
    stage.on(Input::Tick(BTreeMap::new()));
    stage.end();
    assert!(matches!(stage.done, Some(Outcome::Errored { .. })));
}

#[test]
fn a_port_that_somebody_took_is_no_failure_of_the_worker() {
    let mut stage = Stage::running(rules(0));
    let exit = RankExit { rank: 0, code: Some(1), port_taken: true, ..RankExit::default() };
    stage.group.as_mut().unwrap().retain(|rank| *rank != 0);
    stage.on(Input::Exited(exit));
    stage.end();
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::StartFailed));
    stage.on(Input::PauseOver);
    stage.start();
    assert_eq!(stage.machine.state(), ControllerState::Running);
    assert_eq!(stage.record.num_failures().controller, 1);
}

#[test]
fn a_callback_that_fails_is_charged_to_the_controller_and_tried_again() {
    let mut stage = Stage::running(rules(0));
    stage.on(Input::CallbackFailed("the callback x failed".into()));
    assert!(stage.ending);
    stage.end();
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::CallbackFailed));
    stage.on(Input::PauseOver);
    stage.start();
    assert_eq!(stage.machine.state(), ControllerState::Running);
}

#[test]
fn an_agent_that_is_lost_is_a_failure_of_its_attempt() {
    let mut stage = Stage::running(rules(1));
    stage.group = None;
    stage.on(Input::Lost(StopReport::default()));
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::WorkerFailed));
    stage.starting = None;
    stage.on(Input::Lost(StopReport::default()));
    assert_eq!(stage.last_end(), (AttemptStatus::Errored, EndReason::StartFailed));
}

#[test]
fn a_resumed_run_has_the_budgets_that_it_had() {
    let mut rules = rules(1);
    rules.failures.max_preemption_failures = -1;
    let mut stage = Stage::new(rules);
    stage
        .machine
        .remember(History { attempts: 0, failures: NumFailures { worker: 1, controller: 0, preemption: 2 } });
    stage.on(Input::Begin);
    stage.start();
    stage.exit(0, 1);
    stage.end();
    assert!(matches!(stage.done, Some(Outcome::Errored { .. })), "its one failure was used before");
}

/// What may happen at any time.
#[derive(Clone, Debug)]
enum Happening {
    Start,
    StartFails(bool),
    Exit(u32, i32),
    End,
    Lose,
    Answer(u32),
    Refuse,
    Fits(u32),
    Settled,
    PauseOver,
    Tick(u64),
    Stacks,
    Callback,
    Resumes,
    Waits(bool),
    TimedOut,
    Preempt,
    Stop(bool),
    Kill,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Start),
        1 => any::<bool>().prop_map(Happening::StartFails),
        4 => (0..3u32, prop_oneof![3 => Just(0), 1 => 1..3i32]).prop_map(|(r, c)| Happening::Exit(r, c)),
        5 => Just(Happening::End),
        1 => Just(Happening::Lose),
        5 => (0..5u32).prop_map(Happening::Answer),
        1 => Just(Happening::Refuse),
        2 => (0..5u32).prop_map(Happening::Fits),
        2 => Just(Happening::Settled),
        3 => Just(Happening::PauseOver),
        1 => (0..100u64).prop_map(Happening::Tick),
        1 => Just(Happening::Stacks),
        1 => Just(Happening::Callback),
        1 => Just(Happening::Resumes),
        1 => any::<bool>().prop_map(Happening::Waits),
        1 => Just(Happening::TimedOut),
        2 => Just(Happening::Preempt),
        1 => any::<bool>().prop_map(Happening::Stop),
        1 => Just(Happening::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever happens in whatever order: the machine says nothing that the run's model refuses, never has two groups,
    /// counts as the record does, and comes to an end that the record shows.
    #[test]
    fn whatever_happens_the_record_is_true(
        is_elastic in any::<bool>(),
        limits in (-1..3i64, -1..3i64, -1..3i64, any::<bool>()),
        happenings in proptest::collection::vec(happening(), 0..60),
    ) {
        let (max_failures, starts, preemptions, requeue) = limits;
        let mut rules = rules(max_failures);
        rules.failures.controller_failure_limit = starts;
        rules.failures.max_preemption_failures = preemptions;
        rules.failures.on_preemption = if requeue { OnPreemption::Requeue } else { OnPreemption::Restart };
        rules.health.hang_timeout = Some(Duration::from_secs(50));
        if is_elastic {
            rules = elastic(rules);
        }
        let mut stage = Stage::new(rules);
        stage.on(Input::Begin);
        for happening in happenings {
            match happening {
                Happening::Start => stage.start(),
                Happening::StartFails(permanent) => {
                    if stage.starting.take().is_some() {
                        let permanent = if permanent { Permanent::Yes } else { Permanent::No };
                        stage.on(Input::StartFailed { message: "no".into(), permanent });
                    }
                }
                Happening::Exit(rank, code) => stage.exit(rank, code),
                Happening::End => {
                    let all_ended = stage.group.as_ref().is_some_and(Vec::is_empty);
                    if stage.ending || all_ended {
                        stage.end();
                    }
                }
                Happening::Lose => {
                    if stage.group.take().is_some() || stage.starting.take().is_some() {
                        stage.on(Input::Lost(StopReport::default()));
                    }
                }
                Happening::Answer(room) => stage.answer(room),
                Happening::Refuse => {
                    if stage.asked.take().is_some() {
                        stage.on(Input::Refused("never".into()));
                    }
                }
                Happening::Fits(n) => stage.on(Input::Fits(n)),
                Happening::Settled => stage.on(Input::Settled),
                Happening::PauseOver => stage.on(Input::PauseOver),
                Happening::Tick(s) => {
                    let silence = (0..3).map(|rank| (rank, Duration::from_secs(s))).collect();
                    stage.on(Input::Tick(silence));
                }
                Happening::Stacks => stage.on(Input::StacksWritten(Vec::new())),
                Happening::Callback => stage.on(Input::CallbackFailed("x".into())),
                Happening::Resumes => stage.on(Input::Resumes("from 1".into())),
                Happening::Waits(does) => stage.on(Input::Checkpoints(does.then(|| "waits".into()))),
                Happening::TimedOut => stage.on(Input::CheckpointTimedOut("waited".into())),
                Happening::Preempt => stage.on(Input::Preempt("notice".into())),
                Happening::Stop(hurry) => {
                    let grace = hurry.then_some(Duration::ZERO);
                    stage.on(Input::Stop { detail: "user".into(), grace });
                }
                Happening::Kill => stage.on(Input::Kill),
            }
            prop_assert_eq!(stage.machine.failures(), stage.record.num_failures());
            if stage.done.is_some() {
                break;
            }
        }
        // However it stands, a stop ends it.
        stage.stop();
        stage.on(Input::StacksWritten(Vec::new()));
        stage.end();
        let done = stage.done.clone();
        prop_assert!(done.is_some(), "a stop ends it: {:?}", stage.machine);
        let status = match done {
            Some(Outcome::Finished) => RunStatus::Finished,
            Some(Outcome::Errored { .. }) => RunStatus::Errored,
            _ => RunStatus::Aborted,
        };
        prop_assert_eq!(stage.record.run.status(), status);
        prop_assert!(stage.record.live_attempt().is_none());
        let failed = stage.record.run.first_failure.is_some();
        prop_assert!(!failed || status == RunStatus::Errored);
    }
}
