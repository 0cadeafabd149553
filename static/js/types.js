// The shapes that the head sends, as JSDoc types. Only tsc reads this file: no code here,
// and nothing imports it at run time. Fields that the dashboard does not use are left out.

/** @typedef {"STARTED" | "FINISHED" | "ERRORED" | "ABORTED"} RunStatus */
/** @typedef {"INITIALIZING" | "SCHEDULING" | "RUNNING" | "RESTARTING" | "RESIZING" | "FINISHED" | "ERRORED" | "ABORTED"} Phase */
/** @typedef {number | "NaN" | "Infinity" | "-Infinity"} WireNumber a float as JSON can carry it */

/**
 * @typedef {object} Exit
 * @property {number | null} code
 * @property {string | null} signal
 * @property {number} time_ms
 * @property {string | null} cause
 */

/**
 * @typedef {object} Worker
 * @property {string} actor_id
 * @property {number} world_rank
 * @property {number} local_rank
 * @property {number} node_rank
 * @property {string} node_id
 * @property {string} node_ip
 * @property {number | null} pid
 * @property {string[]} gpu_ids
 * @property {"ALIVE" | "DEAD"} status
 * @property {Exit | null} exit
 * @property {{ cpu_percent: number, rss_bytes: number } | null} [process_stats]
 * @property {Gpu[]} [gpus]
 */

/**
 * @typedef {object} Gpu
 * @property {number} index
 * @property {string} name
 * @property {number | null} utilization_percent
 * @property {number} memory_used_bytes
 * @property {number} memory_total_bytes
 */

/**
 * @typedef {object} ProcessEvidence
 * @property {"running" | "exited" | "unknown"} state
 * @property {number | null} pid
 * @property {string | null} host
 * @property {string | null} observed_by
 * @property {number | null} observed_at_ms
 */

/**
 * @typedef {object} ContactEvidence
 * @property {number} last_contact_ms
 * @property {number} lease_ttl_ms
 * @property {number | null} lease_expires_ms
 * @property {number | null} clock_skew_ms
 */

/**
 * @typedef {object} RankProgress
 * @property {number} rank
 * @property {number | null} last_step
 * @property {number | null} last_report_ms
 */

/**
 * @typedef {object} ProgressEvidence
 * @property {number | null} last_step
 * @property {number | null} last_report_ms
 * @property {number | null} last_advance_ms when the attempt that runs last made a step
 * @property {number | null} median_step_interval_ms
 * @property {boolean} stalled
 * @property {number | null} stalled_since_ms
 * @property {RankProgress[]} ranks
 */

/** @typedef {{ process: ProcessEvidence, contact: ContactEvidence, progress: ProgressEvidence }} Evidence */
/** @typedef {Pick<Worker, "world_rank" | "process_stats" | "gpus">} RankStats */
/** @typedef {{ evidence: Evidence, stats?: RankStats[], server_time_ms: number }} RunEvidence */

/**
 * @typedef {object} TrainRun a run as it stands in a list
 * @property {string} id
 * @property {string} name
 * @property {string | null} job_id
 * @property {string | null} experiment
 * @property {string} controller_actor_id
 * @property {"ALIVE" | "DEAD"} controller_actor_status
 * @property {string | null} controller_state
 * @property {RunStatus} run_status
 * @property {Phase} phase
 * @property {string | null} status_detail
 * @property {"controller" | "user" | "reconciler" | null} ended_by
 * @property {number} start_time_ms
 * @property {number | null} end_time_ms
 * @property {number | null} duration_ms
 * @property {number | null} noticed_at_ms
 * @property {number | null} stop_requested_at_ms
 * @property {number | null} [trashed_at_ms]
 * @property {number} num_attempts
 * @property {{ worker: number, controller: number, preemption: number }} num_failures
 * @property {Record<string, string>} tags
 * @property {Record<string, unknown> | null} settings null in a list if they are long
 * @property {string[]} omitted what is null because it is long
 * @property {string | null} notes
 * @property {{ name: string, dataset_name: string | null, dataset_uuid: string | null }[]} datasets
 * @property {Worker[]} [workers]
 * @property {Evidence} [evidence]
 * @property {Record<string, WireNumber>} [last_metrics]
 */

