//! The index against the plainest thing that does the same: a list that is filtered, sorted and cut.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::{
    base::{Timestamp, number},
    model::{progress::LastReported, view::Document},
    state::live::LiveMap,
};

fn run(i: usize, start: i64, status: RunStatus) -> ListedRun {
    ListedRun {
        id: RunId::parse(&format!("run-{i:05}")).unwrap(),
        start_time: Timestamp::from_ms(start),
        duration_ms: (status != RunStatus::Started).then_some(7),
        status,
        name: format!("Name {i}"),
        job_id: None,
        experiment: None,
        tags: BTreeMap::new(),
        trashed: false,
        tally: Tally::default(),
        last: None,
    }
}

fn index_of(runs: impl IntoIterator<Item = ListedRun>) -> RunIndex {
    let mut index = RunIndex::default();
    runs.into_iter().for_each(|run| index.push(run));
    index.ordered()
}

fn page<'a>(index: &'a RunIndex, query: &ListQuery) -> Page<'a> {
    index.page(query, &LiveMap::default()).unwrap()
}

fn ids(page: &Page<'_>) -> Vec<String> {
    page.entries.iter().map(|e| e.id().to_string()).collect()
}

#[test]
fn the_one_live_run_is_found_behind_12_000_newer_finished_ones() {
    let index = index_of((0..=12_000).map(|i| match i {
        0 => run(0, 1, RunStatus::Started),
        i => run(i, 2, RunStatus::Finished),
    }));
    let query = ListQuery { statuses: vec![RunStatus::Started], page_size: 10, ..ListQuery::default() };
    let page = page(&index, &query);
    assert_eq!((ids(&page), page.total, page.next), (vec!["run-00000".to_owned()], 1, None));
}

#[test]
fn paging_through_equal_start_times_meets_each_run_once_while_runs_are_added() {
    let mut index = index_of((0..5000).map(|i| run(i, 7, RunStatus::Finished)));
    let mut seen = Vec::new();
    let mut query = ListQuery { page_size: 100, ..ListQuery::default() };
    loop {
        let page = page(&index, &query);
        seen.extend(ids(&page));
        let next = page.next;
        for i in 0..10 {
            index.put(run(10_000 + seen.len() * 10 + i, 8, RunStatus::Started), Document::default());
        }
        match next {
            Some(next) => query.page_token = Some(PageToken::parse(&next.to_string()).unwrap()),
            None => break,
        }
    }
    assert_eq!(seen, (0..5000).rev().map(|i| format!("run-{i:05}")).collect::<Vec<_>>());
}

#[test]
fn a_token_is_good_for_the_order_that_it_was_made_for() {
    let index = index_of((0..3).map(|i| run(i, 7, RunStatus::Finished)));
    let mut query = ListQuery { page_size: 1, sort: "name".parse().unwrap(), ..ListQuery::default() };
    query.page_token = page(&index, &query).next;
    assert_eq!(ids(&page(&index, &query)), ["run-00001"]);
    query.sort = "-name".parse().unwrap();
    assert_eq!(index.page(&query, &LiveMap::default()).unwrap_err().field, "page_token");
}

