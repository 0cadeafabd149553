//! From the start of the program to its first answer, what it needs of memory then and when it has nothing to do, and
//! how large it is.

use std::{fs, path::Path, time::Instant};

use crate::{
    Options,
    compare::spread,
    server::{Server, binary, copy},
    store::{REST, mib},
};

pub(crate) async fn measure(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## Start to first answer, and memory; the store's files are in the page cache\n");
    starts(store, &format!("{} runs", options.runs), options).await
}

/// Starts with a copy of this store, and with an empty one, in turn.
pub(crate) async fn starts(store: &Path, what: &str, options: &Options) -> anyhow::Result<()> {
    println!("| store | first answer, ms | resident then, MiB | bytes a run |\n|---|---|---|---|");
    let dir = tempfile::tempdir()?;
    let (empty, full) = (dir.path().join("empty"), dir.path().join("full"));
    copy(store, &full).await?;
    // The store is made by a start that does not count.
    Server::head_at(&empty).await?.end().await?;
    let (mut times, mut memory) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..options.rounds {
        for (at, data) in [&empty, &full].into_iter().enumerate() {
            let (head, took_ms) = start(data).await?;
            times[at].push(took_ms);
            memory[at].push(head.rss_mib()?);
            head.end().await?;
        }
    }
    let [empty, full] = &memory;
    let runs = f64::from(u32::try_from(options.runs)?);
    let each = full.iter().zip(empty).map(|(full, empty)| (full - empty) * 1024.0 * 1024.0 / runs).collect();
    let [empty_time, full_time] = times.map(|t| spread(t, 0));
    println!("| empty | {empty_time} | {} | |", spread(empty.clone(), 1));
    println!("| {what} | {full_time} | {} | {} |\n", spread(full.clone(), 1), spread(each, 0));
    Ok(())
}

/// What it needs before anybody has done anything with it.
pub(crate) async fn footprint(options: &Options) -> anyhow::Result<()> {
    println!("## Footprint\n");
    let (mut made, mut found, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        let (head, took_ms) = start(&data).await?;
        made.push(took_ms);
        head.end().await?;
        let (head, took_ms) = start(&data).await?;
        found.push(took_ms);
        head.quiet(REST).await?;
        idle.push(head.rss_mib()?);
        head.end().await?;
    }
    println!("| | |\n|---|---|");
    println!("| start to first answer, no store yet, ms | {} |", spread(made, 0));
    println!("| start to first answer, an empty store, ms | {} |", spread(found, 0));
    println!("| resident with nothing to do, MiB | {} |", spread(idle, 1));
    println!("| program, MiB | {:.1} |\n", mib(fs::metadata(binary())?.len()));
    Ok(())
}

/// A head that has answered, and after how many ms.
async fn start(data: &Path) -> anyhow::Result<(Server, f64)> {
    let begun = Instant::now();
    let head = Server::head_at(data).await?;
    let mut connection = head.connect().await?;
    connection.get("/api/train/runs?page_size=10").await?;
    Ok((head, begun.elapsed().as_secs_f64() * 1e3))
}
