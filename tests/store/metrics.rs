//! Metrics against a plain model in memory: whatever was reported, in whatever order, with restarts and sealing in
//! between, reads back the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{prelude::*, test_runner::TestCaseError};
use serde_json::json;
use tempfile::TempDir;
use trainhead::{
    base::{ActorId, RunId, Secret},
    model::{
        branches::{Branch, merged},
        buckets::{Grid, Thinning},
        commands::RegisterRun,
        metrics::ReportBatch,
        series::{AttemptChoice, Axis, Mode, Series, SeriesRequest, Span},
        track::Sample,
        verbs::RunVerb,
    },
    state::{DataDir, StateHandle, StateOptions, StateTask, start},
};

const KEYS: [&str; 2] = ["loss", "a/b"];
const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug)]
enum Op {
    Report(Batch),
    /// The last batch once more, by its writer.
    Again,
    /// The last batch's points by another writer.
    Copied,
    Restart,
    /// Until all that may be sealed is.
    Settle,
}

#[derive(Clone, Debug)]
struct Batch {
    attempt: u32,
    rank: u32,
    keys: usize,
    first: i64,
    rows: usize,
    stride: i64,
    /// How values follow from steps.
    salt: u64,
    columns: bool,
}

fn batches() -> impl Strategy<Value = Batch> {
    let rows = prop_oneof![4 => 1usize..12, 2 => 50usize..400, 1 => 3000usize..6000];
    let first = prop_oneof![2 => 0i64..200, 2 => 0i64..12_000];
    let stride = prop_oneof![3 => Just(1i64), 1 => Just(0i64), 1 => Just(3i64), 1 => Just(-1i64)];
    (0..ATTEMPTS, 0u32..2, 1usize..=2, first, rows, stride, any::<u64>(), any::<bool>()).prop_map(
        |(attempt, rank, keys, first, rows, stride, salt, columns)| {
            let rows = if columns { rows } else { rows.min(12) };
            // Steps are not negative.
            let first = if stride < 0 { first + i64::try_from(rows).unwrap() } else { first };
            Batch { attempt, rank, keys, first, rows, stride, salt, columns }
        },
    )
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => batches().prop_map(Op::Report),
        1 => Just(Op::Again),
        1 => Just(Op::Copied),
        1 => Just(Op::Restart),
        1 => Just(Op::Settle),
    ]
}

/// By (key, rank, attempt): step to time and value.
type Model = BTreeMap<(String, u32, u32), BTreeMap<i64, (i64, f64)>>;

