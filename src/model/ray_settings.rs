//! Ray's `RunSettings`, made from what is known of a run. What TrainHead has no counterpart of shows Ray's own default.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{RunRecord, Worker, ray_worker::RayResources};

/// The settings of a run, in Ray's shape.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayRunSettings<'a> {
    /// What the run was started with; objects below the third level are shown as `...`.
    #[serde(serialize_with = "sanitised")]
    #[schema(value_type = Object)]
    train_loop_config: Map<String, Value>,
    /// The framework.
    backend_config: RayBackendConfig,
    /// The size of the group.
    scaling_config: RayScalingConfig<'a>,
    /// Names of the data sets.
    datasets: Vec<&'a str>,
    /// How data sets are divided: Ray's defaults.
    data_config: RayDataConfig,
    /// Name, failures, checkpoints, storage.
    run_config: RayRunConfig<'a>,
}

/// The framework of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayBackendConfig {
    /// torch, jax, tensorflow, xgboost, lightgbm, or null if none of them is known to be in use.
    framework: Option<&'static str>,
    /// Always empty.
    #[schema(value_type = Object)]
    config: BTreeMap<String, String>,
}

/// The size of a group.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayScalingConfig<'a> {
    /// Workers of the newest attempt; before the first what the run was started with; 0 if that is not known.
    num_workers: i64,
    /// Whether workers have GPUs.
    use_gpu: bool,
    /// What a worker asked for; null if nothing is known.
    resources_per_worker: Option<RayResources<'a>>,
    /// Always `PACK`.
    placement_strategy: &'static str,
    /// Always null.
    accelerator_type: Option<&'a str>,
    /// Always false.
    use_tpu: bool,
    /// Always null.
    topology: Option<&'a str>,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    bundle_label_selector: Option<BTreeMap<String, String>>,
}

/// How data sets are divided.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayDataConfig {
    /// Always `all`.
    datasets_to_split: &'static str,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    execution_options: Option<BTreeMap<String, String>>,
    /// How they are read.
    data_execution_options: RayDataExecutionOptions,
    /// Always true.
    enable_shard_locality: bool,
}

/// How data sets are read.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayDataExecutionOptions {
    /// All of them.
    default: RayExecutionOptions,
    /// Always empty.
    #[schema(value_type = Object)]
    per_dataset_execution_options: BTreeMap<String, String>,
}

/// How a data set is read.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayExecutionOptions {
    /// Without limits.
    #[schema(value_type = Object)]
    resource_limits: BTreeMap<&'static str, &'static str>,
    /// Nothing.
    #[schema(value_type = Object)]
    exclude_resources: BTreeMap<&'static str, f64>,
    /// Always false.
    preserve_order: bool,
    /// Always true.
    actor_locality_enabled: bool,
    /// Always true.
    verbose_progress: bool,
}

/// Name, failures, checkpoints, storage.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct RayRunConfig<'a> {
    /// The run's name.
    name: &'a str,
    /// How many failures it may have.
    failure_config: RayFailureConfig,
    /// Always empty.
    #[schema(value_type = Object)]
    worker_runtime_env: BTreeMap<String, String>,
    /// Which checkpoints are kept: Ray's defaults.
    checkpoint_config: RayCheckpointConfig,
    /// The run's directory on the head's host.
    storage_path: &'a str,
    /// Always null.
    storage_filesystem: Option<&'a str>,
}

/// How many failures a run may have.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct RayFailureConfig {
    /// Of workers; -1 is unlimited.
    max_failures: i64,
    /// Of its controller: always -1, unlimited.
    controller_failure_limit: i64,
}

/// Which checkpoints are kept.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub(super) struct RayCheckpointConfig {
    /// Always null: all.
    num_to_keep: Option<i64>,
    /// Always null.
    checkpoint_score_attribute: Option<&'static str>,
    /// Always `max`.
    checkpoint_score_order: &'static str,
}

impl<'a> RayRunSettings<'a> {
    pub(super) fn of(record: &'a RunRecord, storage_path: &'a str) -> Self {
        let run = &record.run;
        Self {
            train_loop_config: run.settings.to_map(),
            backend_config: RayBackendConfig {
                framework: framework(&run.framework_versions),
                config: BTreeMap::new(),
            },
            scaling_config: RayScalingConfig::of(record),
            datasets: run.datasets.iter().map(|d| d.name.as_str()).collect(),
            data_config: RayDataConfig::ray_default(),
            run_config: RayRunConfig {
                name: &run.name,
                failure_config: RayFailureConfig {
                    max_failures: run.settings.get("max_failures").unwrap_or(0),
                    controller_failure_limit: -1,
                },
                worker_runtime_env: BTreeMap::new(),
                checkpoint_config: RayCheckpointConfig {
                    num_to_keep: None,
                    checkpoint_score_attribute: None,
                    checkpoint_score_order: "max",
                },
                storage_path,
                storage_filesystem: None,
            },
        }
    }
}

impl<'a> RayScalingConfig<'a> {
    fn of(record: &'a RunRecord) -> Self {
        let newest = record.newest_attempt();
        let workers = || newest.into_iter().flat_map(|a| a.workers.values());
        let has_gpu = |w: &Worker| {
            let asked = w.resources.get("GPU").and_then(Value::as_f64);
            !w.gpu_ids.is_empty() || asked.is_some_and(|n| n > 0.0)
        };
        let resources = workers().map(|w| &w.resources).find(|r| !r.is_empty());
        Self {
            num_workers: newest
                .map_or_else(|| record.run.settings.get("workers").unwrap_or(0), |a| a.num_workers.into()),
            use_gpu: workers().any(has_gpu),
            resources_per_worker: resources.map(|r| RayResources(Some(r))),
            placement_strategy: "PACK",
            accelerator_type: None,
            use_tpu: false,
            topology: None,
            bundle_label_selector: None,
        }
    }
}

impl RayDataConfig {
    fn ray_default() -> Self {
        const RESOURCES: [&str; 4] = ["CPU", "GPU", "object_store_memory", "memory"];
        Self {
            datasets_to_split: "all",
            execution_options: None,
            data_execution_options: RayDataExecutionOptions {
                default: RayExecutionOptions {
                    resource_limits: RESOURCES.map(|name| (name, "inf")).into(),
                    exclude_resources: RESOURCES.map(|name| (name, 0.0)).into(),
                    preserve_order: false,
                    actor_locality_enabled: true,
                    verbose_progress: true,
                },
                per_dataset_execution_options: BTreeMap::new(),
            },
            enable_shard_locality: true,
        }
    }
}

fn framework(versions: &BTreeMap<String, String>) -> Option<&'static str> {
    ["torch", "jax", "tensorflow", "xgboost", "lightgbm"]
        .into_iter()
        .find(|name| versions.contains_key(*name))
}

/// Ray's rules for what a user gave: three levels of objects. Its other rules are for values that JSON cannot hold.
fn sanitised<S: Serializer>(map: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(map.iter().map(|(key, value)| (key, Sanitised(value, 2))))
}

/// A value and how many levels of objects may still come.
struct Sanitised<'a>(&'a Value, u8);

impl Serialize for Sanitised<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(value, levels) = *self;
        match (value, levels.checked_sub(1)) {
            (Value::Object(_), None) => serializer.serialize_str("..."),
            (Value::Object(map), Some(left)) => {
                serializer.collect_map(map.iter().map(|(key, value)| (key, Sanitised(value, left))))
            }
            // Lists are not levels.
            (Value::Array(list), _) => serializer.collect_seq(list.iter().map(|v| Sanitised(v, levels))),
            (plain, _) => plain.serialize(serializer),
        }
    }
}
