//! What it costs a list that many runs live, none newly dead. Each live run has a process that the head watches: this
//! program's.

use std::path::Path;

use trainhead::state::processes::identify;

use crate::{
    Options,
    compare::{Side, compare, print_head},
    seed::{self, LIVE, Plan},
    server::Server,
};

const MANY: usize = 10_000;
/// Older than any run of the store.
const AGE_MS: u64 = 3 * 365 * 24 * 3600 * 1000;

pub(crate) async fn measure(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## {MANY} live runs, none newly dead, beside {LIVE}\n");
    let (many, few) = (with_more(store, MANY - LIVE).await?, with_more(store, 0).await?);
    print_head(&["many live", "few live"]);
    for (page_size, clients) in [(1, 1), (10, 1), (100, 1), (10, 16), (100, 16)] {
        let path = format!("/api/train/runs?page_size={page_size}");
        let mut sides = [Side::get("many live", &many, &path), Side::get("few live", &few, &path)];
        compare(&format!("page of {page_size}, clients: {clients}"), &mut sides, clients, options).await?;
    }
    println!();
    many.stop().await;
    few.stop().await;
    Ok(())
}

/// The store with as many runs more on both sides, of which `live` still run.
async fn with_more(store: &Path, live: usize) -> anyhow::Result<Server> {
    let head = Server::head_on_copy(store).await?;
    let newest_ms = seed::now_ms()? - AGE_MS;
    let process = Some(identify(std::process::id())?);
    seed::fill(&head, Plan { runs: MANY - LIVE, live, newest_ms, process }).await?;
    Ok(head)
}