/**
 * @typedef {object} Attempt
 * @property {string} attempt_id
 * @property {number} ordinal
 * @property {"PENDING" | "RUNNING" | "FINISHED" | "ERRORED" | "ABORTED"} status
 * @property {string | null} end_reason
 * @property {string | null} status_detail
 * @property {number} start_time_ms
 * @property {number | null} end_time_ms
 * @property {string | null} [master_address]
 * @property {{ processes_ended: number[], forced: boolean, left: number[] } | null} [stop_report]
 * @property {Worker[]} workers
 */

/**
 * @typedef {object} FirstFailure
 * @property {number | null} rank
 * @property {number} attempt
 * @property {number | null} pid
 * @property {string | null} host
 * @property {number | null} exit_code
 * @property {string | null} signal
 * @property {string} message
 * @property {string[]} log_tail
 * @property {number} time_ms
 * @property {{ rank: number, exit_code: number | null, signal: string | null }[]} consequences
 */

/**
 * @typedef {object} RunExtras what only the answer for one run carries
 * @property {Record<string, unknown>} settings
 * @property {Record<string, unknown>} framework_versions
 * @property {Evidence} evidence
 * @property {Record<string, WireNumber>} last_metrics
 * @property {Attempt[]} attempts
 * @property {FirstFailure | null} first_failure
 * @property {number} server_time_ms
 */
/** @typedef {TrainRun & RunExtras} FullRun */

/** @typedef {Record<RunStatus, number>} Counts */

/**
 * @typedef {object} RunPage
 * @property {TrainRun[]} train_runs
 * @property {number} total_size
 * @property {string | null} next_page_token
 * @property {number} server_time_ms
 * @property {Counts} counts
 */

/**
 * @typedef {object} TrailEvent
 * @property {number} id
 * @property {string} run_id
 * @property {number} time_ms
 * @property {string} kind
 * @property {string | null} from
 * @property {string | null} to
 * @property {string} by
 * @property {string | null} reason
 * @property {number | null} attempt
 * @property {number | null} rank
 * @property {Record<string, unknown> | null} evidence
 */

/** @typedef {{ events: TrailEvent[], next_page_token: string | null }} TrailPage */

/**
 * What restarts threw away, in all and of each attempt that lost something.
 * @typedef {object} Lost
 * @property {number} steps steps that were done again
 * @property {number} ms how long they had taken
 * @property {{ attempt: number, steps: number, ms: number }[]} attempts
 */

/**
 * @typedef {object} Experiment
 * @property {string} name
 * @property {number} num_runs
 * @property {Counts} counts
 * @property {string | null} newest_run_id
 * @property {string | null} newest_run_name
 * @property {number | null} newest_start_time_ms
 */

/**
 * @typedef {object} Node
 * @property {string} node_id
 * @property {string} node_ip
 * @property {boolean} is_head
 * @property {Record<string, number>} capacity
 * @property {Record<string, number>} reserved
 * @property {Record<string, number>} free
 * @property {string[]} gpu_ids
 * @property {{ run_id: string, num_workers: number, resources: Record<string, number>, gpu_ids: string[] }[]} reservations
 * @property {{ run_id: string, attempt: number, world_rank: number, pid: number | null, gpu_ids: string[] }[]} workers
 * @property {{ cpu_count: number, cpu_model: string, cpu_percent: number, memory_total_bytes: number, memory_available_bytes: number, gpus: Gpu[] } | null} devices
 */
/** @typedef {{ nodes: Node[], server_time_ms: number }} NodeList */

/**
 * @typedef {object} MetricSummary
 * @property {string} key
 * @property {number} count
 * @property {WireNumber | null} last
 * @property {WireNumber | null} [min]
 * @property {WireNumber | null} [max]
 * @property {number} nan_count
 * @property {number | null} last_step
 */

/**
 * @typedef {object} WireSeries
 * @property {string} key
 * @property {"merged" | number} attempt
 * @property {number} rank
 * @property {number} count how many points stand behind it
 * @property {number[]} step
 * @property {number[]} time_ms
 * @property {WireNumber[]} value
 * @property {number[]} attempt_at
 */

/** @typedef {Pick<ProgressEvidence, "last_step" | "last_report_ms" | "last_advance_ms">} ProgressNews */
/** @typedef {TrainRun & { progress?: ProgressNews }} RunChange */

/**
 * @typedef {object} MetricTick
 * @property {string} run_id
 * @property {number | null} last_step
 * @property {number | null} last_advance_ms when the attempt that runs last made a step
 * @property {number} time_ms
 * @property {Record<string, WireNumber>} last_metrics
 * @property {number} points
 */

export {};
