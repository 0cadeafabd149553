//! Many readers of the stream of events, and a change ten times a second: what a delivered change costs, how late it is,
//! whether anything is missed. Beside a peer that sends the same bytes from one channel.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};

use crate::{
    Options,
    compare::{seconds, share_ms, spread},
    load::Connection,
    reader::{END, Reader, Seen, note},
    seed::{Registered, registration},
    server::{Server, cpu_ticks},
};

/// Between two changes.
const PERIOD: Duration = Duration::from_millis(100);
/// What comes later than this does not come.
const LATE: Duration = Duration::from_secs(20);
/// Readers that are cut off and come back.
const CUT: usize = 100;
/// Readers that never read, and the buffer that the kernel has for each.
const SLOW: usize = 20;
const SLOW_BUFFER: u32 = 4096;
/// Changes that are more than the head keeps and the kernel holds back for a reader: each is two frames, of which the
/// head keeps 8,192.
const FLOOD: usize = 12_000;
const FLOODERS: usize = 16;

/// Where changes come from.
struct Speaker<'a> {
    server: &'a Server,
    connection: Connection,
    clock: Instant,
    voice: Voice,
}

enum Voice {
    /// The notes of this run change: a frame of the run and one of its trail.
    Head { run: String },
    /// The peer sends what it is given: two frames of as many bytes.
    Peer { seq: u64, bytes: usize },
}

pub(crate) async fn measure(options: &Options) -> anyhow::Result<()> {
    let clients = options.clients;
    println!(
        "## {clients} readers of events, a change each {} ms for {} s\n",
        PERIOD.as_millis(),
        options.seconds.as_secs()
    );
    let (head, peer) = (Server::head().await?, Server::peer(&[]).await?);
    let clock = Instant::now();
    let mut connection = head.connect().await?;
    let body = registration("watched", Duration::from_secs(3600)).to_string();
    let answer = connection.post("/api/train/runs", None, body.as_bytes()).await?;
    let run = serde_json::from_slice::<Registered>(&answer.body)?.run.id;
    let mut speaker = Speaker { server: &head, connection, clock, voice: Voice::Head { run } };
    let voice = Voice::Peer { seq: 0, bytes: 0 };
    let mut raw = Speaker { server: &peer, connection: peer.connect().await?, clock, voice };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let round = Round::run(&mut speaker, options).await?;
        if let Voice::Peer { bytes, .. } = &mut raw.voice {
            *bytes = round.bytes;
        }
        theirs.push(Round::run(&mut raw, options).await?);
        ours.push(round);
    }
    println!(
        "| | CPU µs a change delivered | frames a change | bytes | CPU µs a frame | delay p50, ms | p99, ms | missed | \
         resident before, with readers, after, MiB | change answered, p50 ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    Round::print("head", &ours);
    Round::print("peer", &theirs);
    let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs.cpu_us / ours.cpu_us).collect();
    println!("\npeer ÷ head, CPU: **{}**\n", spread(ratios, 2));
    come_back(&mut speaker, clients).await?;
    slow_readers(&mut speaker).await?;
    head.stop().await;
    peer.stop().await;
    Ok(())
}

