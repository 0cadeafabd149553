//! The queue by itself.

use proptest::prelude::*;

use super::*;
use crate::{
    base::{RunId, Secret, Timestamp},
    model::{
        RunRecord, Trail,
        commands::RegisterRun,
        metrics::{Columns, MetricValue},
        verbs::SetState,
    },
};

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);

fn small() -> Limits {
    Limits { items: 4, segment_items: 2, ..Limits::default() }
}

fn state(state: ControllerState, detail: usize) -> RunVerb {
    RunVerb::SetState(SetState { state, status_detail: Some(detail.to_string()) })
}

/// Everything that comes out, with the segments in `disk` written and read in memory.
fn drain(queue: &mut Queue, disk: &mut HashMap<u64, Vec<Item>>, most: usize) -> Vec<Item> {
    let mut out = Vec::new();
    while out.len() < most {
        match queue.next() {
            Next::Item(item) => out.push(item),
            Next::Load(number) => queue.loaded(disk[&number].clone()),
            Next::Remove(number) => drop(disk.remove(&number).unwrap()),
            Next::Nothing => break,
        }
    }
    out
}

fn spill(queue: &mut Queue, disk: &mut HashMap<u64, Vec<Item>>) {
    while let Some(part) = queue.overflow(Spill::Excess) {
        disk.entry(part.number).or_default().extend(part.items.clone());
        queue.spilled(&part, 1);
    }
}

proptest! {
    /// Random ways of a controller through its states, with the head coming and going: what arrives is legal for the head,
    /// and the last word is the newest state.
    #[test]
    fn of_states_in_a_row_the_newest_arrives_and_the_head_takes_each(steps in prop::collection::vec((0usize..8, 0usize..4), 1..60)) {
        let mut record = RunRecord::register(
            RunId::generate(), RegisterRun::by(crate::base::ActorId::generate()), String::new(),
            Secret::new("s".into()).hash(), NOW, &mut Trail::default(),
        );
        let (mut queue, mut disk) = (Queue::new(small()), HashMap::new());
        let mut now = ControllerState::Initializing;
        let mut said = 0;
        let mut heard = Vec::new();
        for (choice, sent) in steps {
            let next: Vec<_> = ControllerState::ALL.iter().filter(|s| now.may_go_to(**s) && !s.phase().is_terminal()).collect();
            if next.is_empty() {
                break;
            }
            now = *next[choice % next.len()];
            said += 1;
            queue.say(state(now, said));
            spill(&mut queue, &mut disk);
            heard.extend(drain(&mut queue, &mut disk, sent));
        }
        heard.extend(drain(&mut queue, &mut disk, usize::MAX));
        for item in heard {
            let Item::Say(RunVerb::SetState(body)) = item else { panic!() };
            record.set_state(body, NOW, &mut Trail::default()).unwrap();
        }
        prop_assert_eq!(record.run.controller_state, Some(now));
        prop_assert_eq!(record.run.status_detail, Some(said.to_string()));
        prop_assert!(disk.is_empty());
    }

    #[test]
    fn a_value_keeps_every_bit_on_disk(value in any::<f64>()) {
        let json = serde_json::to_string(&MetricValue(value)).unwrap();
        prop_assert_eq!(serde_json::from_str::<MetricValue>(&json).unwrap(), MetricValue(value));
    }

    /// Whatever is put in and taken out when, and whether the disk works or not, the order is kept and nothing is lost.
    #[test]
    fn the_order_is_kept_through_memory_and_disk(steps in prop::collection::vec((1usize..9, 0usize..7, any::<bool>()), 1..60)) {
        let (mut queue, mut disk) = (Queue::new(small()), HashMap::new());
        let (mut put, mut out) = (0, Vec::new());
        for (many, taken, disk_works) in steps {
            for _ in 0..many {
                let body = BeginAttempt::unreserved(AttemptId::generate(), 1, Some(put.to_string()));
                queue.say(RunVerb::BeginAttempt(body));
                put += 1;
            }
            if disk_works {
                spill(&mut queue, &mut disk);
                prop_assert!(queue.back.len() <= small().items);
            } else if let Some(part) = queue.overflow(Spill::Excess) {
                queue.not_spilled(part);
            }
            out.extend(drain(&mut queue, &mut disk, taken));
        }
        out.extend(drain(&mut queue, &mut disk, usize::MAX));
        let order = out.into_iter().map(|item| match item {
            Item::Say(RunVerb::BeginAttempt(body)) => body.status_detail.unwrap().parse::<i32>().unwrap(),
            other => panic!("{other:?}"),
        });
        prop_assert_eq!(order.collect::<Vec<_>>(), (0..put).collect::<Vec<_>>());
        prop_assert_eq!((queue.spooled_bytes, queue.back_weight), (0, 0));
    }
}

fn numbered(number: usize) -> RunVerb {
    RunVerb::BeginAttempt(BeginAttempt::unreserved(AttemptId::generate(), 1, Some(number.to_string())))
}

fn number(item: &Item) -> usize {
    let Item::Say(RunVerb::BeginAttempt(body)) = item else { panic!("{item:?}") };
    body.status_detail.as_ref().unwrap().parse().unwrap()
}

/// A queue with its disk in memory, and what is under way.
#[derive(Default)]
struct Whole {
    queue: Queue,
    disk: std::collections::BTreeMap<u64, Vec<Item>>,
    current: Option<Item>,
}

