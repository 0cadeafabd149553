//! What a run is started with: from the options, or, for one that is resumed, from its record. The same is written into
//! the record, with secrets masked, so that it can be resumed.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::checkpointing::CheckpointSettings;
use crate::{
    base::{
        limits,
        masking::{MASK, mask_arguments, mask_document},
    },
    cli::options::{Preemption, Run, Workers},
    controller::{
        FailurePolicy, HealthPolicy, OnPreemption, ScalingPolicy, default_stop_signal, process::parse_signal,
        process::signal_name,
    },
    model::ledger::{CPU, GPU, Resources, check_resources},
    state::own_node,
};

/// What a run is started with. What is none is as the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Settings {
    pub(super) command: Vec<String>,
    pub(super) cwd: Option<PathBuf>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    workers: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_workers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources_per_worker: Option<Resources>,
    max_failures: i64,
    max_preemptions: i64,
    max_start_failures: i64,
    on_preemption: OnPreemption,
    grace_period_s: f64,
    stop_signal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hang_timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    early_exit_timeout_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log_max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) checkpoints: CheckpointSettings,
}

fn is_default(settings: &CheckpointSettings) -> bool {
    *settings == CheckpointSettings::default()
}

impl Settings {
    /// The settings of a new run.
    pub(super) fn new(args: &Run) -> anyhow::Result<Self> {
        let policy = FailurePolicy::default();
        let defaults = Self {
            workers: 1,
            max_failures: policy.max_failures,
            max_preemptions: policy.max_preemption_failures,
            max_start_failures: policy.controller_failure_limit,
            grace_period_s: limits::GRACE_DEFAULT.as_secs_f64(),
            stop_signal: signal_name(default_stop_signal()).into_owned(),
            cwd: Some(std::env::current_dir().context("there is no current directory")?),
            ..Self::default()
        };
        defaults.with(args)
    }

    /// Those of a run that is resumed, as far as the options do not say otherwise.
    pub(super) fn resumed(recorded: &Value, args: &Run) -> anyhow::Result<Self> {
        let recorded: Self = serde_json::from_value(recorded.clone())
            .context("the run's settings are not those of 'trainhead run'")?;
        let settings = recorded.with(args)?;
        if settings.command.is_empty() {
            bail!("the run has no command in its record; give it again after --");
        }
        if settings.command.iter().any(|argument| argument.contains(MASK)) {
            bail!("the run's command holds a secret, which is not recorded; give the command again after --");
        }
        if let Some((name, _)) = settings.env.iter().find(|(_, value)| value.contains(MASK)) {
            bail!("the value of {name} is a secret, which is not recorded; give --env {name}=… again");
        }
        Ok(settings)
    }

    fn with(mut self, args: &Run) -> anyhow::Result<Self> {
        if let Some(Workers { min, max }) = args.workers {
            self.workers = max;
            self.min_workers = (min < max).then_some(min);
        }
        if let Some(cwd) = &args.cwd {
            self.cwd = Some(std::path::absolute(cwd)?);
        }
        if !args.command.is_empty() {
            self.command = command(args);
        }
        self.env.extend(args.env.iter().map(|pair| (pair.0.clone(), pair.1.clone())));
        self.max_failures = args.max_failures.unwrap_or(self.max_failures);
        self.max_preemptions = args.max_preemptions.unwrap_or(self.max_preemptions);
        self.max_start_failures = args.max_start_failures.unwrap_or(self.max_start_failures);
        self.on_preemption = args.on_preemption.map_or(self.on_preemption, |what| match what {
            Preemption::Restart => OnPreemption::Restart,
            Preemption::Requeue => OnPreemption::Requeue,
        });
        self.grace_period_s = args.grace_period.unwrap_or(self.grace_period_s);
        if let Some(signal) = args.stop_signal {
            self.stop_signal = signal_name(signal).into_owned();
        }
        self.hang_timeout_s = args.hang_timeout.or(self.hang_timeout_s);
        self.early_exit_timeout_s = args.early_exit_timeout.or(self.early_exit_timeout_s);
        self.log_max_bytes = args.log_max_bytes.map(|bytes| bytes.0).or(self.log_max_bytes);
        self.checkpoints = self.checkpoints.with(&args.checkpoints)?;
        self.need(args)?;
        Ok(self)
    }

    /// What each worker needs of the ledger, if anything is to be counted.
    fn need(&mut self, args: &Run) -> anyhow::Result<()> {
        let mut each = self.resources_per_worker.take().unwrap_or_default();
        if let Some(n) = args.gpus_per_worker {
            each.insert(GPU.to_owned(), f64::from(n));
        }
        if let Some(n) = args.cpus_per_worker {
            each.insert(CPU.to_owned(), n);
        }
        for pair in &args.resource_per_worker {
            let amount = pair.1.parse().with_context(|| {
                format!("--resource-per-worker {}={}: {:?} is no number", pair.0, pair.1, pair.1)
            })?;
            each.insert(pair.0.clone(), amount);
        }
        // What follows the room there is has to count in something.
        if each.is_empty() && self.min_workers.is_some() {
            each.insert(CPU.to_owned(), 1.0);
        }
        check_resources("resources per worker", &each)?;
        self.resources_per_worker = Some(each).filter(|each| !each.is_empty());
        Ok(())
    }

    /// As it is recorded. Masked here already: a head of another version may not.
    pub(super) fn record(&self) -> Map<String, Value> {
        let masked = Self { command: mask_arguments(&self.command), ..self.clone() };
        let mut record = match serde_json::to_value(masked) {
            Ok(Value::Object(record)) => record,
            Ok(_) | Err(_) => Map::new(),
        };
        mask_document(&mut record);
        record
    }

