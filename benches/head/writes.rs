//! Registrations, acknowledged durable: beside a bare file and a table of documents, and with an empty store beside one
//! that holds many runs.

use std::{path::Path, time::Duration};

use crate::{
    Options,
    compare::{Side, compare, print_head},
    seed,
    server::Server,
};

const PATH: &str = "/api/train/runs";
const CLIENTS: [usize; 4] = [1, 16, 64, 256];

pub(crate) async fn registrations(store: &Path, options: &Options) -> anyhow::Result<()> {
    println!("## Registrations, acknowledged durable\n");
    let body = seed::registration("bench", Duration::from_secs(3600)).to_string().into_bytes();
    let answer = {
        let head = Server::head().await?;
        head.connect().await?.post(PATH, None, &body).await?.body
    };
    println!("a request of {} bytes of JSON, an answer of {}\n", body.len(), answer.len());
    print_head(&["head", "file", "SQLite"]);
    for clients in CLIENTS {
        // New servers for each number of clients, so that each begins with an empty store.
        let head = Server::head().await?;
        let peer = Server::peer(&[("answer", &answer)]).await?;
        let mut sides = [
            Side::post("head", &head, PATH, &body, 201),
            Side::post("file", &peer, "/file", &body, 201),
            Side::post("SQLite", &peer, "/sqlite", &body, 201),
        ];
        compare(&format!("clients: {clients}"), &mut sides, clients, options).await?;
        head.stop().await;
        peer.stop().await;
    }
    println!("\n## Registrations with a store of {} runs, beside an empty one\n", options.runs);
    print_head(&["many runs", "empty"]);
    for clients in CLIENTS {
        let (many, empty) = (Server::head_on_copy(store).await?, Server::head().await?);
        let mut sides =
            [Side::post("many runs", &many, PATH, &body, 201), Side::post("empty", &empty, PATH, &body, 201)];
        compare(&format!("clients: {clients}"), &mut sides, clients, options).await?;
        many.stop().await;
        empty.stop().await;
    }
    println!();
    Ok(())
}
