//! `trainhead run`: a controller with local workers, and a head if there is none.

mod checkpointing;
mod settings;
mod signals;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::Value;
use tracing::warn;

use checkpointing::Place;
use settings::Settings;
use signals::Signals;

use super::{
    backup::quoted,
    display::Display,
    follow::{Follower, Now},
    head::{EmbeddedHead, Head, Port, Published, data_dir},
    notify,
    options::{Global, Run},
    show::find,
    terminal::say,
};
use crate::{
    base::{Clock, RunId, SystemClock, Tasks},
    controller::{AgentGroup, ControllerOptions, Launch, Orphans, TrainController, TrainResult, process},
    model::names::check_name,
    state::{DataDir, HttpState, StateClient, processes},
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
    let Subject { settings, run_id, name, experiment } = match subject(args, &url).await {
        Ok(subject) => subject,
        Err(e) => {
            head.leave().await;
            return Err(e);
        }
    };
    let notes = Tasks::new();
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
    let socket = socket_path(&data_dir, &run_id)?;
    let launch = launch(&settings, &data_dir, &socket)?;
    let place = Place {
        run_id: run_id.clone(),
        cwd: launch.cwd.clone(),
        env: launch.env.clone(),
        run_dir: data_dir.run_dir(&run_id),
        agent: launch.agent.clone(),
    };
    let group = AgentGroup::new(launch);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let options = ControllerOptions {
        name,
        experiment,
        // What it is called where it was queued, so that both can be found by either name.
        job_id: std::env::var("SLURM_JOB_ID").ok().filter(|job| !job.is_empty()),
        tags: args.tag.iter().map(|pair| (pair.0.clone(), pair.1.clone())).collect::<BTreeMap<_, _>>(),
        settings: settings.record(),
        scaling: settings.scaling(),
        failures: settings.failures(),
        health: settings.health(),
        checkpoints: settings.checkpoints.options(place),
        resume: args.resume.is_some(),
        callbacks: notify::callbacks(args, &clock, &notes)?,
        stop_signal: settings.stop_signal(),
        grace: settings.grace(),
        lease_ttl: Duration::from_secs_f64(args.lease.max(5.0)),
        heartbeat,
        // A head that was named may be on another host, or at least with another data directory.
        ships_logs: global.head.is_some(),
        session_socket: Some(socket.clone()),
        process: Some(processes::identify(std::process::id()).context("/proc")?),
        ..ControllerOptions::new(run_id, 1, data_dir.clone(), clock)
    };
    let controller = TrainController::new(options, client, group).context("the session's socket")?;
    let handle = controller.handle();
    let display_tasks = Tasks::new();
    let display = Display::start(global, args, &controller, &url, &data_dir, &display_tasks)
        .await
        .context("nothing can be shown")?;
    let result = signals.pass_on(controller.run(), &handle).await;
    display_tasks.shutdown("the display", Duration::from_secs(2)).await;
    notes.shutdown("the notes", Duration::from_secs(2)).await;
    // Nobody connects any more.
    let _ = std::fs::remove_file(&socket);
    display.finish(&result).await;
    tell(global, args, &result)?;
    if !result.delivered {
        say(&format!("trainhead: {}", undelivered(&result)));
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

fn launch(settings: &Settings, data_dir: &DataDir, socket: &Path) -> anyhow::Result<Launch> {
    Ok(Launch {
        command: settings.command.clone(),
        env: settings.env.clone(),
        cwd: settings.cwd.clone().unwrap_or_else(|| PathBuf::from("/")),
        data_dir: data_dir.clone(),
        log_max_bytes: settings.log_max_bytes,
        session_socket: socket.to_owned(),
        agent: std::env::current_exe().context("this program's own path")?,
        host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        orphans: Orphans::Ours,
    })
}

/// What the run is started with and what it is called.
struct Subject {
    settings: Settings,
    run_id: RunId,
    name: Option<String>,
    experiment: Option<String>,
}

/// A new run, or one that is resumed.
async fn subject(args: &Run, url: &str) -> anyhow::Result<Subject> {
    let Some(wanted) = &args.resume else {
        return Ok(Subject {
            settings: Settings::new(args)?,
            run_id: RunId::generate(),
            name: args.name.clone(),
            experiment: args.experiment.clone(),
        });
    };
    let run = find(&HttpState::new(url)?, wanted).await?;
    let word = |field: &str| run.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    if word("run_status") == "FINISHED" {
        bail!("{} has finished; there is nothing to resume", word("name"));
    }
    if run.get("end_time_ms").is_none_or(Value::is_null) {
        let name = word("name");
        bail!(
            "{name} has not ended; stop it first (trainhead abort {name}), or wait until its lease is over"
        );
    }
    let settings = Settings::resumed(run.get("settings").unwrap_or(&Value::Null), args)?;
    let experiment = run.get("experiment").and_then(Value::as_str).map(str::to_owned);
    Ok(Subject { settings, run_id: word("id").parse()?, name: Some(word("name")), experiment })
}

/// In the run's own directory, or, where that is too deep for a socket, in a directory of its own that only we can enter.
fn socket_path(data_dir: &DataDir, run: &RunId) -> anyhow::Result<PathBuf> {
    let run_dir = data_dir.run_dir(run);
    std::fs::create_dir_all(&run_dir).with_context(|| format!("{} cannot be made", run_dir.display()))?;
    // One for each controller: a run that is resumed may have one left of a controller that was killed.
    let path = run_dir.join(format!("session-{}.sock", std::process::id()));
    if path.as_os_str().len() <= SOCKET_PATH {
        return Ok(path);
    }
    use std::os::unix::fs::DirBuilderExt;
    let short = std::env::temp_dir().join(format!("trainhead-{run}-{}", std::process::id()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&short)
        .with_context(|| format!("{} cannot be made", short.display()))?;
    Ok(short.join("s"))
}

/// What to say of a run that the head does not have to its end.
fn undelivered(result: &TrainResult) -> String {
    if result.spools.is_empty() {
        return format!(
            "this run is not recorded to its end, since the head did not answer or did not take it; its logs are in {}",
            result.storage_path.display()
        );
    }
    let spools: Vec<String> = result.spools.iter().map(|dir| quoted(dir)).collect();
    let spools = spools.join(" ");
    format!(
        "the head did not answer, and what it lacks of this run is kept; deliver it with: trainhead sync {spools}"
    )
}

fn tell(global: &Global, args: &Run, result: &TrainResult) -> anyhow::Result<()> {
    if let Some(path) = &args.result_file {
        std::fs::write(path, serde_json::to_vec_pretty(result)?)
            .with_context(|| format!("the result file {} cannot be written", path.display()))?;
    }
    if global.json {
        // A reader that went away does not keep what follows from being done.
        let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string(result)?);
    }
    Ok(())
}

/// Stays up while other controllers use this head, or if the user asked for it.
async fn linger(global: &Global, args: &Run, head: &EmbeddedHead, signals: &mut Signals) {
    if args.linger {
        if !global.quiet {
            say(&format!("trainhead: the dashboard stays at {} until Ctrl-C", head.url));
        }
        signals.end().await;
        return;
    }
    let mut said = false;
    while let Ok(others @ 1..) = head.live_runs().await {
        if !std::mem::replace(&mut said, true) && !global.quiet {
            say(&format!(
                "trainhead: staying at {} for {others} other runs; Ctrl-C leaves them without a head",
                head.url
            ));
        }
        tokio::select! {
            () = signals.end() => return,
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
        }
    }
}
