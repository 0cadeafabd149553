//! Validation by real programs and by closures: what is measured, what fails and why, and that nothing outlives its limit.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;
use trainhead::{
    base::RunId,
    controller::{Usable, ValidateBy, Validated, Validation},
};

use crate::stage::{LIMIT, MARK, STUBBORN, Stage, TRAINHEAD, eventually};

fn checkpoint(stage: &Stage) -> Usable {
    let path = stage.directory.path().join("checkpoint");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("weights"), "0.25").unwrap();
    Usable { number: 12, step: 400, attempt: 0, path: Some(path), metrics: BTreeMap::new() }
}

fn by(stage: &Stage, script: &str) -> Validation {
    let by = ValidateBy::Command {
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::from([(MARK.to_owned(), stage.mark.clone())]),
        cwd: stage.directory.path().to_owned(),
        log_dir: stage.directory.path().join("logs"),
        agent: PathBuf::from(TRAINHEAD),
        run_id: RunId::parse("the-run").unwrap(),
    };
    Validation { by, timeout: LIMIT, concurrency: 1 }
}

async fn validated(stage: &Stage, script: &str) -> Validated {
    by(stage, script).run(&checkpoint(stage), &CancellationToken::new()).await
}

fn metrics(expected: &[(&str, f64)]) -> Validated {
    Validated::Metrics(expected.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
}

#[tokio::test]
async fn a_program_finds_the_checkpoint_and_says_what_it_measured() {
    let stage = Stage::new("measures");
    let printed = "echo loading; echo \"{\\\"val\\\": {\\\"loss\\\": $(cat $TRAINHEAD_CHECKPOINT/weights)}}\"; echo done";
    assert_eq!(validated(&stage, printed).await, metrics(&[("val/loss", 0.25)]));
    let to_a_file = "echo '{\"a\": 1}'; echo \"{\\\"number\\\": $TRAINHEAD_CHECKPOINT_NUMBER,
        \\\"step\\\": $TRAINHEAD_CHECKPOINT_STEP}\" > $TRAINHEAD_METRICS_FILE; echo $TRAINHEAD_RUN_ID";
    assert_eq!(validated(&stage, to_a_file).await, metrics(&[("number", 12.0), ("step", 400.0)]));
    // Neither the file nor the log of the tries before counts.
    assert_eq!(validated(&stage, "true").await, metrics(&[]));
    let log = fs::read_to_string(stage.directory.path().join("logs/validate_12.log")).unwrap();
    assert!(log.starts_with("loading\n") && log.ends_with("the-run\n"), "{log}");
    assert_eq!(stage.marked(), [0u32; 0]);
}

#[tokio::test]
async fn what_fails_says_why() {
    let stage = Stage::new("fails");
    for (script, says) in [
        ("echo before; echo oops >&2; exit 3", vec!["exit code 3", "before | oops"]),
        ("kill -KILL $$", vec!["ended by SIGKILL"]),
        ("echo '{\"a\": \"best\"}'", vec!["metrics.a"]),
        ("echo nonsense > $TRAINHEAD_METRICS_FILE", vec!["not one JSON object"]),
    ] {
        let failed = validated(&stage, script).await;
        let Validated::Failed(why) = &failed else { panic!("{script}: {failed:?}") };
        assert!(says.iter().all(|part| why.contains(part)), "{script}: {why}");
    }
    let mut none = by(&stage, "true");
    if let ValidateBy::Command { command, .. } = &mut none.by {
        *command = vec!["no-such-program".to_owned()];
    }
    let failed = none.run(&checkpoint(&stage), &CancellationToken::new()).await;
    assert!(matches!(&failed, Validated::Failed(why) if why.contains("no program named")), "{failed:?}");
}

#[tokio::test]
async fn one_that_takes_too_long_is_ended_with_all_of_its_tree() {
    let stage = Stage::new("long");
    let validation = Validation { timeout: Duration::from_millis(500), ..by(&stage, STUBBORN) };
    let begun = Instant::now();
    assert_eq!(validation.run(&checkpoint(&stage), &CancellationToken::new()).await, Validated::TimedOut);
    assert!(begun.elapsed() < LIMIT, "{:?}", begun.elapsed());
    assert_eq!(stage.marked(), [0u32; 0]);
}

#[tokio::test]
async fn one_is_stopped_with_its_run() {
    let stage = Stage::new("stopped");
    let stop = CancellationToken::new();
    let validation = by(&stage, "echo there; exec sleep 1000");
    let (ended, ()) = tokio::join!(async { validation.run(&checkpoint(&stage), &stop).await }, async {
        let log = stage.directory.path().join("logs/validate_12.log");
        eventually("its log", || fs::read_to_string(&log).is_ok_and(|log| log == "there\n")).await;
        stop.cancel();
    });
    assert_eq!(ended, Validated::Stopped);
    assert_eq!(stage.marked(), [0u32; 0]);
    assert_eq!(
        validation.run(&checkpoint(&stage), &stop).await,
        Validated::Stopped,
        "nothing is begun any more"
    );
}

#[tokio::test]
async fn a_closure_measures_fails_panics_or_is_given_up() {
    let stage = Stage::new("closure");
    let run = async |validate: Arc<trainhead::controller::ValidateFn>, timeout| {
        let validation = Validation { by: ValidateBy::Closure(validate), timeout, concurrency: 1 };
        validation.run(&checkpoint(&stage), &CancellationToken::new()).await
    };
    let step =
        |c: &Usable| Ok(BTreeMap::from([("step".to_owned(), f64::from(u32::try_from(c.step).unwrap()))]));
    assert_eq!(run(Arc::new(step), LIMIT).await, metrics(&[("step", 400.0)]));
    assert_eq!(run(Arc::new(|_| Err("bad".into())), LIMIT).await, Validated::Failed("bad".into()));
    let failed = run(Arc::new(|_| panic!("boom")), LIMIT).await;
    assert!(matches!(&failed, Validated::Failed(why) if why.contains("panicked: boom")), "{failed:?}");
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let waits = move |_: &Usable| {
        let _ = held.lock().unwrap().recv();
        Ok(BTreeMap::new())
    };
    assert_eq!(run(Arc::new(waits), Duration::from_millis(20)).await, Validated::TimedOut);
    drop(hold);
}
