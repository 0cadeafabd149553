//! Measures what `host` describes: CPUs, memory, processes and GPUs of this host.
//!
//! Everything here blocks (it reads `/proc` and asks the GPU driver), so async callers go through `spawn_blocking`. What
//! was measured serves for a second, so that an answer under load does not read `/proc` for each request.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fmt,
    sync::OnceLock,
    time::{Duration, Instant},
};

use nvml_wrapper::{Device, Nvml, enums::device::UsedGpuMemory};
use parking_lot::Mutex;
use rustix::thread::sched_getaffinity;
use sysinfo::{CpuRefreshKind, Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::{
    host::{GpuProcess, GpuStats, HostDevices, ProcessStats, WorkerStats},
    number::{count, float},
};

/// What was measured serves this long.
const FRESH: Duration = Duration::from_secs(1);
/// A process that nobody asked for this long is forgotten.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The name that is there on a host with a driver; the one without a number comes with the development files only.
const NVML: &str = "libnvidia-ml.so.1";

/// Measures this host and its processes. Making one is cheap: nothing is looked at before somebody asks.
#[derive(Default)]
pub struct HostSampler {
    nvml: OnceLock<Option<Nvml>>,
    seen: Mutex<Seen>,
}

/// What was seen last.
#[derive(Default)]
struct Seen {
    host: Option<System>,
    processes: Option<System>,
    devices: Option<(Instant, HostDevices)>,
    gpus: Option<(Instant, Vec<GpuStats>)>,
    workers: HashMap<u32, SeenProcess>,
}

/// A process at the last look.
#[derive(Clone, Copy, Debug)]
struct SeenProcess {
    asked_at: Instant,
    looked_at: Instant,
    /// Seconds since the UNIX epoch, to tell a process from its successor of the same pid.
    started: u64,
    /// CPU time of its whole life, ms.
    cpu_ms: u64,
    /// None if there is no such process.
    stats: Option<ProcessStats>,
}

impl HostSampler {
    /// A sampler that has not looked at anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The host's devices and how busy they are, at most a second old. Blocks. The CPUs' first look has nothing to
    /// compare with and says 0.
    #[must_use]
    pub fn devices(&self) -> HostDevices {
        let mut seen = self.seen.lock();
        let gpus = self.gpus(&mut seen);
        match &seen.devices {
            Some((at, devices)) if at.elapsed() < FRESH => HostDevices { gpus, ..devices.clone() },
            _ => {
                let devices = HostDevices { gpus, ..look_at_host(&mut seen.host) };
                seen.devices = Some((Instant::now(), devices.clone()));
                devices
            }
        }
    }

    /// What the process `pid` uses, at most a second old. Blocks.
    #[must_use]
    pub fn worker(&self, pid: u32) -> WorkerStats {
        self.workers(&[pid]).pop().unwrap_or_default()
    }

    /// What each of these processes uses, in their order, at most a second old. Blocks.
    #[must_use]
    pub fn workers(&self, pids: &[u32]) -> Vec<WorkerStats> {
        let mut seen = self.seen.lock();
        let gpus = self.gpus(&mut seen);
        seen.look_at(pids);
        pids.iter()
            .map(|pid| {
                let uses = |gpu: &&GpuStats| gpu.processes.iter().any(|process| process.pid == *pid);
                WorkerStats {
                    process_stats: seen.workers.get(pid).and_then(|worker| worker.stats),
                    gpus: gpus.iter().filter(uses).cloned().collect(),
                }
            })
            .collect()
    }

    fn gpus(&self, seen: &mut Seen) -> Vec<GpuStats> {
        // No driver is the usual case on a laptop and no error.
        let nvml = self
            .nvml
            .get_or_init(|| Nvml::builder().lib_path(OsStr::new(NVML)).init().or_else(|_| Nvml::init()).ok());
        let Some(nvml) = nvml else { return Vec::new() };
        match &seen.gpus {
            Some((at, gpus)) if at.elapsed() < FRESH => gpus.clone(),
            _ => {
                let count = nvml.device_count().unwrap_or(0);
                let gpus: Vec<GpuStats> = (0..count).filter_map(|index| look_at_gpu(nvml, index)).collect();
                seen.gpus = Some((Instant::now(), gpus.clone()));
                gpus
            }
        }
    }
}

impl fmt::Debug for HostSampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSampler").finish_non_exhaustive()
    }
}

