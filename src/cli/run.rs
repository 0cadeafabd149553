//! `trainhead run`: a controller with local workers, and a head if there is none.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::warn;

use super::{
    display::Display,
    follow::{Follower, Now},
    head::{EmbeddedHead, Head, Port, Published, data_dir},
    options::{Global, Run},
};
use crate::{
    base::{RunId, SystemClock, Tasks, masking::mask_arguments},
    controller::{
        AgentGroup, ControllerHandle, ControllerOptions, FailurePolicy, Launch, Orphans, TrainController,
        TrainResult, default_stop_signal, process,
    },
    model::names::check_name,
    state::{DataDir, StateClient, processes},
};

/// A unix socket's path has at most 107 bytes.
const SOCKET_PATH: usize = 107;
/// How often a controller says that it lives, to its own head and to one elsewhere: a stop that is asked for arrives with
/// the answer.
const HEARTBEAT_HERE: Duration = Duration::from_millis(250);
const HEARTBEAT_ELSEWHERE: Duration = Duration::from_secs(1);

/// Runs a training program to its end; the exit code is the run's.
pub(super) async fn run(global: &Global, args: &Run) -> anyhow::Result<ExitCode> {
    for (option, name) in [("--name", &args.name), ("--experiment", &args.experiment)] {
        if let Some(name) = name
            && let Err(e) = check_name(option, name)
        {
            eprintln!("trainhead: {e}");
            return Ok(ExitCode::from(super::USAGE));
        }
    }
    // Before anything is started, so that no signal falls through.
    let mut signals = Signals::new()?;
    process::become_subreaper().context("this process cannot adopt what its agent leaves behind")?;
    let head = Head::find_or_embed(global, Port::Preferably(global.port), Published::Yes).await?;
    let data_dir = data_dir(global)?;
    let url = head.url().to_owned();
    let heartbeat = if matches!(head, Head::Embedded(_)) { HEARTBEAT_HERE } else { HEARTBEAT_ELSEWHERE };
    let (client, follower): (Arc<dyn StateClient>, _) = match head {
        Head::Named(http) => {
            if let Err(e) = http.check().await {
                warn!("{e}; training goes on, and the run is recorded when it answers");
            }
            (Arc::new(http), None)
        }
        Head::Serving(http) => follow(Follower::new(global, data_dir.clone(), Now::Elsewhere(http))),
        Head::Embedded(head) => follow(Follower::new(global, data_dir.clone(), Now::Here(head))),
    };
    let run_id = RunId::generate();
    let socket = socket_path(&data_dir, &run_id)?;
    let group = AgentGroup::new(launch(args, &data_dir, &socket)?);
    let options = options(args, &data_dir, run_id, socket.clone(), heartbeat)?;
    let controller = TrainController::new(options, client, group).context("the session's socket")?;
    let handle = controller.handle();
    let display_tasks = Tasks::new();
    let display = Display::start(global, args, &controller, &url, &data_dir, &display_tasks);
    let result = signals.pass_on(controller.run(), &handle).await;
    display_tasks.shutdown("the display", Duration::from_secs(2)).await;
    // Nobody connects any more.
    let _ = std::fs::remove_file(&socket);
    display.finish(&result);
    tell(global, args, &result)?;
    if !result.delivered {
        eprintln!(
            "trainhead: the head could not be reached, so that this run is not recorded to its end; its logs are in {}",
            result.storage_path.display()
        );
    }
    let embedded = match follower {
        Some(follower) => follower.leave().await,
        None => None,
    };
    if let Some(embedded) = embedded {
        linger(global, args, &embedded, &mut signals).await;
        embedded.shutdown().await;
    }
    Ok(ExitCode::from(result.exit_code))
}

fn follow(follower: Follower) -> (Arc<dyn StateClient>, Option<Follower>) {
    (Arc::new(follower.clone()), Some(follower))
}

fn launch(args: &Run, data_dir: &DataDir, socket: &Path) -> anyhow::Result<Launch> {
    Ok(Launch {
        command: args.command.clone(),
        env: args.env.iter().map(|pair| (pair.0.clone(), pair.1.clone())).collect(),
        cwd: match &args.cwd {
            Some(cwd) => std::path::absolute(cwd)?,
            None => std::env::current_dir().context("there is no current directory")?,
        },
        data_dir: data_dir.clone(),
        session_socket: socket.to_owned(),
        agent: std::env::current_exe().context("this program's own path")?,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        orphans: Orphans::Ours,
    })
}