impl Whole {
    fn spill(&mut self, spill: Spill) {
        while let Some(part) = self.queue.overflow(spill) {
            self.disk.entry(part.number).or_default().extend(part.items.clone());
            self.queue.spilled(&part, 1);
        }
    }

    fn set_aside(&mut self) {
        let part = self.current.as_ref().and_then(|item| self.queue.aside(item));
        if let Some(part) = part {
            assert!(self.disk.insert(part.number, part.items.clone()).is_none(), "its number was free");
            self.queue.set_aside(&part, 1);
            self.current = None;
        }
    }

    fn take(&mut self) -> Option<Item> {
        loop {
            match self.queue.next() {
                Next::Item(item) => return Some(item),
                Next::Load(number) => self.queue.loaded(self.disk[&number].clone()),
                Next::Remove(number) => drop(self.disk.remove(&number).unwrap()),
                Next::Nothing => return None,
            }
        }
    }
}

proptest! {
    /// Whenever a controller comes to its end: what was delivered, and then what it leaves on disk, is all that there was
    /// to say, in order. What is there twice was delivered, or may have been, and is delivered once more.
    #[test]
    fn what_is_delivered_and_what_is_kept_is_everything_in_order(
        steps in prop::collection::vec((0usize..6, 0usize..6, 0u8..5), 1..60)
    ) {
        let mut whole = Whole { queue: Queue::new(small()), ..Whole::default() };
        let (mut put, mut delivered) = (0, Vec::new());
        for (many, taken, what) in steps {
            for _ in 0..many {
                whole.queue.say(numbered(put));
                put += 1;
            }
            match what {
                0 => {}
                1 => whole.spill(Spill::Excess),
                // While something is being sent.
                2 => whole.spill(Spill::Everything),
                _ => {
                    whole.set_aside();
                    whole.spill(Spill::Everything);
                    // Nothing is in memory: a controller that is killed now loses nothing.
                    let on_disk = whole.disk.values().flatten().map(number);
                    let rest: Vec<_> = on_disk.filter(|n| *n >= delivered.len()).collect();
                    prop_assert_eq!(rest, (delivered.len()..put).collect::<Vec<_>>());
                }
            }
            for _ in 0..taken {
                delivered.extend(whole.current.take().as_ref().map(number));
                whole.current = whole.take();
            }
        }
        prop_assert_eq!(&delivered, &(0..delivered.len()).collect::<Vec<_>>());
        whole.set_aside();
        whole.spill(Spill::Last);
        let kept: Vec<_> = whole.disk.values().flatten().map(number).collect();
        prop_assert!(kept.is_sorted_by(|a, b| a < b), "{:?}", kept);
        let rest: Vec<_> = kept.into_iter().filter(|n| *n >= delivered.len()).collect();
        prop_assert_eq!(rest, (delivered.len()..put).collect::<Vec<_>>());
    }
}

#[test]
fn a_full_disk_costs_metrics_and_no_verbs() {
    let mut queue = Queue::new(Limits { spool_bytes: 2, ..small() });
    let mut disk = HashMap::new();
    for i in 0..100 {
        let columns = Columns {
            step: vec![i],
            time_ms: None,
            metrics: [("a", vec![MetricValue(0.5)])].into_iter().collect(),
        };
        let writer = crate::base::ActorId::generate();
        let batch =
            ReportBatch { writer, seq: 0, attempt: 0, rank: 0, reports: Vec::new(), columns: Some(columns) };
        queue.report(batch);
        queue.say(RunVerb::BeginAttempt(BeginAttempt::unreserved(AttemptId::generate(), 1, None)));
        spill(&mut queue, &mut disk);
    }
    assert_eq!(disk.len(), 2);
    let out = drain(&mut queue, &mut disk, usize::MAX);
    let verbs = out.iter().filter(|item| matches!(item, Item::Say(_))).count();
    let points: u64 = out.iter().map(Item::points).sum();
    assert_eq!(verbs, 100);
    assert_eq!(points + queue.dropped_points(), 100);
    assert!(queue.dropped_points() > 50);
}

#[test]
fn every_item_survives_the_disk() {
    let id = AttemptId::generate();
    let end = serde_json::json!({"run_status": "FINISHED"});
    let batch = serde_json::json!({"writer": "w", "seq": 0, "columns": {"step": [1, 2, 3],
        "metrics": {"a": [0.1, "NaN", 0.123_456_789_012_345_67]}}});
    let items = [
        Item::Say(state(ControllerState::Running, 1)),
        Item::Say(RunVerb::EndAttempt(
            id.clone(),
            serde_json::from_value(serde_json::json!({"status": "FINISHED", "end_reason": "completed"}))
                .unwrap(),
        )),
        Item::Say(RunVerb::End(Box::new(serde_json::from_value(end).unwrap()))),
        Item::Begin { ticket: 7, body: BeginAttempt::unreserved(id, 2, None) },
        Item::Report(serde_json::from_value(batch).unwrap()),
    ];
    let dir = tempfile::tempdir().unwrap();
    let register = RegisterRun::by(crate::base::ActorId::generate());
    let keeper = super::super::keeper::Keeper::new(dir.path(), &RunId::generate(), None, &register);
    keeper.append(1, &items[..2]).unwrap();
    keeper.append(1, &items[2..]).unwrap();
    assert_eq!(keeper.read(1).unwrap(), (items.to_vec(), 0));
    keeper.remove(1);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