impl Seen {
    /// Looks at those of the processes that were not looked at just now, and forgets those that nobody asks for.
    fn look_at(&mut self, pids: &[u32]) {
        let now = Instant::now();
        let mut due = Vec::new();
        for pid in pids {
            match self.workers.get_mut(pid) {
                Some(known) => {
                    known.asked_at = now;
                    if now.duration_since(known.looked_at) >= FRESH {
                        due.push(Pid::from_u32(*pid));
                    }
                }
                None => due.push(Pid::from_u32(*pid)),
            }
        }
        if due.is_empty() {
            return;
        }
        let known = self.workers.len();
        self.workers.retain(|_, worker| now.duration_since(worker.asked_at) < REMEMBERED);
        if self.workers.len() < known {
            // `System` has no way to forget a process; ours is derived and can be made anew.
            self.processes = None;
        }
        if self.processes.is_none() {
            self.processes = System::new().ok();
        }
        let Some(system) = &mut self.processes else { return };
        let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&due), true, kind);
        for pid in due {
            let before = self.workers.get(&pid.as_u32()).copied();
            let process = system.process(pid).filter(|p| p.status() != ProcessStatus::Zombie);
            let cpu_ms = process.map_or(0, sysinfo::Process::accumulated_cpu_time);
            let started = process.map_or(0, sysinfo::Process::start_time);
            // Not sysinfo's own percentage, which is right only if every process is looked at each time.
            let cpu_percent = before
                .filter(|before| before.started == started)
                .map_or(0.0, |before| percent(cpu_ms, before.cpu_ms, now.duration_since(before.looked_at)));
            let stats = process.map(|process| ProcessStats {
                cpu_percent,
                rss_bytes: process.memory(),
                vms_bytes: process.virtual_memory(),
            });
            let worker = SeenProcess { asked_at: now, looked_at: now, started, cpu_ms, stats };
            self.workers.insert(pid.as_u32(), worker);
        }
    }
}

/// CPU time between two looks, in percent of one core.
fn percent(cpu_ms: u64, before_ms: u64, between: Duration) -> f64 {
    let used = i64::try_from(cpu_ms.saturating_sub(before_ms)).unwrap_or(i64::MAX);
    let passed = between.as_secs_f64() * 1000.0;
    if passed > 0.0 { 100.0 * float(used) / passed } else { 0.0 }
}

/// The host without its GPUs.
fn look_at_host(host: &mut Option<System>) -> HostDevices {
    if host.is_none() {
        *host = System::new().ok();
    }
    let mut devices = HostDevices {
        cpu_count: std::thread::available_parallelism()
            .ok()
            .and_then(|n| u32::try_from(n.get()).ok())
            .unwrap_or(1),
        cpu_model: String::new(),
        cpu_percent: 0.0,
        memory_total_bytes: 0,
        memory_available_bytes: 0,
        gpus: Vec::new(),
    };
    let Some(system) = host else { return devices };
    system.refresh_memory();
    system.refresh_cpu_specifics(CpuRefreshKind::nothing().with_usage());
    devices.memory_total_bytes = system.total_memory();
    devices.memory_available_bytes = system.available_memory();
    devices.cpu_model = system.cpus().first().map(|cpu| cpu.brand().trim().to_owned()).unwrap_or_default();
    // Only those that we may use: on a shared host the others say nothing of us.
    let affinity = sched_getaffinity(None).ok();
    let ours = |cpu: &&sysinfo::Cpu| {
        let index = cpu.name().strip_prefix("cpu").and_then(|n| n.parse::<usize>().ok());
        affinity.as_ref().zip(index).is_none_or(|(set, index)| set.is_set(index))
    };
    let busy: Vec<f64> = system.cpus().iter().filter(ours).map(|cpu| f64::from(cpu.usage())).collect();
    if !busy.is_empty() {
        devices.cpu_percent = busy.iter().sum::<f64>() / float(count(busy.len()));
    }
    devices
}

/// One GPU; none if it fell off the bus.
fn look_at_gpu(nvml: &Nvml, index: u32) -> Option<GpuStats> {
    let device = nvml.device_by_index(index).ok()?;
    let memory = device.memory_info().ok();
    Some(GpuStats {
        index,
        uuid: device.uuid().ok()?,
        name: device.name().unwrap_or_default(),
        utilization_percent: device.utilization_rates().ok().map(|rates| f64::from(rates.gpu)),
        memory_used_bytes: memory.as_ref().map_or(0, |m| m.used),
        memory_total_bytes: memory.as_ref().map_or(0, |m| m.total),
        processes: gpu_processes(&device),
    })
}

