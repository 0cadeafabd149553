//! A model of the protocol: reporters and a driver that act in any order, and what must hold however they do.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

type Plain = Exchange<u32, &'static str>;

/// What somebody does next. What is not possible at that moment is left out.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// One of three threads of the function reports, if it does not stand.
    Report(usize),
    End,
    Fail,
    Ask,
    Stop,
    Pause,
    /// The next trial, if the function has ended.
    Reset,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => (0..3usize).prop_map(Act::Report),
        1 => Just(Act::End),
        1 => Just(Act::Fail),
        8 => Just(Act::Ask),
        1 => Just(Act::Stop),
        1 => Just(Act::Pause),
        2 => Just(Act::Reset),
    ];
    proptest::collection::vec(act, 0..60)
}

/// The exchange as its users see it, with everything that was seen.
struct Model {
    reporting: Reporting,
    exchange: Plain,
    /// The ticket for which each thread stands.
    threads: [Option<Ticket>; 3],
    made: u32,
    taken: Vec<u32>,
    given: Vec<u32>,
    started: bool,
    /// The driver waits for an answer.
    waits: bool,
    stopped: bool,
    paused: bool,
    ended: Option<Result<(), &'static str>>,
    heard_end: bool,
}

impl Model {
    fn new(reporting: Reporting) -> Self {
        Self {
            reporting,
            exchange: Exchange::new(reporting),
            threads: [None; 3],
            made: 0,
            taken: Vec::new(),
            given: Vec::new(),
            started: false,
            waits: false,
            stopped: false,
            paused: false,
            ended: None,
            heard_end: false,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Report(thread) => self.report(thread),
            Act::End => self.end(Ok(())),
            Act::Fail => self.end(Err("boom")),
            Act::Ask => self.ask(),
            Act::Stop => {
                self.exchange.stop();
                self.stopped = true;
                if !self.started {
                    self.ended.get_or_insert(Ok(()));
                }
            }
            Act::Pause => {
                self.exchange.pause_reporting();
                self.paused = true;
            }
            Act::Reset if self.exchange.has_ended() => *self = Self::new(self.reporting),
            Act::Reset => assert!(self.ended.is_none()),
        }
        self.look();
    }

    fn report(&mut self, thread: usize) {
        // A function that was not started, or has ended, does not report; and who stands does not either.
        if !self.started || self.ended.is_some() || self.threads[thread].is_some() {
            return;
        }
        self.made += 1;
        let admission = self.exchange.admission();
        assert_eq!(admission == Admission::Stopped, self.stopped, "nothing is taken after a stop");
        if admission == Admission::Taken {
            self.taken.push(self.made);
            self.threads[thread] = Some(self.exchange.hand_over(self.made));
        }
    }

    fn end(&mut self, how: Result<(), &'static str>) {
        // Its own thread has to be free for that.
        if self.started && self.ended.is_none() && self.threads[0].is_none() {
            self.exchange.end(how);
            self.ended = Some(how);
        }
    }

    fn ask(&mut self) {
        let starts = self.exchange.ask();
        assert_eq!(starts == Starts::Now, !self.started && self.ended.is_none(), "the first one starts it");
        self.started |= starts == Starts::Now;
        self.waits = true;
    }

    /// What follows of what was done: reporters go on, and the driver gets what there is.
    fn look(&mut self) {
        self.go_on();
        if !self.waits {
            return;
        }
        match self.exchange.next() {
            Next::Result(result) => {
                assert!(!self.heard_end, "results come before the end");
                self.given.push(result);
                self.waits = false;
            }
            Next::NotYet => assert!(self.ended.is_none()),
            end => {
                assert_eq!(self.given, self.taken, "no result is lost");
                assert_eq!(end == Next::Over, self.ended == Some(Ok(())), "{end:?}");
                self.heard_end = true;
                self.waits = false;
            }
        }
        self.go_on();
        assert!(self.taken.starts_with(&self.given), "in order, and each once");
    }

    fn go_on(&mut self) {
        for ticket in self.exchange.released() {
            for thread in &mut self.threads {
                *thread = thread.filter(|stands| *stands != ticket);
            }
        }
        let standing = self.threads.iter().flatten().collect::<BTreeSet<_>>().len();
        if self.stopped || self.paused || self.ended.is_some() {
            assert_eq!(standing, 0, "a stop, a pause or an end wakes everybody");
        } else if self.reporting == Reporting::Immediate {
            assert_eq!(standing, self.taken.len() - self.given.len(), "who was heard does not wait");
        }
    }
}

fn both() -> impl Strategy<Value = Reporting> {
    prop_oneof![Just(Reporting::Immediate), Just(Reporting::OnDemand)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn no_result_is_lost_and_nobody_waits_for_ever(reporting in both(), acts in acts()) {
        let mut model = Model::new(reporting);
        for act in acts {
            model.act(act);
        }
        // Whatever has happened, a driver that goes on asking gets everything and hears the end, once the function ends.
        let rounds = model.taken.len() + 2;
        for _ in 0..rounds {
            model.act(Act::Ask);
        }
        prop_assert!(model.threads[0].is_none(), "a driver that asks lets the function go on");
        model.act(Act::End);
        for _ in 0..rounds {
            model.act(Act::Ask);
        }
        prop_assert!(model.heard_end);
        prop_assert_eq!(&model.given, &model.taken);
        prop_assert!(model.threads.iter().all(Option::is_none));
    }
}

#[test]
fn a_reporter_on_demand_stands_until_the_next_is_asked_for() {
    let mut exchange = Plain::new(Reporting::OnDemand);
    assert_eq!((exchange.ask(), exchange.next()), (Starts::Now, Next::NotYet));
    let first = exchange.hand_over(1);
    assert_eq!(exchange.next(), Next::Result(1));
    assert!(exchange.released().is_empty(), "it stands");
    assert_eq!(exchange.ask(), Starts::No);
    assert_eq!(exchange.released(), [first]);
    exchange.ask();
    let second = exchange.hand_over(2);
    assert!(exchange.released().is_empty(), "asking twice for one result lets nobody go twice");
    exchange.stop();
    assert_eq!((exchange.released(), exchange.admission()), (vec![second], Admission::Stopped));
    assert_eq!((exchange.next(), exchange.next()), (Next::Result(2), Next::NotYet));
    exchange.end(Err("late"));
    assert_eq!(exchange.next(), Next::Failed("late"));
    assert_eq!(exchange.next(), Next::Failed("late"), "it stays so");
}

#[test]
fn a_reporter_that_need_not_wait_goes_on_when_its_result_is_taken() {
    let mut exchange = Plain::new(Reporting::Immediate);
    exchange.ask();
    let first = exchange.hand_over(1);
    assert!(exchange.released().is_empty());
    assert_eq!((exchange.next(), exchange.released()), (Next::Result(1), vec![first]));
}

#[test]
fn a_function_that_was_stopped_before_it_began_does_not_begin() {
    let mut exchange = Plain::new(Reporting::OnDemand);
    exchange.stop();
    assert!(exchange.has_ended());
    assert_eq!((exchange.ask(), exchange.next()), (Starts::No, Next::Over));
}
