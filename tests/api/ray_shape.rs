//! The shape of an answer of Ray, learnt from real ones, and what an answer of ours does not have of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// JSON that keeps the order of its keys, which is part of the shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool,
    Int,
    Float,
    Text,
    List(Vec<Json>),
    Map(Pairs),
}

type Pairs = Vec<(String, Json)>;

impl Json {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Float => "float",
            Self::Text => "text",
            Self::List(_) => "list",
            Self::Map(_) => "map",
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
                Ok(Json::Bool)
            }
            fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
                Ok(Json::Int)
            }
            fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
                Ok(Json::Int)
            }
            fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
                Ok(Json::Float)
            }
            fn visit_str<E>(self, _: &str) -> Result<Json, E> {
                Ok(Json::Text)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
                let mut out = Vec::new();
                while let Some(item) = list.next_element()? {
                    out.push(item);
                }
                Ok(Json::List(out))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut out = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    out.push(pair);
                }
                Ok(Json::Map(out))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

/// The keys of each object in their order, and the kinds of value that each place may hold. Places are written as
/// `train_runs[].workers[].pid`; a key of a free map is `*`.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    keys: BTreeMap<String, Vec<String>>,
    kinds: BTreeMap<String, BTreeSet<&'static str>>,
    /// Maps whose keys are the user's.
    free: &'static [&'static str],
}

/// What the answers that were recorded do not show, from the tables of ray-behaviour.md (1.2, 1.3).
type Table = &'static [(&'static str, &'static [&'static str])];

/// Objects in which anything may stand.
const OPAQUE: [&str; 5] =
    ["train_loop_config", "config", "per_dataset_execution_options", "worker_runtime_env", "runtime_env"];

const V2_FREE: &[&str] = &[
    "train_runs[].framework_versions",
    "train_runs[].run_settings.scaling_config.resources_per_worker",
    "train_runs[].run_settings.data_config.data_execution_options.default.resource_limits",
    "train_runs[].run_settings.data_config.data_execution_options.default.exclude_resources",
    "train_runs[].attempts[].resources[].resources",
    "train_runs[].attempts[].workers[].resources.resources",
    "train_runs[].job_details.metadata",
];
const V2_TABLE: Table = &[
    ("train_runs[].controller_log_file_path", &["null"]),
    ("train_runs[].run_settings.backend_config.framework", &["text"]),
    ("train_runs[].run_settings.datasets[]", &["text"]),
    ("train_runs[].attempts[].workers[].gpu_ids[]", &["int"]),
    ("train_runs[].attempts[].workers[].gpus[]", &["map"]),
    ("train_runs[].attempts[].workers[].gpus[].uuid", &["text"]),
    ("train_runs[].attempts[].workers[].gpus[].index", &["int"]),
    ("train_runs[].attempts[].workers[].gpus[].name", &["text"]),
    ("train_runs[].attempts[].workers[].gpus[].utilizationGpu", &["float", "null"]),
    ("train_runs[].attempts[].workers[].gpus[].memoryUsed", &["float"]),
    ("train_runs[].attempts[].workers[].gpus[].memoryTotal", &["float"]),
    ("train_runs[].attempts[].workers[].gpus[].processInfo", &["map"]),
    ("train_runs[].attempts[].workers[].gpus[].processInfo.pid", &["int"]),
    ("train_runs[].attempts[].workers[].gpus[].processInfo.gpuMemoryUsage", &["int"]),
    ("train_runs[].job_details.job_id", &["null"]),
    ("train_runs[].job_details.driver_info", &["null"]),
    ("train_runs[].job_details.end_time", &["null"]),
    ("train_runs[].job_details.metadata.*", &["text"]),
];

const V1_FREE: &[&str] =
    &["train_runs[].workers[].resources", "train_runs[].resources[]", "train_runs[].job_details.metadata"];
const V1_TABLE: Table = &[
    ("train_runs[].datasets[]", &["map"]),
    ("train_runs[].datasets[].name", &["text"]),
    ("train_runs[].datasets[].dataset_uuid", &["text"]),
    ("train_runs[].datasets[].dataset_name", &["text", "null"]),
    ("train_runs[].workers[].gpu_ids[]", &["int"]),
    ("train_runs[].workers[].gpus[]", &["map"]),
    ("train_runs[].workers[].gpus[].uuid", &["text"]),
    ("train_runs[].workers[].gpus[].index", &["int"]),
    ("train_runs[].workers[].gpus[].name", &["text"]),
    ("train_runs[].workers[].gpus[].utilizationGpu", &["float", "null"]),
    ("train_runs[].workers[].gpus[].memoryUsed", &["float"]),
    ("train_runs[].workers[].gpus[].memoryTotal", &["float"]),
    ("train_runs[].workers[].gpus[].processInfo", &["map"]),
    ("train_runs[].workers[].gpus[].processInfo.pid", &["int"]),
    ("train_runs[].workers[].gpus[].processInfo.gpuMemoryUsage", &["int"]),
    ("train_runs[].job_details.job_id", &["null"]),
    ("train_runs[].job_details.driver_info", &["null"]),
    ("train_runs[].job_details.end_time", &["null"]),
    ("train_runs[].job_details.metadata.*", &["text"]),
];

impl Shape {
    /// The shape of `/api/train/v2/runs/v1`.
    pub(crate) fn v2() -> Self {
        Self::of("v2_", V2_FREE, V2_TABLE)
    }

    /// The shape of `/api/train/v2/runs`.
    pub(crate) fn v1() -> Self {
        Self::of("v1", V1_FREE, V1_TABLE)
    }

