//! Charts: a long series thinned out, a window of it, all of it, many runs at once, many keys; and how that grows.

use std::sync::Arc;

use anyhow::ensure;
use serde_json::{Value, json};
use trainhead::base::{limits, number};

use crate::{
    Options,
    compare::{Side, compare, print_head},
    load::{Requests, get_request},
    points::{Form, Kind, Reports, Shape, Values, key},
    reads::{Query, beside_fixed},
    seed::Run,
    server::Server,
    store::{Made, Stores},
};

const POOL: u32 = 1_000_000;
/// A long series, as it is filled.
const LONG: Shape = Shape { form: Form::Columns, keys: 1, steps: 1000 };
/// Many runs.
const RUNS: usize = 20;
const RUN: Shape = Shape { form: Form::Columns, keys: 5, steps: 1000 };
const RUN_STEPS: usize = 100_000;
/// Many keys.
const KEYS: Shape = Shape { form: Form::Columns, keys: 12_000, steps: 10 };
const QUERY: &str = "/api/train/metrics/query";
/// What is sent again.
const AGAIN: Shape = Shape { form: Form::Columns, keys: 150, steps: 1 };

fn path(run: &str, more: &str) -> String {
    format!("/api/train/runs/{run}/metrics/series?key={}{more}", key(0))
}

fn long(points: u32) -> String {
    format!("long-{points}")
}

pub(crate) async fn measure(stores: &Stores, options: &Options) -> anyhow::Result<()> {
    let points = options.points;
    let store = stores.kept(&format!("series-{points}"), async |head| fill(head, points).await).await?;
    let head = Server::head_on_copy(&store).await?;
    let run = long(points);
    println!("## A series of {points} points\n");
    check(&head, &run, points).await?;
    let window = format!("&from_step={}&to_step={}&max_points=2000", points / 2, points / 2 + 1999);
    let queries = [
        Query::get("to 1,000, JSON", path(&run, "&max_points=1000")),
        Query::get("to 1,000, binary", path(&run, "&max_points=1000&format=binary")),
        Query::get("2,000 steps of it, JSON", path(&run, &window)),
        Query::get("2,000 steps of it, binary", path(&run, &format!("{window}&format=binary"))),
    ];
    beside_fixed(&head, &queries, &[1, 16], options).await?;
    // No request brings more than this.
    let all = points.min(limits::SERIES_POINTS);
    let queries = [
        Query::get(format!("{all} points, JSON"), path(&run, &format!("&mode=raw&max_points={all}"))),
        Query::get(
            format!("{all} points, binary"),
            path(&run, &format!("&mode=raw&max_points={all}&format=binary")),
        ),
    ];
    beside_fixed(&head, &queries, &[1], options).await?;

    println!("Many runs and many keys\n");
    let runs: Vec<String> = (0..RUNS).map(|i| format!("many-{i}")).collect();
    let keys: Vec<String> = (0..RUN.keys).map(key).collect();
    let many_keys = format!("`GET …/metrics`, {} keys", KEYS.keys);
    let many_runs = |format: &str| {
        let body = json!({"runs": runs, "keys": keys, "max_points": 1000, "format": format}).to_string();
        let what = format!("{RUNS} runs × {} keys × {RUN_STEPS} points to 1,000 each, {format}", RUN.keys);
        Query::post(what, QUERY, body)
    };
    let queries = [
        many_runs("json"),
        many_runs("binary"),
        Query::get(many_keys, "/api/train/runs/keys/metrics"),
        Query::get("`GET …/metrics` of the long series", format!("/api/train/runs/{run}/metrics")),
    ];
    beside_fixed(&head, &queries, &[1], options).await?;
    growth(&head, points, options).await?;
    head.stop().await;
    live(points, options).await
}

/// The answer says how many points stand behind it, and about as many of them as were asked for are there.
async fn check(head: &Server, run: &str, points: u32) -> anyhow::Result<()> {
    let answer = head.connect().await?.get(&path(run, "&max_points=1000")).await?;
    let answer: Value = serde_json::from_slice(&answer.body)?;
    let series = &answer["series"][0];
    let shown = series["step"].as_array().map_or(0, Vec::len);
    ensure!(series["count"] == points, "the series has {} points", series["count"]);
    // One or two of each bucket, and the ends.
    ensure!((500..=1002).contains(&shown), "{shown} points instead of 1,000");
    Ok(())
}