impl Batch {
    fn points(&self) -> Vec<(i64, i64, f64)> {
        let point = |i: usize| {
            let step = self.first + i64::try_from(i).unwrap() * self.stride;
            let mix = (step.cast_unsigned() ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let value = match mix % 97 {
                0 => f64::NAN,
                1 => f64::INFINITY,
                2 => f64::NEG_INFINITY,
                3 => -0.0,
                4 => 5e-324,
                n if self.salt.is_multiple_of(2) => f64::from(u32::try_from(n).unwrap()),
                _ => f64::from(u32::try_from(mix >> 40).unwrap()) / 7.0,
            };
            let time = 1_700_000_000_000 + step * 10 + i64::try_from(self.salt % 7).unwrap();
            (step, time, value)
        };
        (0..self.rows).map(point).collect()
    }

    fn body(&self, writer: &str, seq: u64) -> ReportBatch {
        let points = self.points();
        let number = |x: f64| {
            if x.is_finite() {
                json!(x)
            } else if x.is_nan() {
                json!("NaN")
            } else if x > 0.0 {
                json!("Infinity")
            } else {
                json!("-Infinity")
            }
        };
        let mut body = json!({"writer": writer, "seq": seq, "attempt": self.attempt, "rank": self.rank});
        if self.columns {
            let values: Vec<_> = points.iter().map(|p| number(p.2)).collect();
            let metrics: BTreeMap<_, _> = KEYS[..self.keys].iter().map(|key| (*key, &values)).collect();
            let (steps, times): (Vec<_>, Vec<_>) = points.iter().map(|p| (p.0, p.1)).unzip();
            body["columns"] = json!({"step": steps, "time_ms": times, "metrics": metrics});
        } else {
            let report = |p: &(i64, i64, f64)| {
                let metrics: BTreeMap<_, _> =
                    KEYS[..self.keys].iter().map(|key| (*key, number(p.2))).collect();
                json!({"step": p.0, "time_ms": p.1, "metrics": metrics})
            };
            body["reports"] = points.iter().map(report).collect();
        }
        serde_json::from_value(body).unwrap()
    }

    fn enter(&self, model: &mut Model) {
        for key in &KEYS[..self.keys] {
            let series = model.entry(((*key).to_owned(), self.rank, self.attempt)).or_default();
            series.extend(self.points().into_iter().map(|(step, time, value)| (step, (time, value))));
        }
    }
}

struct World {
    dir: TempDir,
    state: StateHandle,
    task: StateTask,
    token: Secret,
    seal_rows: usize,
    model: Model,
    last: Option<Batch>,
    seq: u64,
}

fn run() -> RunId {
    RunId::parse("r").unwrap()
}

async fn open(dir: &TempDir, seal_rows: usize) -> (StateHandle, StateTask) {
    let data_dir = DataDir::open(dir.path()).unwrap();
    let lock = data_dir.try_lock().unwrap().unwrap();
    start(StateOptions { seal_rows, ..StateOptions::new(data_dir, lock) }).await.unwrap()
}

impl World {
    async fn new(seal_rows: usize) -> Self {
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { TempDir::new_in(shm) } else { TempDir::new() }.unwrap();
        let (state, task) = open(&dir, seal_rows).await;
        let mut body = RegisterRun::by(ActorId::parse("c").unwrap());
        body.id = Some(run());
        let (registration, _) = state.register(body).await.unwrap();
        let token = registration.token;
        for attempt in 0..ATTEMPTS {
            let id = format!("r-a{attempt}").parse().unwrap();
            let begin = json!({"attempt_id": id, "num_workers": 1});
            state.say(&run(), &token, RunVerb::BeginAttempt(from(begin))).await.unwrap();
            if attempt + 1 < ATTEMPTS {
                let end = json!({"status": "ERRORED", "end_reason": "worker_failed"});
                state.say(&run(), &token, RunVerb::EndAttempt(id, from(end))).await.unwrap();
            }
        }
        Self { dir, state, task, token, seal_rows, model: Model::new(), last: None, seq: 0 }
    }

    async fn apply(mut self, op: Op) -> Result<Self, TestCaseError> {
        match op {
            Op::Report(batch) => {
                self.seq += 1;
                self.state.report(&run(), &self.token, batch.body("w", self.seq)).await.unwrap();
                batch.enter(&mut self.model);
                self.last = Some(batch);
            }
            Op::Again => {
                if let Some(batch) = &self.last {
                    let stored =
                        self.state.report(&run(), &self.token, batch.body("w", self.seq)).await.unwrap();
                    prop_assert!(stored.known);
                }
            }
            Op::Copied => {
                if let Some(batch) = &self.last {
                    let writer = format!("w{}", self.seq);
                    // The same number again by the same copy is known.
                    self.state.report(&run(), &self.token, batch.body(&writer, 1)).await.unwrap();
                    batch.enter(&mut self.model);
                }
            }
            Op::Restart => return Ok(self.restart().await),
            Op::Settle => self.settle().await,
        }
        Ok(self)
    }

    async fn restart(self) -> Self {
        let Self { dir, state, task, token, seal_rows, model, last, seq } = self;
        drop(state);
        assert!(task.shutdown(Duration::from_secs(20)).await);
        let (state, task) = open(&dir, seal_rows).await;
        Self { dir, state, task, token, seal_rows, model, last, seq }
    }

