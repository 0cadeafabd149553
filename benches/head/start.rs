//! From the start of the program to its first answer, and what it needs of memory then.

use std::{path::Path, time::Instant};

use crate::{
    Options,
    compare::spread,
    server::{Server, copy},
};

pub(crate) async fn measure(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## Start to first answer, and memory; the store's files are in the page cache\n");
    println!("| store | first answer, ms | resident then, MiB | bytes a run |\n|---|---|---|---|");
    let dir = tempfile::tempdir()?;
    let (empty, full) = (dir.path().join("empty"), dir.path().join("full"));
    copy(store, &full).await?;
    // The store is made by a start that does not count.
    Server::head_at(&empty).await?.end().await?;
    let (mut times, mut memory) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..options.rounds {
        for (at, data) in [&empty, &full].into_iter().enumerate() {
            let begun = Instant::now();
            let head = Server::head_at(data).await?;
            let mut connection = head.connect().await?;
            connection.get("/api/train/runs?page_size=10").await?;
            times[at].push(begun.elapsed().as_secs_f64() * 1e3);
            memory[at].push(head.rss_mib()?);
            head.end().await?;
        }
    }
    let [empty, full] = &memory;
    let runs = f64::from(u32::try_from(options.runs)?);
    let each = full.iter().zip(empty).map(|(full, empty)| (full - empty) * 1024.0 * 1024.0 / runs).collect();
    let [empty_time, full_time] = times.map(|t| spread(t, 0));
    println!("| empty | {empty_time} | {} | |", spread(empty.clone(), 1));
    println!("| {} runs | {full_time} | {} | {} |\n", options.runs, spread(full.clone(), 1), spread(each, 0));
    Ok(())
}