impl Speaker<'_> {
    fn path(&self) -> &'static str {
        match self.voice {
            Voice::Head { .. } => "/api/train/events",
            Voice::Peer { .. } => "/stream",
        }
    }

    async fn readers(&self, n: usize, last_ids: &[String]) -> anyhow::Result<Vec<Reader>> {
        let mut readers = Vec::with_capacity(n);
        for i in 0..n {
            let last_id = last_ids.get(i).map(String::as_str);
            let mut reader =
                Reader::open(self.server.address, self.path(), self.clock, last_id, None).await?;
            reader.begun().await?;
            readers.push(reader);
        }
        Ok(readers)
    }

    async fn change(&mut self, word: &str) -> anyhow::Result<()> {
        let note = note(self.clock, word);
        match &mut self.voice {
            Voice::Head { run } => {
                let body = json!({"notes": note}).to_string();
                self.connection.patch(&format!("/api/train/runs/{run}"), body.as_bytes()).await?;
            }
            Voice::Peer { seq, bytes } => {
                *seq += 2;
                let (first, second) = (*seq - 1, *seq);
                let fill = "x".repeat(bytes.saturating_sub(150));
                let frames = format!(
                    "id: peer-{first}\nevent: run\ndata: {{\"fill\":\"{fill}\",\"notes\":\"{note}\"}}\n\n\
                     id: peer-{second}\nevent: trail\ndata: {{}}\n\n"
                );
                self.connection.post("/say", None, frames.as_bytes()).await?;
            }
        }
        Ok(())
    }

    /// Changes one after the other, the last one with `word`. How long each took.
    async fn changes(&mut self, span: Duration, word: &str) -> anyhow::Result<Vec<Duration>> {
        let begun = Instant::now();
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut took = Vec::new();
        loop {
            ticks.tick().await;
            let (sent, last) = (Instant::now(), begun.elapsed() >= span);
            self.change(if last { word } else { "go" }).await?;
            took.push(sent.elapsed());
            if last {
                took.sort_unstable();
                return Ok(took);
            }
        }
    }
}

/// What one round of one side showed.
struct Round {
    /// Processor time of the server, µs a change and reader.
    cpu_us: f64,
    frame_cpu_us: f64,
    frames: f64,
    /// Bytes of a change.
    bytes: usize,
    p50_ms: f64,
    p99_ms: f64,
    missed: u64,
    /// MiB: without readers, with them, after all changes.
    resident: [f64; 3],
    change_ms: f64,
}

impl Round {
    async fn run(speaker: &mut Speaker<'_>, options: &Options) -> anyhow::Result<Self> {
        let before = speaker.server.rss_mib()?;
        let readers = speaker.readers(options.clients, &[]).await?;
        let connected = speaker.server.rss_mib()?;
        let mut reading = JoinSet::new();
        for reader in readers {
            reading.spawn(reader.until_end());
        }
        let pid = speaker.server.pid.to_string();
        let from = cpu_ticks(&pid);
        let took = speaker.changes(options.seconds, END).await?;
        let mut all = Seen::default();
        for mut reader in finish(reading).await? {
            let Seen { frames, bytes, missed, resets, delays, .. } = reader.take_counts();
            all.frames += frames;
            all.bytes += bytes;
            all.missed += missed;
            all.resets += resets;
            all.delays.extend(delays);
        }
        let cpu = seconds(from, cpu_ticks(&pid)) * 1e6;
        let after = speaker.server.rss_mib()?;
        ensure!(all.resets == 0, "{} readers were told to start anew", all.resets);
        all.delays.sort_unstable();
        let deliveries = f64::from(u32::try_from(all.delays.len())?);
        let frames = f64::from(u32::try_from(all.frames)?);
        Ok(Self {
            cpu_us: cpu / deliveries,
            frame_cpu_us: cpu / frames,
            frames: frames / deliveries,
            bytes: all.bytes / all.delays.len().max(1),
            p50_ms: share_ms(&all.delays, 50).context("nothing came")?,
            p99_ms: share_ms(&all.delays, 99).context("nothing came")?,
            missed: all.missed,
            resident: [before, connected, after],
            change_ms: share_ms(&took, 50).context("nothing changed")?,
        })
    }

    fn print(name: &str, rounds: &[Self]) {
        let of = |what: fn(&Self) -> f64, digits| spread(rounds.iter().map(what).collect(), digits);
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {}, {}, {} | {} |",
            of(|r| r.cpu_us, 1),
            of(|r| r.frames, 2),
            rounds.last().map_or(0, |r| r.bytes),
            of(|r| r.frame_cpu_us, 1),
            of(|r| r.p50_ms, 1),
            of(|r| r.p99_ms, 1),
            rounds.iter().map(|r| r.missed).sum::<u64>(),
            of(|r| r.resident[0], 1),
            of(|r| r.resident[1], 1),
            of(|r| r.resident[2], 1),
            of(|r| r.change_ms, 2),
        );
    }
}

