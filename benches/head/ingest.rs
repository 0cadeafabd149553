//! Metrics over HTTP, acknowledged durable, beside a process that parses the same bodies and appends them to a file.

use std::{sync::Arc, time::Duration};

use anyhow::{bail, ensure};
use serde_json::Value;
use trainhead::base::number;

use crate::{
    Options,
    compare::{Side, compare, print_head_of, seconds},
    load::Requests,
    points::{Form, Kind, Reports, Shape, Values},
    seed,
    server::{Server, ticks_of},
    store::{REST, float},
};

/// Each reports for a run of its own.
pub(crate) const CLIENTS: u64 = 64;
const POOL: u32 = 65_536;
const SHAPES: [(&str, Shape); 7] = [
    ("10 points, columns, JSON", Shape { form: Form::Columns, keys: 10, steps: 1 }),
    ("100 points, columns, JSON", Shape { form: Form::Columns, keys: 10, steps: 10 }),
    ("1,000 points, columns, JSON", Shape { form: Form::Columns, keys: 10, steps: 100 }),
    ("10 points, reports, JSON", Shape { form: Form::Reports, keys: 10, steps: 1 }),
    ("10 points, columns, MessagePack", Shape { form: Form::Packed, keys: 10, steps: 1 }),
    ("100 points, columns, MessagePack", Shape { form: Form::Packed, keys: 10, steps: 10 }),
    ("1,000 points, columns, MessagePack", Shape { form: Form::Packed, keys: 10, steps: 100 }),
];
/// What goes on for long: the middle one, and the one that brings the most points.
const LONG: [usize; 2] = [1, 2];

/// What a head became while it took points.
struct Grown {
    what: String,
    /// Resident memory before, after the last window, and at rest, MiB.
    resident: [f64; 3],
    /// Processor time of all that it did, µs a point.
    cpu_us: f64,
    points: f64,
}

pub(crate) async fn measure(options: &Options) -> anyhow::Result<()> {
    println!("## Metrics, acknowledged durable: {CLIENTS} clients, a run each\n");
    let mut grown = Vec::new();
    print_head_of("points/s", &["head", "file"]);
    for (what, shape) in SHAPES {
        grown.push(beside_file(what, shape, options).await?);
    }
    println!("\nOne round, windows of {} s:\n", options.seconds.as_secs());
    print_head_of("points/s", &["head", "file"]);
    let long = Options { rounds: 1, window: options.seconds, ..options.clone() };
    for (what, shape) in LONG.map(|i| SHAPES[i]) {
        grown.push(beside_file(&format!("{what}, long"), shape, &long).await?);
    }
    println!(
        "\n| | points taken | resident before, after and at rest, MiB | CPU of all that the head did, µs a point |"
    );
    println!("|---|---|---|---|");
    for Grown { what, resident: [before, after, rest], cpu_us, points } in grown {
        println!("| {what} | {points:.0} | {before:.1}, {after:.1}, {rest:.1} | {cpu_us:.3} |");
    }
    println!();
    Ok(())
}

async fn beside_file(what: &str, shape: Shape, options: &Options) -> anyhow::Result<Grown> {
    let values = Values::new(Kind::Float32, POOL)?;
    let head = Server::head().await?;
    let mut reporters = reporters(&head, "bench", shape, &values).await?;
    let Some(Requests::Reports(first)) = reporters.first_mut() else { bail!("nobody reports") };
    let answer = head.connect().await?.answer(first.next()?).await?.body;
    let told: Value = serde_json::from_slice(&answer)?;
    ensure!(told["points"] == shape.points(), "a request of {} points gave {told}", shape.points());
    let peer = Server::peer(&[("answer", &answer)]).await?;
    // The same but for the path and the token, at which the peer does not look.
    let to_peer = |chance| {
        let reports = Reports::new(peer.address, "/reports", "none", shape, &values, chance)?;
        anyhow::Ok(Requests::Reports(Box::new(reports)))
    };
    let same = (0..CLIENTS).map(to_peer).collect::<anyhow::Result<_>>()?;

    let (before, ticks) = (head.rss_mib()?, ticks_of(head.pid));
    let each = number::float(number::count(shape.points()));
    let mut sides = [
        Side::new("head", &head, reporters, 200).counted(each),
        Side::new("file", &peer, same, 200).counted(each),
    ];
    compare(what, &mut sides, usize::try_from(CLIENTS)?, options).await?;
    let after = head.rss_mib()?;
    head.quiet(REST).await?;
    let cpu = seconds(ticks, ticks_of(head.pid));
    let [of_head, _] = sides;
    let taken: u64 = of_head.into_requests().iter().map(Requests::made).sum();
    let points = float(taken) * each;
    let resident = [before, after, head.rss_mib()?];
    head.stop().await;
    peer.stop().await;
    Ok(Grown { what: what.to_owned(), resident, cpu_us: cpu * 1e6 / points, points })
}

/// Runs to report for, one for each client.
pub(crate) async fn reporters(
    head: &Server,
    name: &str,
    shape: Shape,
    values: &Arc<Values>,
) -> anyhow::Result<Vec<Requests>> {
    let mut connection = head.connect().await?;
    let mut reporters = Vec::new();
    for i in 0..CLIENTS {
        let run = seed::Run::begin(&mut connection, &format!("{name}-{i}")).await?;
        reporters.push(Requests::Reports(Box::new(run.reports(shape, values, i)?)));
    }
    head.quiet(Duration::from_millis(100)).await?;
    Ok(reporters)
}