    /// Waits until nothing is sealed any more.
    async fn settle(&self) {
        let mut before = None;
        loop {
            let figures = self.state.figures();
            let now = Some((figures.seals, figures.metric_memory_bytes));
            if before == now {
                return;
            }
            before = now;
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
    }

    async fn series(&self, request: &SeriesRequest) -> Vec<Series> {
        self.state.series(&run(), request).await.unwrap().series
    }

    async fn check(&self) -> Result<(), TestCaseError> {
        for rank in 0..2 {
            for key in KEYS {
                self.check_key(key, rank).await?;
            }
        }
        self.check_summaries().await
    }

    async fn check_key(&self, key: &str, rank: u32) -> Result<(), TestCaseError> {
        let attempts: Vec<(u32, Vec<Sample>)> = self
            .model
            .iter()
            .filter(|((k, r, _), _)| k == key && *r == rank)
            .map(|((_, _, attempt), points)| {
                let sample = |(&step, &(time_ms, value)): (&i64, &(i64, f64))| Sample {
                    step,
                    time_ms,
                    value,
                    attempt: *attempt,
                };
                (*attempt, points.iter().map(sample).collect())
            })
            .collect();
        let ends = |points: &[Sample]| (points.first().unwrap().step, points.last().unwrap().step);
        let branches = attempts.iter().map(|(attempt, points)| {
            let (from, to) = ends(points);
            Branch { attempt: *attempt, from, to }
        });
        let shown = merged(branches.collect());
        let curve: Vec<Sample> = shown
            .iter()
            .flat_map(|b| {
                let points = &attempts.iter().find(|(attempt, _)| *attempt == b.attempt).unwrap().1;
                points.iter().filter(|s| (b.from..=b.to).contains(&s.step)).copied().collect::<Vec<_>>()
            })
            .collect();
        let expected: Vec<(AttemptChoice, Vec<Vec<Sample>>)> = vec![
            (AttemptChoice::Merged, vec![curve]),
            (AttemptChoice::All, attempts.iter().map(|(_, points)| points.clone()).collect()),
            (
                AttemptChoice::One(1),
                attempts.iter().filter(|(a, _)| *a == 1).map(|(_, p)| p.clone()).collect(),
            ),
        ];
        let spans = [
            Span::ALL,
            Span { from_step: 40, to_step: 5_000, ..Span::ALL },
            Span {
                from_step: 100,
                from_ms: 1_700_000_000_000 + 1_500,
                to_ms: 1_700_000_030_000,
                ..Span::ALL
            },
        ];
        for (attempt, series) in expected {
            for span in spans {
                for (mode, max_points) in [
                    (Mode::Raw, 1_000_000),
                    (Mode::Raw, 7),
                    (Mode::Minmax, 1_000_000),
                    (Mode::Minmax, 1_000),
                    (Mode::Minmax, 50),
                    (Mode::Minmax, 4),
                ] {
                    let request = SeriesRequest {
                        keys: vec![key.to_owned()],
                        rank: Some(rank),
                        attempt,
                        span,
                        max_points,
                        mode,
                        axis: Axis::Step,
                        since: None,
                    };
                    let shown: Vec<Plain> = self.series(&request).await.iter().map(plain).collect();
                    let wanted: Vec<Plain> = series
                        .iter()
                        .map(|points| points.iter().filter(|s| span.has(s)).copied().collect::<Vec<_>>())
                        .filter(|points| !points.is_empty())
                        .map(|points| answer(&points, mode, max_points))
                        .collect();
                    prop_assert_eq!(shown, wanted, "{:?}", request);
                }
            }
        }
        Ok(())
    }

    async fn check_summaries(&self) -> Result<(), TestCaseError> {
        let overview = self.state.metrics(&run()).await.unwrap();
        let keys: BTreeSet<&String> = self.model.keys().map(|(key, ..)| key).collect();
        let named: Vec<&String> = overview.metrics.iter().map(|m| &m.key).collect();
        prop_assert_eq!(named, keys.into_iter().collect::<Vec<_>>());
        for summary in &overview.metrics {
            let of: Vec<_> = self.model.iter().filter(|((key, ..), _)| *key == summary.key).collect();
            let points = || of.iter().flat_map(|(_, points)| points.iter());
            prop_assert_eq!(summary.count as usize, points().count(), "{}", summary.key);
            prop_assert_eq!(summary.first_step, *points().map(|(step, _)| step).min().unwrap());
            prop_assert_eq!(summary.last_step, *points().map(|(step, _)| step).max().unwrap());
            let numbers = || points().map(|(_, (_, x))| *x).filter(|x| !x.is_nan());
            prop_assert_eq!(summary.nan_count as usize, points().count() - numbers().count());
            let bits = |x: Option<f64>| x.map(f64::to_bits);
            prop_assert_eq!(bits(summary.min.map(|m| m.0)), bits(numbers().min_by(f64::total_cmp)));
            prop_assert_eq!(bits(summary.max.map(|m| m.0)), bits(numbers().max_by(f64::total_cmp)));
            let rank = of.iter().map(|((_, rank, _), _)| rank).min().unwrap();
            let (_, newest) =
                of.iter().filter(|((_, r, _), _)| r == rank).max_by_key(|((.., a), _)| a).unwrap();
            let (time, value) = newest.last_key_value().unwrap().1;
            prop_assert_eq!(summary.last_time_ms.as_ms(), *time);
            prop_assert_eq!(summary.last.0.to_bits(), value.to_bits());
        }
        Ok(())
    }
}

/// What can be compared: count, where the next begin, and the points with the bits of their values.
type Plain = (u64, Option<i64>, Vec<(i64, i64, u64, u32)>);

fn plain(series: &Series) -> Plain {
    let n = series.step.len();
    assert!(series.time_ms.len() == n && series.value.len() == n && series.attempt_at.len() == n);
    let point = |i: usize| (series.step[i], series.time_ms[i], bits(series.value[i].0), series.attempt_at[i]);
    (series.count, series.next_step, (0..n).map(point).collect())
}

fn bits(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() }
}

fn answer(points: &[Sample], mode: Mode, max: usize) -> Plain {
    let (first, last) = (*points.first().unwrap(), *points.last().unwrap());
    let next = points.get(max).filter(|_| mode == Mode::Raw).map(|s| s.step);
    let kept = if points.len() <= max {
        points.to_vec()
    } else if mode == Mode::Raw {
        points[..max].to_vec()
    } else {
        let mut thinning = Thinning::new(Grid::over(first.step, last.step, (max / 2).max(2)), Axis::Step);
        points.iter().for_each(|s| thinning.point(*s));
        let kept = thinning.finish(first, last);
        assert!(kept.len() <= max + 2, "{} of {max}", kept.len());
        kept
    };
    let kept = kept.iter().map(|s| (s.step, s.time_ms, bits(s.value), s.attempt)).collect();
    (points.len() as u64, next, kept)
}

fn from<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// 12 in each run of the tests; `SEQUENCES=1000` for a long one.
fn cases() -> u32 {
    std::env::var("SEQUENCES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn what_was_reported_reads_back_whatever_is_sealed_and_whenever(
        sequence in prop::collection::vec(ops(), 1..25),
        seal_rows in prop::sample::select(vec![1usize, 10, 300, 6144]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seal_rows).await;
            for (i, op) in sequence.into_iter().enumerate() {
                world = world.apply(op).await?;
                if i % 8 == 7 {
                    world.check().await?;
                }
            }
            world.check().await?;
            let world = world.restart().await;
            world.check().await?;
            // At its end it is sealed whole.
            let end = RunVerb::End(from(json!({"run_status": "FINISHED"})));
            world.state.say(&run(), &world.token, end).await.unwrap();
            let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
            while world.state.figures().metric_memory_bytes > 0 {
                assert!(tokio::time::Instant::now() < deadline);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            world.check().await?;
            world.restart().await.check().await
        })?;
    }
}