/// Some readers are cut off while changes go on, and come back with the id that they had.
async fn come_back(speaker: &mut Speaker<'_>, clients: usize) -> anyhow::Result<()> {
    let mut readers = speaker.readers(clients, &[]).await?;
    let mut cut = readers.split_off(clients.saturating_sub(CUT));
    let mut reading = JoinSet::new();
    for reader in readers {
        reading.spawn(reader.until_end());
    }
    let ids: Vec<String> = cut.iter_mut().map(|r| r.take_counts().last_id).collect();
    drop(cut);
    speaker.changes(Duration::from_secs(3), "away").await?;
    let back = speaker.readers(ids.len(), &ids).await?;
    let mut returned = JoinSet::new();
    for reader in back {
        returned.spawn(reader.until_end());
    }
    speaker.changes(Duration::from_secs(1), END).await?;
    let (mut missed, mut resets) = (0, 0);
    let returned = finish(returned).await?;
    for reader in finish(reading).await?.iter().chain(&returned) {
        missed += reader.seen.missed;
        resets += reader.seen.resets;
    }
    let least = returned.iter().map(|r| r.seen.delays.len()).min().unwrap_or(0);
    println!(
        "{} of {clients} were cut off for 3 s of changes and came back with Last-Event-ID: {missed} events missed, \
         {resets} told to start anew, at least {least} changes each since the cut\n",
        returned.len()
    );
    Ok(())
}

/// Readers that do not read while much happens: the head's memory stays what it was, and they are told.
async fn slow_readers(speaker: &mut Speaker<'_>) -> anyhow::Result<()> {
    flood(speaker).await?;
    let before = speaker.server.rss_mib()?;
    let mut slow = Vec::with_capacity(SLOW);
    for _ in 0..SLOW {
        let path = speaker.path();
        let reader = Reader::open(speaker.server.address, path, speaker.clock, None, Some(SLOW_BUFFER));
        let mut reader = reader.await?;
        reader.begun().await?;
        slow.push(reader);
    }
    let mut resident = Vec::new();
    for _ in 0..3 {
        flood(speaker).await?;
        resident.push(format!("{:.1}", speaker.server.rss_mib()?));
    }
    let mut reading = JoinSet::new();
    for reader in slow {
        reading.spawn(reader.until_reset());
    }
    let told = finish(reading).await?;
    println!(
        "{SLOW} readers that do not read, {FLOOD} changes three times: resident {before:.1} MiB before, then {}; when \
         they read again {} were told to start anew, after {:.1} MiB at the most of what was on its way\n",
        resident.join(", "),
        told.len(),
        told.iter().map(|r| mib(r.seen.bytes)).fold(0.0, f64::max)
    );
    Ok(())
}

fn mib(bytes: usize) -> f64 {
    u32::try_from(bytes).map_or(f64::NAN, f64::from) / 1024.0 / 1024.0
}

/// As many changes as the head takes.
async fn flood(speaker: &Speaker<'_>) -> anyhow::Result<()> {
    let Voice::Head { run } = &speaker.voice else { return Ok(()) };
    let mut flooders = JoinSet::new();
    for _ in 0..FLOODERS {
        let mut connection = speaker.server.connect().await?;
        let (path, clock) = (format!("/api/train/runs/{run}"), speaker.clock);
        flooders.spawn(async move {
            for _ in 0..FLOOD / FLOODERS {
                let body = json!({"notes": note(clock, "flood")}).to_string();
                connection.patch(&path, body.as_bytes()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(flooder) = flooders.join_next().await {
        flooder??;
    }
    Ok(())
}

/// The readers, when each has read what it should.
async fn finish(mut reading: JoinSet<anyhow::Result<Reader>>) -> anyhow::Result<Vec<Reader>> {
    let mut readers = Vec::with_capacity(reading.len());
    let all = async {
        while let Some(reader) = reading.join_next().await {
            readers.push(reader??);
        }
        anyhow::Ok(())
    };
    timeout(LATE, all).await.context("readers wait for events that do not come")??;
    Ok(readers)
}