    pub(super) fn scaling(&self) -> ScalingPolicy {
        ScalingPolicy {
            min_workers: self.min_workers.unwrap_or(self.workers),
            resources_per_worker: self.resources_per_worker.clone(),
            // Workers are started here and nowhere else.
            nodes: self.resources_per_worker.as_ref().map(|_| own_node()).into_iter().collect(),
            ..ScalingPolicy::fixed(self.workers)
        }
    }

    pub(super) fn failures(&self) -> FailurePolicy {
        FailurePolicy {
            max_failures: self.max_failures,
            controller_failure_limit: self.max_start_failures,
            max_preemption_failures: self.max_preemptions,
            on_preemption: self.on_preemption,
        }
    }

    pub(super) fn health(&self) -> HealthPolicy {
        HealthPolicy {
            hang_timeout: self.hang_timeout_s.map(Duration::from_secs_f64),
            early_exit_timeout: self.early_exit_timeout_s.map(Duration::from_secs_f64),
        }
    }

    pub(super) fn grace(&self) -> Duration {
        Duration::try_from_secs_f64(self.grace_period_s).unwrap_or_default()
    }

    pub(super) fn stop_signal(&self) -> i32 {
        parse_signal(&self.stop_signal).unwrap_or_else(default_stop_signal)
    }
}

/// The program and its arguments, with Python before it where torchrun would put it.
fn command(args: &Run) -> Vec<String> {
    let python = |more: &[&str]| {
        let python = ["python3", "-u"].iter().chain(more).map(|word| (*word).to_owned());
        python.chain(args.command.iter().cloned()).collect()
    };
    let is_script = args.command.first().is_some_and(|program| program.ends_with(".py"));
    if args.module {
        python(&["-m"])
    } else if is_script && !args.no_python {
        python(&[])
    } else {
        args.command.clone()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::options::{Cli, Command};

    fn run(line: &str) -> Run {
        let words = ["trainhead", "run"].into_iter().chain(line.split(' '));
        match Cli::try_parse_from(words).unwrap().command {
            Command::Run(run) => *run,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn torchrun_s_command_lines_mean_the_same() {
        let cases = [
            ("--standalone --nproc-per-node 2 train.py --epochs 3", "python3 -u train.py --epochs 3"),
            (
                "--nnodes 1 --nproc_per_node=2 --max_restarts=3 -m pkg.train -x 1",
                "python3 -u -m pkg.train -x 1",
            ),
            ("--nnodes 1:1 --no-python ./train.py a", "./train.py a"),
            ("--workers 2 -- python3 train.py --workers 9", "python3 train.py --workers 9"),
        ];
        for (line, command) in cases {
            let settings = Settings::new(&run(line)).unwrap();
            assert_eq!(settings.command.join(" "), command, "{line}");
        }
        let settings = Settings::new(&run("--nproc_per_node=2 --max_restarts=3 t.py")).unwrap();
        assert_eq!((settings.workers, settings.max_failures), (2, 3));
        assert!(Cli::try_parse_from(["trainhead", "run", "--nnodes", "2", "x"]).is_err());
    }

    #[test]
    fn a_run_is_resumed_with_what_it_was_started_with_where_nothing_else_is_said() {
        let first = Settings::new(&run(
            "--workers 1:3 --max-failures 2 --env A=1 --grace-period 5 --hang-timeout 60 -- python3 t.py --lr 0.1",
        ))
        .unwrap();
        let record = Value::Object(first.record());
        let again = Settings::resumed(&record, &run("--resume x")).unwrap();
        assert_eq!(again, first);
        let other = Settings::resumed(&record, &run("--resume x --max-failures 9 -- ./other")).unwrap();
        assert_eq!(other, Settings { max_failures: 9, command: vec!["./other".into()], ..first });
    }

    #[test]
    fn secrets_are_not_recorded_and_asked_for_again() {
        let first = Settings::new(&run("--env HF_TOKEN=hf_abcdefghij0123456789 -- t --api-key sk-123456789"))
            .unwrap();
        let record = Value::Object(first.record());
        let text = record.to_string();
        assert!(!text.contains("hf_abc") && !text.contains("sk-123"), "{text}");
        let refused = Settings::resumed(&record, &run("--resume x")).unwrap_err().to_string();
        assert!(refused.contains("give the command again"), "{refused}");
        let refused = Settings::resumed(&record, &run("--resume x -- t")).unwrap_err().to_string();
        assert!(refused.contains("--env HF_TOKEN="), "{refused}");
        assert!(Settings::resumed(&record, &run("--resume x --env HF_TOKEN=hf_b -- t")).is_ok());
    }

    #[test]
    fn only_what_is_asked_for_is_counted_but_room_has_to_count_in_something() {
        let needs = |line: &str| Settings::new(&run(line)).unwrap().resources_per_worker;
        assert_eq!(needs("--workers 4 x"), None);
        assert_eq!(needs("--workers 1:4 x"), Some([("CPU".to_owned(), 1.0)].into()));
        let asked = needs("--gpus-per-worker 2 --cpus-per-worker 0.5 --resource-per-worker licence=1 x");
        assert_eq!(
            asked,
            Some([("CPU".to_owned(), 0.5), ("GPU".to_owned(), 2.0), ("licence".to_owned(), 1.0)].into())
        );
    }
}
