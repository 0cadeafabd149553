//! Finding the head, or being it.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context, bail};
use tokio::{net::TcpListener, time::Instant};
use tracing::{info, warn};

use super::options::{Global, Pair};
use crate::{
    base::Tasks,
    head::{
        AllowedHosts, Assets, HeadOptions, router, serve,
        webhooks::{self, WebhookOptions},
    },
    model::{
        EventKind, RunStatus,
        ledger::{GPU, Resources, check_resources},
    },
    state::{
        self, DataDir, HttpState, Include, ListQuery, StateHandle, StateOptions, StateTask,
        data_dir::{DataDirLock, HeadInfo},
    },
};

/// A directory that is held by somebody who does not answer is waited for this long.
const ANSWER: Duration = Duration::from_secs(10);

/// The head that a command uses.
pub(super) enum Head {
    /// One that was named by its address.
    Named(HttpState),
    /// The one that serves the data directory.
    Serving(HttpState),
    /// This process.
    Embedded(EmbeddedHead),
}

/// A head in this process.
pub(super) struct EmbeddedHead {
    pub(super) url: String,
    pub(super) state: StateHandle,
    task: StateTask,
    server: Tasks,
    webhooks: Tasks,
    data_dir: DataDir,
    published: Published,
}

/// Whether others that look for the head of the data directory find it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// They do.
    Yes,
    /// It answers one command and is gone.
    No,
}

/// Which port to listen on.
#[derive(Clone, Copy)]
pub(super) enum Port {
    /// This one, or fail.
    Exactly(u16),
    /// This one, or any.
    Preferably(u16),
}

/// The data directory in force.
pub(super) fn data_dir_path(global: &Global) -> anyhow::Result<std::path::PathBuf> {
    if let Some(path) = &global.data_dir {
        return Ok(path.clone());
    }
    let dirs = directories::ProjectDirs::from("", "", "trainhead");
    Ok(dirs.context("there is no home directory; say --data-dir")?.data_dir().to_owned())
}

/// Opens the data directory in force.
pub(super) fn data_dir(global: &Global) -> anyhow::Result<DataDir> {
    let path = data_dir_path(global)?;
    DataDir::open(&path)
        .with_context(|| format!("the data directory {} cannot be used; say --data-dir", path.display()))
}

/// The data directory in force, which must exist.
pub(super) fn existing_data_dir(global: &Global) -> anyhow::Result<DataDir> {
    let path = data_dir_path(global)?;
    DataDir::existing(&path)
        .with_context(|| format!("there is no data directory {}; say --data-dir", path.display()))
}