fn options(
    args: &Run,
    data_dir: &DataDir,
    run_id: RunId,
    socket: PathBuf,
    heartbeat: Duration,
) -> anyhow::Result<ControllerOptions> {
    let settings = [
        // Masked here already: a head of another version may not.
        ("command", json!(mask_arguments(&args.command))),
        ("workers", json!(args.workers)),
        ("max_failures", json!(args.max_failures)),
        ("grace_period_s", json!(args.grace_period)),
    ];
    Ok(ControllerOptions {
        run_id,
        name: args.name.clone(),
        experiment: args.experiment.clone(),
        tags: args.tag.iter().map(|pair| (pair.0.clone(), pair.1.clone())).collect::<BTreeMap<_, _>>(),
        settings: settings
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<String, Value>>(),
        num_workers: args.workers,
        failures: FailurePolicy { max_failures: args.max_failures, ..FailurePolicy::default() },
        stop_signal: default_stop_signal(),
        grace: Duration::from_secs_f64(args.grace_period),
        lease_ttl: Duration::from_secs_f64(args.lease.max(5.0)),
        heartbeat,
        data_dir: data_dir.clone(),
        session_socket: Some(socket),
        process: Some(processes::identify(std::process::id()).context("/proc")?),
        clock: Arc::new(SystemClock::new()),
    })
}

/// In the run's own directory, or, where that is too deep for a socket, in a directory of its own that only we can enter.
fn socket_path(data_dir: &DataDir, run: &RunId) -> anyhow::Result<PathBuf> {
    let run_dir = data_dir.run_dir(run);
    std::fs::create_dir_all(&run_dir).with_context(|| format!("{} cannot be made", run_dir.display()))?;
    let path = run_dir.join("session.sock");
    if path.as_os_str().len() <= SOCKET_PATH {
        return Ok(path);
    }
    use std::os::unix::fs::DirBuilderExt;
    let short = std::env::temp_dir().join(format!("trainhead-{run}"));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&short)
        .with_context(|| format!("{} cannot be made", short.display()))?;
    Ok(short.join("s"))
}

fn tell(global: &Global, args: &Run, result: &TrainResult) -> anyhow::Result<()> {
    if let Some(path) = &args.result_file {
        std::fs::write(path, serde_json::to_vec_pretty(result)?)
            .with_context(|| format!("the result file {} cannot be written", path.display()))?;
    }
    if global.json {
        println!("{}", serde_json::to_string(result)?);
    }
    Ok(())
}

/// Stays up while other controllers use this head, or if the user asked for it.
async fn linger(global: &Global, args: &Run, head: &EmbeddedHead, signals: &mut Signals) {
    if args.linger {
        if !global.quiet {
            eprintln!("trainhead: the dashboard stays at {} until Ctrl-C", head.url);
        }
        signals.end().await;
        return;
    }
    let mut said = false;
    while let Ok(others @ 1..) = head.live_runs().await {
        if !std::mem::replace(&mut said, true) && !global.quiet {
            eprintln!(
                "trainhead: staying at {} for {others} other runs; Ctrl-C leaves them without a head",
                head.url
            );
        }
        tokio::select! {
            () = signals.end() => return,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
}

/// The signals that mean something to a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Passes signals on to a controller while it runs: once is a graceful stop, again is by force.
    async fn pass_on(
        &mut self,
        run: impl Future<Output = TrainResult>,
        handle: &ControllerHandle,
    ) -> TrainResult {
        tokio::pin!(run);
        let user =
            std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| "unknown".into());
        let mut asked = false;
        loop {
            let name = tokio::select! {
                result = &mut run => return result,
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.hangup.recv() => "SIGHUP",
                _ = self.user1.recv() => {
                    handle.signal(process::parse_signal("SIGUSR1").unwrap_or(10));
                    continue;
                }
                _ = self.user2.recv() => {
                    handle.signal(process::parse_signal("SIGUSR2").unwrap_or(12));
                    continue;
                }
            };
            if std::mem::replace(&mut asked, true) {
                handle.kill();
            } else {
                handle.stop(&format!("{user} ({name})"));
            }
        }
    }

    /// Waits for a signal to end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
