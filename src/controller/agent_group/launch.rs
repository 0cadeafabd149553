//! What a group of processes is started with, and the environment of each rank.

use std::{collections::BTreeMap, net::TcpListener, path::PathBuf};

use crate::{
    controller::{agent::RankSpec, group::GroupSpec},
    model::ledger::GPU,
    state::DataDir,
};

/// What a group of processes runs.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables on top of our own environment.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Where logs and error files go.
    pub data_dir: DataDir,
    /// The log of a rank takes no more than this on the disk: its middle is left out. Any size if none.
    pub log_max_bytes: Option<u64>,
    /// The socket on which workers reach their session.
    pub session_socket: PathBuf,
    /// The trainhead program, which is started as the agent.
    pub agent: PathBuf,
    /// Host name, for the record.
    pub host: String,
    /// Whose the orphans of this process are.
    pub orphans: Orphans,
}

/// Whose the processes are that come home to this one when a killed agent leaves them behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// The run's: this process exists for it alone and is a subreaper, so that they can be ended.
    Ours,
    /// Perhaps somebody else's: a program that embeds the controller has children of its own, which are left alone.
    Unknown,
}

impl Launch {
    /// Where a rank's output goes.
    pub(super) fn log(&self, spec: &GroupSpec, rank: u32) -> PathBuf {
        self.data_dir.root().join(DataDir::log(&spec.run, spec.attempt, rank))
    }

    /// A port that is free now, for rank 0 to listen on. Another program could take it before rank 0 does, which then
    /// fails, is recognised and gets another one.
    pub(super) fn free_port() -> std::io::Result<u16> {
        Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
    }

    /// One worker each, with torchrun's environment and ours.
    pub(super) fn ranks(&self, spec: &GroupSpec, port: u16) -> std::io::Result<Vec<RankSpec>> {
        let Self { command, env, cwd, data_dir, session_socket, .. } = self;
        let (program, args) = match command.split_first() {
            Some((program, args)) => (PathBuf::from(program), args.to_vec()),
            None => (PathBuf::new(), Vec::new()),
        };
        let n = spec.num_workers;
        let set_threads = n > 1 && std::env::var_os("OMP_NUM_THREADS").is_none();
        let of_all: BTreeMap<String, String> = [
            ("NODE_RANK", "0".to_owned()),
            ("GROUP_RANK", "0".to_owned()),
            ("GROUP_WORLD_SIZE", "1".to_owned()),
            ("WORLD_SIZE", n.to_string()),
            ("LOCAL_WORLD_SIZE", n.to_string()),
            ("ROLE_NAME", "default".to_owned()),
            ("ROLE_WORLD_SIZE", n.to_string()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", port.to_string()),
            ("TORCHELASTIC_RUN_ID", spec.run.to_string()),
            ("TORCHELASTIC_RESTART_COUNT", spec.restart_count.to_string()),
            ("TORCHELASTIC_MAX_RESTARTS", spec.max_restarts.to_string()),
            // Rank 0 hosts the store itself: True without an agent's store hangs (see torch.distributed.elastic).
            ("TORCHELASTIC_USE_AGENT_STORE", "False".to_owned()),
            ("TRAINHEAD_SESSION", format!("unix:{}", session_socket.display())),
            ("TRAINHEAD_RUN_ID", spec.run.to_string()),
            ("TRAINHEAD_ATTEMPT", spec.attempt.to_string()),
            ("TRAINHEAD_GRACE_PERIOD", spec.grace.as_secs_f64().to_string()),
            // A log that is read while it is written.
            ("PYTHONUNBUFFERED", "1".to_owned()),
        ]
        .into_iter()
        .chain(set_threads.then(|| ("OMP_NUM_THREADS", "1".to_owned())))
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        // All in one directory: the first is enough to make it.
        if let Some(parent) = data_dir.error_file(&spec.run, spec.attempt, 0).parent() {
            std::fs::create_dir_all(parent)?;
        }
        Ok((0..n)
            .map(|rank| {
                let mut all = of_all.clone();
                for name in ["RANK", "LOCAL_RANK", "ROLE_RANK"] {
                    all.insert(name.to_owned(), rank.to_string());
                }
                let error_file = data_dir.error_file(&spec.run, spec.attempt, rank);
                all.insert("TORCHELASTIC_ERROR_FILE".to_owned(), error_file.display().to_string());
                let reserved = spec.reservation.iter().find(|bundle| bundle.world_rank == rank);
                if let Some(bundle) = reserved
                    && bundle.resources.contains_key(GPU)
                {
                    all.insert("CUDA_VISIBLE_DEVICES".to_owned(), bundle.gpu_ids.join(","));
                }
                all.extend(env.clone());
                RankSpec {
                    rank,
                    program: program.clone(),
                    args: args.clone(),
                    env: all,
                    // What the launcher itself is configured by is not the workers' business.
                    env_remove: vec!["TRAINHEAD_TOKEN".to_owned()],
                    cwd: cwd.clone(),
                    log_path: self.log(spec, rank),
                }
            })
            .collect())
    }
}