/// A process that computes and draws stands in both lists.
fn gpu_processes(device: &Device<'_>) -> Vec<GpuProcess> {
    let lists = [device.running_compute_processes(), device.running_graphics_processes()];
    let mut processes: Vec<GpuProcess> = lists
        .into_iter()
        .flat_map(Result::unwrap_or_default)
        .map(|process| GpuProcess {
            pid: process.pid,
            memory_used_bytes: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => bytes,
                UsedGpuMemory::Unavailable => 0,
            },
        })
        .collect();
    processes.sort_unstable_by_key(|process| (process.pid, std::cmp::Reverse(process.memory_used_bytes)));
    processes.dedup_by_key(|process| process.pid);
    processes
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A child that does not outlive its test.
    struct Guard(Child);

    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sh(program: &str) -> Guard {
        Guard(Command::new("sh").args(["-c", program]).spawn().unwrap())
    }

    /// Asks until the answer fits.
    #[track_caller]
    fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(found) = ask() {
                return found;
            }
            assert!(Instant::now() < deadline, "not within 30 s: {what}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_busy_process_uses_a_core_and_a_sleeping_one_none() {
        let (busy, sleeping) = (sh("while :; do :; done"), sh("exec sleep 100"));
        let pids = [busy.0.id(), sleeping.0.id()];
        let sampler = HostSampler::new();
        let first = sampler.workers(&pids);
        let stats = first[1].process_stats.unwrap();
        assert!(stats.cpu_percent == 0.0 && stats.vms_bytes >= stats.rss_bytes && stats.rss_bytes > 0);
        wait_for("the busy process is seen to be busy", || {
            let [busy, sleeping] = [sampler.worker(pids[0]), sampler.worker(pids[1])];
            let (busy, sleeping) = (busy.process_stats?.cpu_percent, sleeping.process_stats?.cpu_percent);
            // Other work shares the machine's cores.
            (busy > 20.0 && busy < 120.0 && sleeping < 5.0).then_some(())
        });
    }

    #[test]
    fn a_process_that_ended_uses_nothing() {
        let mut child = sh("exit 0");
        let sampler = HostSampler::new();
        let pid = child.0.id();
        // A zombie at first, then reaped and gone.
        wait_for("the zombie is no process", || sampler.worker(pid).process_stats.is_none().then_some(()));
        child.0.wait().unwrap();
        assert_eq!(HostSampler::new().worker(pid), WorkerStats::default());
    }

    #[test]
    fn an_answer_serves_for_a_second_and_nothing_is_kept_that_nobody_asks_for() {
        let sampler = HostSampler::new();
        let own = std::process::id();
        drop(sampler.worker(own));
        let looked_at = |pid: u32| sampler.seen.lock().workers.get(&pid).map(|w| w.looked_at);
        let first = looked_at(own).unwrap();
        for _ in 0..100 {
            drop(sampler.worker(own));
            assert!(
                looked_at(own).unwrap().duration_since(first) == Duration::ZERO || first.elapsed() >= FRESH
            );
        }
        let long_ago = Instant::now().checked_sub(REMEMBERED * 2).unwrap();
        for worker in sampler.seen.lock().workers.values_mut() {
            worker.asked_at = long_ago;
        }
        drop(sampler.worker(1));
        assert!(looked_at(own).is_none() && looked_at(1).is_some());
    }

    #[test]
    fn the_host_has_what_this_process_may_use() {
        let sampler = HostSampler::new();
        let devices = sampler.devices();
        assert_eq!(
            usize::try_from(devices.cpu_count),
            Ok(std::thread::available_parallelism().unwrap().get())
        );
        assert!(devices.memory_available_bytes > 0);
        assert!(devices.memory_total_bytes >= devices.memory_available_bytes);
        let _busy = sh("while :; do :; done");
        wait_for("the host is busy", || {
            let percent = sampler.devices().cpu_percent;
            assert!((0.0..=100.0).contains(&percent), "{percent}");
            (percent > 1.0).then_some(())
        });
    }
}
