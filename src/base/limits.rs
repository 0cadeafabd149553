//! Every documented limit of the API, in one place. Errors name them, the spec shows them.

use std::time::Duration;

/// Largest request body, bytes.
pub const BODY_BYTES: usize = 16 * 1024 * 1024;
/// Longest run, experiment or job name, characters.
pub const NAME_CHARS: usize = 256;
/// Longest id, bytes of `[A-Za-z0-9._-]`, not beginning with a dot.
pub const ID_BYTES: usize = 128;
/// Longest tag key, characters.
pub const TAG_KEY_CHARS: usize = 128;
/// Longest tag value, characters.
pub const TAG_VALUE_CHARS: usize = 5_000;
/// Most tags a run may have.
pub const TAGS: usize = 100;
/// Largest settings document, bytes of JSON.
pub const SETTINGS_BYTES: usize = 1024 * 1024;
/// Deepest settings document, levels.
pub const SETTINGS_DEPTH: usize = 32;
/// Longest `status_detail`, bytes; of a longer one the head and the tail are kept.
pub const STATUS_DETAIL_BYTES: usize = 16 * 1024;
/// Longest notes, bytes.
pub const NOTES_BYTES: usize = 64 * 1024;
/// Members of a run that are longer than this, bytes of JSON, are left out of lists and shown by the run alone.
pub const LISTED_BYTES: usize = 4 * 1024;
/// Most nodes that are kept in mind.
pub const NODES: usize = 10_000;
/// Most GPUs of a node.
pub const NODE_GPUS: usize = 1_024;
/// Most resources that a worker asks for or a node has.
pub const RESOURCES: usize = 100;
/// Most workers of one attempt.
pub const WORKERS: usize = 10_000;
/// Most processes that a list of a stop report names.
pub const STOP_REPORT_PIDS: usize = 10_000;
/// Longest address of a checkpoint, characters.
pub const URI_CHARS: usize = 4_096;
/// Most values that a checkpoint carries.
pub const CHECKPOINT_METRICS: usize = 1_000;
/// Most checkpoints of one run that are kept in mind; of those that were removed the oldest are forgotten.
pub const CHECKPOINTS: usize = 10_000;
/// Most metric keys of one run.
pub const METRIC_KEYS: usize = 20_000;
/// Longest metric key, bytes of printable UTF-8.
pub const METRIC_KEY_BYTES: usize = 512;
/// Deepest nesting of a report's metrics, levels.
pub const METRIC_DEPTH: usize = 32;
/// Most points one report request may carry.
pub const REPORT_POINTS: usize = 1_000_000;
/// Longest order of a list, characters: a metric's key and a word.
pub const SORT_CHARS: usize = 600;
/// Most metrics whose last values a list shows.
pub const LISTED_METRICS: usize = 64;
/// Longest text that is looked for in a log, characters.
pub const SEARCH_CHARS: usize = 1_000;
/// Most lines of a log that one search gives.
pub const LOG_MATCHES: u32 = 1_000;
/// Lines of a log that a search gives when the caller does not say.
pub const DEFAULT_LOG_MATCHES: u32 = 100;
/// Most streams of events at a time.
pub const STREAMS: usize = 5_000;
/// Most runs one heartbeat may name.
pub const HEARTBEAT_RUNS: usize = 10_000;
/// Longest token that is looked at; those that we make are much shorter.
pub const TOKEN_CHARS: usize = 256;
/// Most runs or events on a page.
pub const PAGE_SIZE: u32 = 1_000;
/// Runs or events on a page when the caller does not say.
pub const DEFAULT_PAGE_SIZE: u32 = 100;
/// Most points a series request may ask for.
pub const SERIES_POINTS: u32 = 1_000_000;
/// Most points of all keys that one answer about a run may be asked to hold.
pub const ANSWER_POINTS: usize = 4_000_000;
/// Most keys a series request may name.
pub const SERIES_KEYS: usize = 1_000;
/// Most runs that may be compared in one request.
pub const COMPARED_RUNS: usize = 1_000;
/// Points of a series when the caller does not say.
pub const DEFAULT_SERIES_POINTS: u32 = 1_000;

/// Shortest lease that a controller may ask for.
pub const LEASE_MIN: Duration = Duration::from_secs(5);
/// Lease when the controller does not say.
pub const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest lease that a controller may ask for.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);
/// Grace between the stop signal and SIGKILL when nobody says otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(30);
/// Longest grace.
pub const GRACE_MAX: Duration = Duration::from_secs(24 * 3600);
/// A clock difference above this is recorded and shown.
pub const CLOCK_SKEW: Duration = Duration::from_secs(5);