#[derive(Clone, Debug)]
enum Op {
    Put {
        id: usize,
        start: i64,
        status: RunStatus,
        name: u8,
        tags: u8,
        trashed: bool,
        loss: Option<i8>,
        tally: Tally,
    },
    Remove(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let status = prop::sample::select(RunStatus::ALL);
    let tally = (0..4u32, 0..3u32, 0..3u32).prop_map(|(attempts, failures, workers)| Tally {
        attempts,
        failures,
        workers,
    });
    let trashed = prop::bool::weighted(0.1);
    let put = (0..24usize, 0..4i64, status, 0..6u8, 0..8u8, trashed, any::<Option<i8>>(), tally);
    prop_oneof![
        9 => put.prop_map(|(id, start, status, name, tags, trashed, loss, tally)| Op::Put {
            id, start, status, name, tags, trashed, loss, tally
        }),
        1 => (0..24usize).prop_map(Op::Remove),
    ]
}

/// What the plain list knows of a run.
#[derive(Clone, Debug)]
struct Plain {
    start: i64,
    status: RunStatus,
    name: String,
    groups: BTreeSet<Facet>,
    duration: Option<i64>,
    trashed: bool,
    loss: Option<f64>,
    experiment: Option<String>,
    job: String,
    tally: Tally,
    step: Option<i64>,
    lr: Option<serde_json::Value>,
}

fn query() -> impl Strategy<Value = ListQuery> {
    let sorts = ["start_time", "name", "duration", "status", "metric:loss"];
    let sorts = [sorts.as_slice(), &["experiment", "attempts", "failures", "workers", "step"]].concat();
    let sorts = [sorts.as_slice(), &["job", "id", "setting:lr"]].concat();
    let sort = (prop::sample::select(sorts), prop::sample::select(vec!["", "-"]))
        .prop_map(|(key, direction)| format!("{direction}{key}"));
    let statuses = prop::collection::vec(prop::sample::select(RunStatus::ALL), 0..3);
    let groups = prop::collection::vec(
        prop::sample::select(vec![
            Facet::Experiment("e0".into()),
            Facet::Experiment("e9".into()),
            Facet::Job("j0".into()),
            Facet::Tag("t:0".into()),
            Facet::Tag("u:1".into()),
        ]),
        0..3,
    );
    let text =
        prop::option::weighted(0.3, prop::sample::select(vec!["name 1", "NAME", "run-0000", "t:0", "zzz"]));
    let times = (prop::option::weighted(0.3, 0..5i64), prop::option::weighted(0.3, 0..5i64));
    (sort, statuses, groups, text, times, prop::bool::weighted(0.15), 1..8u32).prop_map(
        |(sort, statuses, groups, text, (after, before), trash, page_size)| ListQuery {
            statuses,
            text: text.map(str::to_owned),
            groups,
            started_after: after.map(Timestamp::from_ms),
            started_before: before.map(Timestamp::from_ms),
            shelf: if trash { Shelf::Trash } else { Shelf::Runs },
            sort: sort.parse().unwrap(),
            page_size,
            page_token: None,
        },
    )
}

/// All that fits, in order, the plain way.
fn plainly(runs: &BTreeMap<RunId, Plain>, query: &ListQuery) -> (Vec<RunId>, usize) {
    let fits = |(id, run): &(&RunId, &Plain)| {
        let texts = format!("{}\n{id}\n{}", run.name.to_lowercase(), {
            let words = run.groups.iter().filter_map(|g| match g {
                Facet::Job(text) | Facet::Tag(text) => Some(text.to_string()),
                Facet::Experiment(_) => None,
            });
            words.collect::<Vec<_>>().join("\n")
        });
        run.trashed == (query.shelf == Shelf::Trash)
            && query.text.as_ref().is_none_or(|t| texts.contains(&t.to_lowercase()))
            && query.groups.iter().all(|g| run.groups.contains(g))
            && query.started_after.is_none_or(|t| run.start >= t.as_ms())
            && query.started_before.is_none_or(|t| run.start < t.as_ms())
    };
    let all: Vec<_> = runs.iter().filter(fits).collect();
    let wanted = |run: &Plain| query.statuses.is_empty() || query.statuses.contains(&run.status);
    let mut some: Vec<_> = all.iter().filter(|(_, run)| wanted(run)).copied().collect();
    some.sort_by(|(a_id, a), (b_id, b)| {
        let newest_first = (Reverse(a.start), Reverse(*a_id)).cmp(&(Reverse(b.start), Reverse(*b_id)));
        let value = |id: &RunId, run: &Plain| match &query.sort.key {
            SortKey::StartTime => Some((0.0, String::new())),
            SortKey::Name => Some((0.0, run.name.to_lowercase())),
            SortKey::Duration => run.duration.map(|d| (number::float(d), String::new())),
            SortKey::Status => Some((number::float(number::count(place(run.status))), String::new())),
            SortKey::Experiment => run.experiment.as_ref().map(|name| (0.0, name.to_lowercase())),
            SortKey::Attempts => Some((f64::from(run.tally.attempts), String::new())),
            SortKey::Failures => Some((f64::from(run.tally.failures), String::new())),
            SortKey::Workers => {
                Some(run.tally.workers).filter(|n| *n > 0).map(|n| (f64::from(n), String::new()))
            }
            SortKey::Step => run.step.map(|step| (number::float(step), String::new())),
            SortKey::Job => Some((0.0, run.job.clone())),
            SortKey::Id => Some((0.0, id.to_string())),
            SortKey::Metric(_) => run.loss.map(|x| (x, String::new())),
            SortKey::Setting(_) => run.lr.as_ref().map(|lr| match lr.as_str() {
                Some(text) => (f64::INFINITY, text.to_lowercase()),
                None => (lr.as_f64().unwrap(), String::new()),
            }),
        };
        let down = query.sort.direction == Direction::Descending;
        match (value(a_id, a), value(b_id, b)) {
            (None, None) => newest_first,
            (None, _) => std::cmp::Ordering::Greater,
            (_, None) => std::cmp::Ordering::Less,
            (Some(x), Some(y)) => {
                let order = x.partial_cmp(&y).unwrap().then(newest_first);
                if down != (query.sort.key == SortKey::StartTime) { order.reverse() } else { order }
            }
        }
    });
    let n = some.len();
    (some.into_iter().map(|(id, _)| id.clone()).collect(), n)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_question_is_answered_as_by_a_plain_list(
        ops in prop::collection::vec(op(), 1..60),
        queries in prop::collection::vec(query(), 1..8),
    ) {
        let mut index = RunIndex::default();
        let mut runs: BTreeMap<RunId, Plain> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Put { id, start, status, name, tags, trashed, loss, tally } => {
                    let id = RunId::parse(&format!("run-{id:05}")).unwrap();
                    // A run's start never changes.
                    let start = runs.get(&id).map_or(start, |known| known.start);
                    let ended = status != RunStatus::Started;
                    let name = format!("Name {name}");
                    let (experiment, job) = (format!("e{}", tags % 2), format!("j{}", tags % 3));
                    // Each of them in both cases, and runs without one.
                    let experiment = if name.ends_with('3') { experiment.to_uppercase() } else { experiment };
                    let experiment = Some(experiment).filter(|_| !name.ends_with('5'));
                    let tags = BTreeMap::from([("t".to_owned(), (tags / 4).to_string()), ("u".to_owned(), "1".to_owned())]);
                    let plain = Plain {
                        start,
                        status,
                        name: name.clone(),
                        groups: tags.iter().map(|(k, v)| Facet::Tag(format!("{k}:{v}").into()))
                            .chain(experiment.as_deref().map(|e| Facet::Experiment(e.into())))
                            .chain([Facet::Job(job.as_str().into())]).collect(),
                        duration: ended.then_some(i64::from(name.as_bytes()[5]) % 3),
                        trashed: trashed && ended,
                        loss: loss.filter(|_| ended).map(f64::from),
                        experiment: experiment.clone(),
                        job: job.clone(),
                        lr: loss.map(|x| if x % 3 == 0 { format!("T{x}").into() } else { x.into() }),
                        tally,
                        step: loss.filter(|_| ended).map(|x| i64::from(x) / 50),
                    };
                    index.put(ListedRun {
                        id: id.clone(),
                        start_time: Timestamp::from_ms(start),
                        duration_ms: plain.duration,
                        status,
                        name,
                        job_id: Some(job),
                        experiment,
                        tags,
                        trashed: plain.trashed,
                        tally,
                        last: Some(LastReported {
                            values: plain.loss.into_iter().map(|x| ("loss".to_owned(), x)).collect(),
                            step: plain.step,
                        }),
                    }, Document::default());
                    runs.insert(id, plain);
                }
                Op::Remove(id) => {
                    let id = RunId::parse(&format!("run-{id:05}")).unwrap();
                    index.remove(&id);
                    runs.remove(&id);
                }
            }
            // What is known of a setting goes with the run, or with what it was started with.
            let read = |id: RunId| { let lr = runs.get(&id).and_then(|run| run.lr.clone()); (id, lr) };
            let unknown = index.without_setting("lr").into_iter().map(read).collect();
            index.learn_setting("lr", unknown);
        }
        for mut query in queries {
            let (expected, total) = plainly(&runs, &query);
            let mut seen = Vec::new();
            loop {
                let page = page(&index, &query);
                prop_assert_eq!(page.total, total, "{:?}", query);
                prop_assert!(page.entries.len() <= usize::try_from(query.page_size).unwrap());
                seen.extend(page.entries.iter().map(|e| e.id().clone()));
                match page.next {
                    Some(next) => query.page_token = Some(PageToken::parse(&next.to_string()).unwrap()),
                    None => break,
                }
            }
            prop_assert_eq!(seen, expected, "{:?}", query);
        }
        for run in runs.into_keys() {
            index.remove(&run);
        }
        prop_assert!(index.groups.is_empty() && index.all.is_empty() && index.by_name.is_empty());
        prop_assert!(index.by_duration.is_empty() && index.trash.is_empty() && index.by_id.is_empty());
    }
}

#[test]
fn the_settings_that_were_asked_for_last_are_kept() {
    let mut index = index_of((0..3).map(|i| run(i, 7, RunStatus::Finished)));
    for key in 0..8 {
        let key = key.to_string();
        let values = index.without_setting(&key).into_iter().map(|id| (id, Some(1.into()))).collect();
        index.learn_setting(&key, values);
    }
    assert_eq!(index.without_setting("0").len(), 0);
    index.learn_setting("8", Vec::new());
    let unknown = |key| index.without_setting(key).len();
    assert_eq!(["0", "1", "2", "7", "8"].map(unknown), [0, 3, 0, 0, 3]);
}