/// The same charts of series of three lengths.
async fn growth(head: &Server, points: u32, options: &Options) -> anyhow::Result<()> {
    println!("The same of shorter series of the same store: {points} points, a tenth and a hundredth\n");
    print_head(&["100×", "10×", "1×"]);
    for (what, more) in
        [("to 1,000", "&max_points=1000"), ("2,000 steps", "&from_step=4000&to_step=5999&max_points=2000")]
    {
        let mut sides = [("100×", points), ("10×", points / 10), ("1×", points / 100)]
            .map(|(name, points)| Side::get(name, head, &path(&long(points), more)));
        compare(&format!("{what}, clients: 1"), &mut sides, 1, options).await?;
    }
    println!();
    Ok(())
}

/// A run that goes on: charts of it, and batches that come again after their answer was lost.
async fn live(points: u32, options: &Options) -> anyhow::Result<()> {
    println!(
        "The run of {points} points goes on; its last batch, and one of {} keys, come again\n",
        AGAIN.keys
    );
    let head = Server::head().await?;
    let mut connection = head.connect().await?;
    let values = Values::new(Kind::Float32, POOL)?;
    let mut run = Run::begin(&mut connection, "live").await?;
    let mut reports = run.reports(LONG, &values, 0)?;
    run.report(&mut reports, usize::try_from(points)? / LONG.steps).await?;
    let last = again(&mut run, &mut reports).await?;
    let mut wide = run.reports(AGAIN, &values, 1)?;
    wide.continue_after(&reports);
    let wide = again(&mut run, &mut wide).await?;
    let chart = get_request(head.address, &path("live", "&max_points=1000"));
    print_head(&["head"]);
    for (what, request) in
        [("to 1,000", chart), ("the last batch again", last), ("the wide batch again", wide)]
    {
        let mut sides = [Side::new("head", &head, vec![Requests::Same(request.into())], 200)];
        compare(&format!("{what}, clients: 1"), &mut sides, 1, options).await?;
    }
    println!();
    head.stop().await;
    Ok(())
}

/// One request of reports, which must be known when it comes again.
async fn again(run: &mut Run<'_>, reports: &mut Reports) -> anyhow::Result<Vec<u8>> {
    let request = reports.next()?.to_vec();
    for known in [false, true] {
        let told: Value = serde_json::from_slice(&run.send(&request).await?)?;
        ensure!(told["known"] == known, "a batch that came again gave {told}");
    }
    Ok(request)
}

/// Series of three lengths, runs to compare, and a run with many keys.
async fn fill(head: &Server, points: u32) -> anyhow::Result<Made> {
    let values = Values::new(Kind::Float32, POOL)?;
    let mut made = Made { requests: 0, points: 0 };
    for points in [points, points / 10, points / 100] {
        filled(head, &long(points), LONG, usize::try_from(points)?, &values, &mut made).await?;
    }
    for i in 0..RUNS {
        filled(head, &format!("many-{i}"), RUN, RUN_STEPS, &values, &mut made).await?;
    }
    filled(head, "keys", KEYS, KEYS.steps, &values, &mut made).await?;
    Ok(made)
}

/// Makes a run of so many steps, and ends it.
async fn filled(
    head: &Server,
    id: &str,
    shape: Shape,
    steps: usize,
    values: &Arc<Values>,
    made: &mut Made,
) -> anyhow::Result<()> {
    let mut connection = head.connect().await?;
    let mut run = Run::begin(&mut connection, id).await?;
    let mut reports = run.reports(shape, values, made.points)?;
    // Shorter ones than a request carries are rounded up.
    run.report(&mut reports, steps.div_ceil(shape.steps)).await?;
    made.points += reports.made() * number::size(shape.points());
    made.requests += run.finish().await?;
    Ok(())
}
