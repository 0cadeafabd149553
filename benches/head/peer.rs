//! The raw limit, in a process like the head's: the same runtime, the same accept loop, the same shape of actor, and
//! nothing but what cannot be left out.
//!
//! - `POST /file`: the body, parsed like a registration, appended to a file with all others that wait, one fdatasync.
//! - `POST /reports`: the same of metrics, parsed like those.
//! - `POST /sqlite`: the same into a table of documents, one statement for all that wait, WAL and synchronous=FULL.
//! - `GET /fixed/NAME`: bytes that were there at the start.
//! - `GET /stream`: whatever is said to `POST /say`, as it is, through one bounded channel.

use std::{
    collections::HashMap,
    convert::Infallible,
    fs,
    io::{self, Write},
    net::Ipv4Addr,
    path::Path,
    sync::Arc,
    thread,
};

use anyhow::Context;
use axum::{
    Router,
    body::Body,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use bytes::Bytes;
use futures_util::stream;
use sqlx::{
    ConnectOptions, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    net::TcpListener,
    sync::{broadcast, mpsc, oneshot},
};
use trainhead::{
    base::{RunId, Tasks},
    head::serve as serve_router,
    model::{commands::RegisterRun, metrics::ReportBatch},
};

/// As the head's.
const MAILBOX: usize = 8192;
const GROUP: usize = 1024;

/// A document to be written, and who waits for it.
struct Document {
    id: RunId,
    body: Bytes,
    done: oneshot::Sender<()>,
}

#[derive(Clone)]
struct Peer {
    answers: Arc<HashMap<String, Bytes>>,
    file: mpsc::Sender<Document>,
    sqlite: mpsc::Sender<Document>,
    said: broadcast::Sender<Bytes>,
}

/// Serves until stdin ends, which is when the bench is gone.
pub(crate) fn serve(dir: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut answers = HashMap::new();
        for entry in fs::read_dir(dir.join("answers"))? {
            let entry = entry?;
            answers.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?.into());
        }
        let tasks = Tasks::new();
        let (file, documents) = mpsc::channel(MAILBOX);
        let mut out = fs::File::create_new(dir.join("file"))?;
        let writer = thread::Builder::new().name("file".into());
        let _ = writer.spawn(move || write_file(&mut out, documents))?;
        let (sqlite, documents) = mpsc::channel(MAILBOX);
        drop(tasks.spawn(write_sqlite(open(&dir.join("sqlite")).await?, documents)));
        let router = Router::new()
            .route("/file", post(to_file))
            .route("/reports", post(reports))
            .route("/sqlite", post(to_sqlite))
            .route("/fixed/{name}", get(fixed))
            .route("/say", post(say))
            .route("/stream", get(follow))
            .with_state(Peer {
                answers: Arc::new(answers),
                file,
                sqlite,
                said: broadcast::Sender::new(MAILBOX),
            });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        println!("the peer is at http://{}", listener.local_addr()?);
        drop(tasks.spawn(serve_router(listener, router, tasks.stopping())));
        let stop = tasks.stopping();
        let _ = thread::Builder::new().name("stdin".into()).spawn(move || {
            // However it ends.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            tasks.stop();
        })?;
        stop.cancelled().await;
        Ok(())
    })
}

async fn fixed(State(peer): State<Peer>, UrlPath(name): UrlPath<String>) -> Response {
    match peer.answers.get(&name) {
        Some(body) => json(StatusCode::OK, body.clone()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn say(State(peer): State<Peer>, body: Bytes) -> Response {
    // Nobody listening is fine.
    let _ = peer.said.send(body);
    json(StatusCode::OK, Bytes::new())
}

async fn follow(State(peer): State<Peer>) -> Response {
    let hello = Some(Bytes::from_static(b"event: hello\ndata: {}\n\n"));
    let body = stream::unfold((hello, peer.said.subscribe()), |(hello, mut next)| async move {
        let bytes = match hello {
            Some(hello) => hello,
            None => next.recv().await.ok()?,
        };
        Some((Ok::<_, Infallible>(bytes), (None, next)))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

async fn to_file(State(peer): State<Peer>, body: Bytes) -> Response {
    register(&peer, &peer.file, body).await
}

async fn to_sqlite(State(peer): State<Peer>, body: Bytes) -> Response {
    register(&peer, &peer.sqlite, body).await
}

async fn register(peer: &Peer, to: &mpsc::Sender<Document>, body: Bytes) -> Response {
    if serde_json::from_slice::<RegisterRun>(&body).is_err() {
        return StatusCode::BAD_REQUEST.into_response();
    }
    write(peer, to, body, StatusCode::CREATED).await
}

async fn reports(State(peer): State<Peer>, headers: HeaderMap, body: Bytes) -> Response {
    let packed = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/msgpack");
    let parsed = if packed {
        rmp_serde::from_slice::<ReportBatch>(&body).is_ok()
    } else {
        serde_json::from_slice::<ReportBatch>(&body).is_ok()
    };
    if !parsed {
        return StatusCode::BAD_REQUEST.into_response();
    }
    write(&peer, &peer.file, body, StatusCode::OK).await
}

async fn write(peer: &Peer, to: &mpsc::Sender<Document>, body: Bytes, status: StatusCode) -> Response {
    let (done, written) = oneshot::channel();
    if to.try_send(Document { id: RunId::generate(), body, done }).is_err() || written.await.is_err() {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match peer.answers.get("answer") {
        Some(answer) => json(status, answer.clone()),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn json(status: StatusCode, body: Bytes) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn write_file(out: &mut fs::File, mut documents: mpsc::Receiver<Document>) -> anyhow::Result<()> {
    let (mut group, mut bytes) = (Vec::with_capacity(GROUP), Vec::new());
    while documents.blocking_recv_many(&mut group, GROUP) > 0 {
        bytes.clear();
        for document in &group {
            bytes.extend_from_slice(&document.body);
        }
        out.write_all(&bytes)?;
        out.sync_data()?;
        for document in group.drain(..) {
            // A client that is gone needs no answer.
            let _ = document.done.send(());
        }
    }
    Ok(())
}

async fn open(path: &Path) -> anyhow::Result<SqliteConnection> {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .disable_statement_logging()
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", "8000")
        .connect()
        .await?;
    sqlx::query("create table documents (id text not null primary key, body blob not null) strict")
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

/// One statement a group: places in one blob of all bodies, so that no body is quoted or parsed.
async fn write_sqlite(
    mut connection: SqliteConnection,
    mut documents: mpsc::Receiver<Document>,
) -> anyhow::Result<()> {
    let mut group = Vec::with_capacity(GROUP);
    while documents.recv_many(&mut group, GROUP).await > 0 {
        let (mut rows, mut bytes) = (Vec::with_capacity(group.len()), Vec::new());
        for document in &group {
            rows.push((&document.id, bytes.len() + 1, document.body.len()));
            bytes.extend_from_slice(&document.body);
        }
        sqlx::query(
            "insert into documents (id, body)
            select value->>0, substr($2, value->>1, value->>2)
            from json_each($1)",
        )
        .bind(serde_json::to_string(&rows).context("rows")?)
        .bind(bytes)
        .execute(&mut connection)
        .await?;
        for document in group.drain(..) {
            let _ = document.done.send(());
        }
    }
    Ok(())
}
