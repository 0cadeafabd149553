//! Rounds of windows, one for each side, and what they say: medians with the least and the greatest.

use std::{fmt::Write, time::Duration};

use anyhow::Context;

use crate::{
    Options,
    load::{Load, Requests, get_request, post_request},
    server::{Server, busy_ticks, cpu_ticks, ticks_of},
};

/// A server that has used no processor for so long has nothing left to do.
const QUIET: Duration = Duration::from_millis(60);
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);
/// A round is repeated when others used more of the machine than this, in cores.
const FOREIGN: f64 = 0.4;
const TRIES: usize = 3;
/// Clock ticks in a second: 100 on every Linux.
const TICKS: f64 = 100.0;

/// One side of a comparison.
pub(crate) struct Side<'a> {
    name: &'static str,
    server: &'a Server,
    /// One for each client that there was so far.
    requests: Vec<Requests>,
    status: u16,
    /// How many of what is counted a request carries.
    each: f64,
}

impl<'a> Side<'a> {
    pub(crate) fn get(name: &'static str, server: &'a Server, path: &str) -> Self {
        let request = get_request(server.address, path).into();
        Self::new(name, server, vec![Requests::Same(request)], 200)
    }

    pub(crate) fn post(name: &'static str, server: &'a Server, path: &str, body: &[u8], status: u16) -> Self {
        let request = post_request(server.address, path, None, body).into();
        Self::new(name, server, vec![Requests::Same(request)], status)
    }

    pub(crate) fn new(name: &'static str, server: &'a Server, requests: Vec<Requests>, status: u16) -> Self {
        Self { name, server, requests, status, each: 1.0 }
    }

    /// A request counts so often.
    pub(crate) fn counted(self, each: f64) -> Self {
        Self { each, ..self }
    }

    /// Gives back what its clients send.
    pub(crate) fn into_requests(self) -> Vec<Requests> {
        self.requests
    }
}

/// What one window of one side showed.
#[derive(Clone, Copy)]
struct Sample {
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of the server, µs a request.
    cpu_us: f64,
    /// Cores that neither the server nor the load used.
    foreign: f64,
}

/// Measures all sides in turn, round by round, and prints a line. The first side is the one that is judged.
pub(crate) async fn compare(
    label: &str,
    sides: &mut [Side<'_>],
    clients: usize,
    options: &Options,
) -> anyhow::Result<()> {
    for side in &mut *sides {
        while side.requests.len() < clients {
            let first = side.requests.first().context("a side that sends nothing")?;
            let beside = first.beside(side.requests.len())?;
            side.requests.push(beside);
        }
    }
    let mut rounds: Vec<Vec<Sample>> = Vec::with_capacity(options.rounds);
    for round in 0..options.rounds {
        let mut best: Option<Vec<Sample>> = None;
        for _ in 0..TRIES {
            let mut samples = vec![None; sides.len()];
            // Each round begins with another side, so that none always comes after the same one.
            let count = sides.len();
            for at in (0..count).map(|i| (i + round) % count) {
                // What one does behind its answers is not to fall into another one's window.
                for side in &*sides {
                    side.server.quiet(QUIET).await?;
                }
                samples[at] = Some(window(&mut sides[at], options.window).await?);
            }
            let samples: Vec<Sample> = samples.into_iter().flatten().collect();
            if best.as_ref().is_none_or(|best| worst(&samples) < worst(best)) {
                best = Some(samples);
            }
            if best.as_ref().is_some_and(|best| worst(best) < FOREIGN) {
                break;
            }
        }
        rounds.extend(best);
    }
    let of = |side: usize, what: fn(&Sample) -> f64| {
        rounds.iter().filter_map(|r| r.get(side)).map(what).collect::<Vec<f64>>()
    };
    let mut line = format!("| {label} |");
    for side in 0..sides.len() {
        // Writing to a string cannot fail.
        let _ = write!(
            line,
            " {} | {:.3} / {:.3} | {:.0} |",
            spread(of(side, |s| s.per_second), 0),
            median(of(side, |s| s.p50_ms)),
            median(of(side, |s| s.p99_ms)),
            median(of(side, |s| s.cpu_us)),
        );
    }
    for side in 1..sides.len() {
        let ratios = rounds.iter().filter_map(|r| Some(r.first()?.per_second / r.get(side)?.per_second));
        let _ = write!(line, " **{}** |", spread(ratios.collect(), 2));
    }
    let foreign = rounds.iter().map(|r| worst(r)).fold(0.0, f64::max);
    println!("{line} {foreign:.1} |");
    Ok(())
}

/// Prints the head of the table that [`compare`] prints the lines of.
pub(crate) fn print_head(sides: &[&str]) {
    print_head_of("1/s", sides);
}

/// The same with another unit.
pub(crate) fn print_head_of(unit: &str, sides: &[&str]) {
    let mut line = "| |".to_owned();
    for side in sides {
        let _ = write!(line, " {side}, {unit} | p50 / p99 ms | CPU µs |");
    }
    for side in sides.iter().skip(1) {
        let _ = write!(line, " ratio to {side} |");
    }
    line.push_str(" foreign cores |");
    println!("{line}\n|{}", "---|".repeat(line.matches('|').count() - 1));
}

async fn window(side: &mut Side<'_>, window: Duration) -> anyhow::Result<Sample> {
    let load = Load { address: side.server.address, status: side.status, warm_up: WARM_UP, window };
    let pid = side.server.pid;
    let look = || (busy_ticks(), cpu_ticks("self"), ticks_of(pid));
    let (mut before, mut after) = ((None, None, None), (None, None, None));
    let (latencies, requests) = load
        .run(std::mem::take(&mut side.requests), || before = look(), || after = look())
        .await
        .map_err(|e| e.context(side.name))?;
    side.requests = requests;
    let count = f64::from(u32::try_from(latencies.len())?);
    let (all, own, server) =
        (seconds(before.0, after.0), seconds(before.1, after.1), seconds(before.2, after.2));
    // Without any answer the disk stood still for all of the window.
    let share = |percent: usize| share_ms(&latencies, percent).unwrap_or(f64::INFINITY);
    let foreign = (all - own - server) / window.as_secs_f64();
    Ok(Sample {
        per_second: count * side.each / window.as_secs_f64(),
        p50_ms: share(50),
        p99_ms: share(99),
        cpu_us: server / count * 1e6,
        foreign: if latencies.is_empty() { f64::INFINITY } else { foreign.max(0.0) },
    })
}

/// Seconds between two numbers of ticks.
pub(crate) fn seconds(from: Option<u64>, to: Option<u64>) -> f64 {
    let ticks = from.zip(to).and_then(|(from, to)| u32::try_from(to.saturating_sub(from)).ok());
    ticks.map_or(f64::NAN, |ticks| f64::from(ticks) / TICKS)
}

fn worst(samples: &[Sample]) -> f64 {
    samples.iter().map(|s| s.foreign).fold(0.0, f64::max)
}

/// The median, or the lower of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// The value below which `percent` of the sorted values lie, in ms.
pub(crate) fn share_ms(sorted: &[Duration], percent: usize) -> Option<f64> {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map(|latency| latency.as_secs_f64() * 1e3)
}

/// Median (least–greatest).
pub(crate) fn spread(values: Vec<f64>, digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.digits$} ({least:.digits$}–{greatest:.digits$})", median(values))
}

/// One line about the machine.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    format!(
        "{} cores, {}, Linux {}",
        cpus.lines().filter(|l| l.starts_with("processor")).count(),
        model.trim_start_matches([' ', '\t', ':']),
        read("/proc/sys/kernel/osrelease").trim()
    )
}
