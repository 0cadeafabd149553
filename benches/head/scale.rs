//! A store like that of a team after years: many runs with metrics, how long it takes to start with it, and to read in it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::task::JoinSet;
use trainhead::base::number;

use crate::{
    Options,
    compare::{Side, compare, print_head, print_head_of},
    ingest::{CLIENTS, reporters},
    load::{Requests, get_request},
    points::{Form, Kind, Shape, Values, key},
    reads::{Query, beside_fixed},
    seed::Run,
    server::Server,
    start::starts,
    store::{Made, REST, Stores},
};

/// Of each run; four such requests.
const SHAPE: Shape = Shape { form: Form::Columns, keys: 20, steps: 250 };
const REQUESTS: usize = 4;
const POOL: u32 = 1_000_000;
const WRITERS: usize = 32;
/// Charts that are asked for in turn.
const CHARTS: usize = 1024;
const REPORTED: Shape = Shape { form: Form::Columns, keys: 10, steps: 10 };

pub(crate) async fn measure(stores: &Stores, options: &Options) -> anyhow::Result<()> {
    let (runs, steps) = (options.runs, SHAPE.steps * REQUESTS);
    let fill = async |head: &Server| fill(head, runs).await;
    let store = stores.kept(&format!("scale-{runs}"), fill).await?;
    println!("## {runs} runs × {} keys × {steps} points\n", SHAPE.keys);
    starts(&store, &format!("{runs} runs, {} points", runs * SHAPE.keys * steps), options).await?;
    let head = Server::head_on_copy(&store).await?;
    let begun = head.rss_mib()?;
    lists(&head, options).await?;
    charts(&head, options).await?;
    let read = head.rss_mib()?;
    writes(&head, options).await?;
    let written = head.rss_mib()?;
    head.quiet(REST).await?;
    println!(
        "resident, MiB: {begun:.1} after the start, {read:.1} after these reads, {written:.1} after these writes, {:.1} \
         when all was sealed\n",
        head.rss_mib()?
    );
    head.stop().await;
    Ok(())
}

async fn lists(head: &Server, options: &Options) -> anyhow::Result<()> {
    let queries = [
        Query::page("page", ""),
        Query::page("`sort=metric:`", &format!("&sort=metric:{}", key(0))),
        Query::get("`GET …/metrics`", format!("/api/train/runs/{}/metrics", id(options.runs / 2))),
    ];
    beside_fixed(head, &queries, &[1, 16], options).await
}

/// Charts of runs and keys all over the store, beside one and the same.
async fn charts(head: &Server, options: &Options) -> anyhow::Result<()> {
    let path = |run: usize, more: &str| format!("/api/train/runs/{}/metrics/series{more}", id(run));
    let chance = |i: usize| i.wrapping_mul(7919) % options.runs;
    let (one, all) = (format!("?key={}", key(0)), {
        let keys: Vec<String> = (0..SHAPE.keys).map(|k| format!("key={}", key(k))).collect();
        format!("?{}", keys.join("&"))
    });
    print_head(&["any run", "the same run"]);
    for (what, more) in [("a chart, 1,000 points", &one), ("20 charts at once", &all)] {
        let any: Vec<Vec<u8>> =
            (0..CHARTS).map(|i| get_request(head.address, &path(chance(i), more))).collect();
        for clients in [1, 16] {
            let any = vec![Requests::Turns(any.clone().into(), 0)];
            let mut sides = [
                Side::new("any run", head, any, 200),
                Side::get("the same run", head, &path(options.runs / 2, more)),
            ];
            compare(&format!("{what}, clients: {clients}"), &mut sides, clients, options).await?;
        }
    }
    println!();
    Ok(())
}

/// Reports to this store beside an empty one.
async fn writes(head: &Server, options: &Options) -> anyhow::Result<()> {
    let values = Values::new(Kind::Float32, POOL)?;
    let empty = Server::head().await?;
    let each = number::float(number::count(REPORTED.points()));
    print_head_of("points/s", &["many runs", "empty"]);
    let mut sides = Vec::new();
    for (name, server) in [("many runs", head), ("empty", &empty)] {
        let requests = reporters(server, "bench", REPORTED, &values).await?;
        sides.push(Side::new(name, server, requests, 200).counted(each));
    }
    let clients = usize::try_from(CLIENTS)?;
    compare(&format!("100 points, columns, clients: {clients}"), &mut sides, clients, options).await?;
    println!();
    empty.stop().await;
    Ok(())
}

fn id(run: usize) -> String {
    format!("scale-{run:06}")
}

/// Makes the runs, many at a time.
async fn fill(head: &Server, runs: usize) -> anyhow::Result<Made> {
    let (values, next) = (Values::new(Kind::Float32, POOL)?, Arc::new(AtomicUsize::new(0)));
    let mut writers = JoinSet::new();
    for _ in 0..WRITERS {
        let (mut connection, values, next) = (head.connect().await?, Arc::clone(&values), Arc::clone(&next));
        writers.spawn(async move {
            let mut requests = 0;
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= runs {
                    return anyhow::Ok(requests);
                }
                let mut run = Run::begin(&mut connection, &id(i)).await?;
                let mut reports = run.reports(SHAPE, &values, number::size(i))?;
                run.report(&mut reports, REQUESTS).await?;
                requests += run.finish().await?;
            }
        });
    }
    let mut requests = 0;
    while let Some(writer) = writers.join_next().await {
        requests += writer??;
    }
    Ok(Made { requests, points: number::size(runs * SHAPE.points() * REQUESTS) })
}