    fn of(prefix: &str, free: &'static [&'static str], table: Table) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ray");
        let mut shape = Self { free, ..Self::default() };
        let mut read = 0;
        for file in std::fs::read_dir(dir).unwrap() {
            let file = file.unwrap();
            if file.file_name().to_str().unwrap().starts_with(prefix) {
                let answer: Json = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
                shape.learn("", &answer);
                read += 1;
            }
        }
        assert!(read >= 3, "there are answers to learn from");
        for (place, kinds) in table {
            // A place that no recorded answer has brings its key into the object around it, in the table's order.
            let (around, key) = place.rsplit_once('.').unwrap_or(("", place));
            if !key.ends_with("[]") && key != "*" && !shape.kinds.contains_key(*place) {
                shape.keys.entry(around.to_owned()).or_default().push(key.to_owned());
            }
            shape.kinds.entry((*place).to_owned()).or_default().extend(kinds.iter());
        }
        shape
    }

    fn learn(&mut self, place: &str, value: &Json) {
        self.kinds.entry(place.to_owned()).or_default().insert(value.kind());
        match value {
            Json::Map(_) if is_opaque(place) => {}
            Json::List(items) => items.iter().for_each(|item| self.learn(&format!("{place}[]"), item)),
            Json::Map(pairs) if self.free.contains(&place) => {
                pairs.iter().for_each(|(_, value)| self.learn(&inside(place, "*"), value));
            }
            Json::Map(pairs) => {
                let keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).collect();
                let known = self.keys.entry(place.to_owned()).or_insert_with(|| keys.clone());
                assert_eq!(*known, keys, "Ray writes {place} always with the same keys");
                pairs.iter().for_each(|(key, value)| self.learn(&inside(place, key), value));
            }
            _ => {}
        }
    }

    /// What is wrong with an answer; nothing if it has this shape.
    pub(crate) fn complaints(&self, answer: &Json) -> Vec<String> {
        let mut complaints = Vec::new();
        self.check("", answer, &mut complaints);
        complaints
    }

    fn check(&self, place: &str, value: &Json, complaints: &mut Vec<String>) {
        if !self.kinds.get(place).is_some_and(|kinds| kinds.contains(value.kind())) {
            complaints.push(format!("{place} is {}", value.kind()));
        }
        match value {
            Json::List(items) => {
                items.iter().for_each(|item| self.check(&format!("{place}[]"), item, complaints));
            }
            Json::Map(_) if is_opaque(place) => {}
            Json::Map(pairs) if self.free.contains(&place) => {
                pairs.iter().for_each(|(_, value)| self.check(&inside(place, "*"), value, complaints));
            }
            Json::Map(pairs) => {
                let keys: Vec<String> = pairs.iter().map(|(key, _)| key.clone()).collect();
                if self.keys.get(place) != Some(&keys) {
                    complaints.push(format!("{place} has the keys {keys:?}, not {:?}", self.keys.get(place)));
                }
                pairs.iter().for_each(|(key, value)| self.check(&inside(place, key), value, complaints));
            }
            _ => {}
        }
    }

    /// The objects that an answer must show at least once, so that nothing is checked by its absence.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Each way to spoil one field of an answer: gone, renamed, doubled, at another place, of a type that Ray has not.
    pub(crate) fn spoilt(&self, answer: &Json) -> Vec<Json> {
        self.spoil("", answer)
    }

    fn spoil(&self, place: &str, value: &Json) -> Vec<Json> {
        let with = |list: &[Json], i: usize, item| {
            let mut list = list.to_vec();
            list[i] = item;
            Json::List(list)
        };
        match value {
            Json::List(items) => (0..items.len())
                .flat_map(|i| {
                    let inner = self.spoil(&format!("{place}[]"), &items[i]);
                    inner.into_iter().map(move |item| with(items, i, item))
                })
                .collect(),
            Json::Map(pairs) if !self.free.contains(&place) && !is_opaque(place) => {
                let mut out = Vec::new();
                for (i, (key, value)) in pairs.iter().enumerate() {
                    let mut change = |change: &dyn Fn(&mut Pairs)| {
                        let mut pairs = pairs.clone();
                        change(&mut pairs);
                        out.push(Json::Map(pairs));
                    };
                    let foreign =
                        [Json::Bool, Json::Int, Json::Float, Json::Text, Json::Null, Json::List(vec![])]
                            .into_iter()
                            .filter(|json| !self.kinds[&inside(place, key)].contains(json.kind()));
                    change(&|pairs| drop(pairs.remove(i)));
                    change(&|pairs| pairs[i].0.push('s'));
                    change(&|pairs| pairs.insert(i, ("more".into(), Json::Null)));
                    if i > 0 {
                        change(&|pairs| pairs.swap(i - 1, i));
                    }
                    for json in foreign {
                        change(&|pairs| pairs[i].1 = json.clone());
                    }
                    for inner in self.spoil(&inside(place, key), value) {
                        change(&|pairs| pairs[i].1 = inner.clone());
                    }
                }
                out
            }
            _ => Vec::new(),
        }
    }
}

/// The places of all objects of an answer.
pub(crate) fn places(answer: &Json) -> BTreeSet<String> {
    fn walk(place: &str, value: &Json, out: &mut BTreeSet<String>) {
        match value {
            Json::List(items) => items.iter().for_each(|item| walk(&format!("{place}[]"), item, out)),
            Json::Map(pairs) => {
                out.insert(place.to_owned());
                pairs.iter().for_each(|(key, value)| walk(&inside(place, key), value, out));
            }
            _ => {}
        }
    }
    let mut out = BTreeSet::new();
    walk("", answer, &mut out);
    out
}

fn is_opaque(place: &str) -> bool {
    OPAQUE.contains(&place.rsplit_once('.').map_or(place, |(_, key)| key))
}

fn inside(place: &str, key: &str) -> String {
    if place.is_empty() { key.to_owned() } else { format!("{place}.{key}") }
}