impl Head {
    /// The head of `--head`; else the one that holds the data directory; else our own.
    pub(super) async fn find_or_embed(
        global: &Global,
        port: Port,
        published: Published,
    ) -> anyhow::Result<Self> {
        if let Some(url) = &global.head {
            return Ok(Self::Named(another(global, HttpState::new(url)?)));
        }
        let data_dir = data_dir(global)?;
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(lock) = data_dir.try_lock()? {
                return Ok(Self::Embedded(
                    EmbeddedHead::start(global, data_dir, lock, port, published).await?,
                ));
            }
            if let Some(info) = data_dir.head_info() {
                let http = HttpState::new(&info.url)?;
                if http.check().await.is_ok() {
                    return Ok(Self::Serving(another(global, http)));
                }
            }
            if Instant::now() > deadline {
                bail!(
                    "{} is held by another process, but no head answers for it; end that process, or say --data-dir or --head",
                    data_dir.root().display()
                );
            }
            // Whoever holds the directory is starting, stopping or answering one command: nothing tells when that is
            // over, so look again.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// It is not needed any more.
    pub(super) async fn leave(self) {
        if let Self::Embedded(head) = self {
            head.shutdown().await;
        }
    }

    /// Its address.
    pub(super) fn url(&self) -> &str {
        match self {
            Self::Named(http) | Self::Serving(http) => http.url(),
            Self::Embedded(head) => &head.url,
        }
    }
}

impl EmbeddedHead {
    /// Opens the store and begins to answer.
    pub(super) async fn start(
        global: &Global,
        data_dir: DataDir,
        lock: DataDirLock,
        port: Port,
        published: Published,
    ) -> anyhow::Result<Self> {
        let address: IpAddr = match global.host.as_str() {
            "localhost" => IpAddr::from([127, 0, 0, 1]),
            host => host.parse().with_context(|| format!("--host {host:?} is not an address"))?,
        };
        if !address.is_loopback() {
            bail!(
                "--host {address} would let others in, and this version has no access tokens yet: listen on 127.0.0.1 \
                 and put an authenticating proxy or an ssh tunnel before it"
            );
        }
        let listener = listen(address, port).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let webhook_options = webhook_options(global, &url)?;
        let mut options = StateOptions::new(data_dir.clone(), lock);
        add_resources(&mut options.node.resources, &global.resource)?;
        let (state, task) = state::start(options).await.context("the store cannot be opened")?;
        let webhooks = Tasks::new();
        // A head for one command is gone before anything could be delivered; the next one that stays does it.
        if published == Published::Yes
            && let Err(e) = webhooks::start(&state, webhook_options, &webhooks).await
        {
            // It lets go of the directory, for whoever tries next.
            task.shutdown(Duration::from_secs(4)).await;
            return Err(e.into());
        }
        let server = Tasks::new();
        let stop = server.stopping();
        let router = router(HeadOptions {
            state: state.clone(),
            hosts: AllowedHosts::loopback_and(global.allow_host.iter().cloned().chain([address.to_string()])),
            base_path: global.base_path.clone(),
            assets: global.static_dir.clone().map_or(Assets::Embedded, Assets::Directory),
            stop: stop.clone(),
        });
        drop(server.spawn(async move {
            if let Err(e) = serve(listener, router, stop).await {
                warn!("the head does not answer any more: {e}");
            }
        }));
        let info = HeadInfo {
            url: url.clone(),
            pid: std::process::id(),
            started_ms: state.now(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        if published == Published::Yes {
            data_dir.set_head_info(&info).context("head.json cannot be written")?;
        }
        info!("TrainHead answers at {url}, its data is in {}", data_dir.root().display());
        Ok(Self { url, state, task, server, webhooks, data_dir, published })
    }

    /// How many runs live.
    pub(super) async fn live_runs(&self) -> anyhow::Result<u64> {
        let query = ListQuery { statuses: vec![RunStatus::Started], page_size: 1, ..ListQuery::default() };
        let list: serde_json::Value =
            serde_json::from_slice(&self.state.list(&query, &Include::default()).await?)?;
        Ok(list.get("total_size").and_then(serde_json::Value::as_u64).unwrap_or(0))
    }

    /// Stops in order: no new requests, what is in flight, the store.
    pub(super) async fn shutdown(self) {
        if self.published == Published::Yes {
            self.data_dir.clear_head_info();
        }
        tokio::join!(
            self.server.shutdown("the server", Duration::from_secs(6)),
            self.webhooks.shutdown("the webhooks", Duration::from_secs(6)),
        );
        self.task.shutdown(Duration::from_secs(4)).await;
    }
}

fn webhook_options(global: &Global, url: &str) -> anyhow::Result<WebhookOptions> {
    let secret = global.webhook_secret.as_ref().map(|secret| secret.expose().parse()).transpose();
    let mut kinds: Vec<EventKind> =
        global.webhook_events.iter().flat_map(|events| events.kinds()).copied().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut urls = global.webhook.clone();
    urls.sort_unstable();
    urls.dedup();
    Ok(WebhookOptions {
        urls,
        secret: secret.context("--webhook-secret cannot be used")?,
        kinds,
        give_up: Duration::from_secs_f64(global.webhook_give_up),
        server: Some(url.to_owned()),
    })
}

/// A head that is not ours goes by its own options.
fn another(global: &Global, http: HttpState) -> HttpState {
    for (said, option) in
        [(!global.webhook.is_empty(), "--webhook"), (!global.resource.is_empty(), "--resource")]
    {
        if said {
            warn!("{option} is without effect here: it belongs to the head at {}", http.url());
        }
    }
    http
}

/// What the user says that this host has for workers.
fn add_resources(resources: &mut Resources, said: &[Pair<'='>]) -> anyhow::Result<()> {
    for Pair(name, amount) in said {
        if name == GPU {
            bail!("--resource {name}={amount}: GPUs are found by themselves and not counted here");
        }
        let number =
            amount.parse().with_context(|| format!("--resource {name}={amount}: {amount:?} is no number"))?;
        resources.insert(name.clone(), number);
    }
    check_resources("--resource", resources)?;
    Ok(())
}

async fn listen(address: IpAddr, port: Port) -> anyhow::Result<TcpListener> {
    let (Port::Exactly(number) | Port::Preferably(number)) = port;
    match (TcpListener::bind((address, number)).await, port) {
        (Ok(listener), _) => Ok(listener),
        (Err(e), Port::Preferably(_)) if e.kind() == std::io::ErrorKind::AddrInUse => {
            Ok(TcpListener::bind((address, 0)).await?)
        }
        (Err(e), _) => Err(e)
            .with_context(|| format!("port {number} cannot be listened on; say --port 0 for a free one")),
    }
}
