//! The agent's own program: one thread, one loop over the connection and the ends of children.
//! Synchronous on purpose: the parent-death signal of the workers follows the thread that started them, and one that
//! waits in `poll` for two descriptors needs no runtime.

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_domain;
use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::ending::{Ending, LEFTOVER_GRACE, living, signal_groups};
use super::heirs::{Ended, Force, RankEnd};
use super::memory::{MemoryWatch, Stop};
use super::protocol::{
    CgroupUse, FromAgent, Incoming, PROTOCOL_VERSION, RankSpec, StartedWorker, ToAgent, to_line,
};
use super::start::{StartFailure, start_rank};
use crate::controller::process::{self, Exit, Reaped, become_subreaper};

/// Read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Runs the agent of one attempt: its standard input is the connection to the controller. Returns when nothing of the
/// attempt is left. To be called from `main` while the process has one thread.
pub fn serve() -> ExitCode {
    match Agent::connect().and_then(|mut agent| agent.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not `eprintln!`, which panics when nobody is left to read.
            let _ = writeln!(io::stderr(), "trainhead agent: {error}");
            ExitCode::from(2)
        }
    }
}

/// Why an agent cannot do its work.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(
        "standard input is not a connection to a controller; this command is started by `trainhead run` only"
    )]
    NotConnected,
    #[error("the process cannot be prepared: {0}")]
    Setup(io::Error),
    #[error("waiting failed: {0}")]
    Wait(io::Error),
}

/// What became of the controller's words.
enum Connection {
    Open,
    /// The controller is gone, or talks nonsense, which is as bad.
    Over,
}

struct Worker {
    rank: u32,
    pid: u32,
    state: WorkerState,
}

#[derive(PartialEq, Eq)]
enum WorkerState {
    Running,
    /// Its first process has ended in a stop, but not yet what that had started.
    HeldBack,
    /// Its end was reported.
    Ended,
}

enum Phase {
    /// Nothing was asked for yet.
    Idle,
    Running,
    Ending(Ending),
    /// The last word was sent.
    Done,
}

struct Agent {
    socket: UnixStream,
    connection: Connection,
    incoming: Incoming,
    child_ends: OwnedFd,
    workers: Vec<Worker>,
    cgroup: Option<Cgroup>,
    memory: MemoryWatch,
    /// Why the start failed: said in place of the report.
    failure: Option<FromAgent>,
    phase: Phase,
}

impl Agent {
    fn connect() -> Result<Self, ServeError> {
        let stdin = io::stdin();
        socket_domain(&stdin).map_err(|_| ServeError::NotConnected)?;
        // A copy that is closed on exec: no worker may hold the connection open.
        let socket = stdin.as_fd().try_clone_to_owned().map_err(ServeError::Setup)?;
        become_subreaper().map_err(ServeError::Setup)?;
        let child_ends = process::take_over_signals().map_err(ServeError::Setup)?;
        Ok(Self {
            socket: UnixStream::from(socket),
            connection: Connection::Open,
            incoming: Incoming::default(),
            child_ends,
            workers: Vec::new(),
            cgroup: None,
            memory: MemoryWatch::default(),
            failure: None,
            phase: Phase::Idle,
        })
    }

    fn run(&mut self) -> Result<(), ServeError> {
        self.tell(&FromAgent::Hello { version: PROTOCOL_VERSION, pid: std::process::id() });
        while !matches!(self.phase, Phase::Done) {
            self.wait()?;
            self.listen();
            let is_childless = self.reap_all();
            self.advance(is_childless);
        }
        Ok(())
    }

    /// Until the controller speaks, a child ends, or the ending has something to do.
    fn wait(&mut self) -> Result<(), ServeError> {
        let timeout = match &self.phase {
            Phase::Ending(ending) => Some(ending.next_look().saturating_duration_since(Instant::now())),
            Phase::Idle | Phase::Running | Phase::Done => None,
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut sources = vec![PollFd::new(&self.child_ends, PollFlags::IN)];
        if let Connection::Open = self.connection {
            sources.push(PollFd::new(&self.socket, PollFlags::IN));
        }
        match poll(&mut sources, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(ServeError::Wait(error.into())),
        }
        // Emptied before reaping, so that a child that ends during it makes it readable again.
        let mut discarded = [0; 128];
        while rustix::io::read(&self.child_ends, &mut discarded).is_ok_and(|size| size > 0) {}
        Ok(())
    }

    /// Takes what the controller has sent and does it.
    fn listen(&mut self) {
        if let Connection::Over = self.connection {
            return;
        }
        if self.receive().is_err() {
            self.connection = Connection::Over;
        }
        while let Connection::Open = self.connection {
            match self.incoming.take::<ToAgent>() {
                Ok(Some(message)) => self.obey(message),
                Ok(None) => return,
                Err(error) => {
                    let cause = error.source().map(ToString::to_string).unwrap_or_default();
                    let _ = writeln!(io::stderr(), "trainhead agent: the workers are ended: {error} {cause}");
                    self.connection = Connection::Over;
                }
            }
        }
    }

    /// Reads without waiting; an end of the connection is an error.
    fn receive(&mut self) -> io::Result<()> {
        let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
        if poll(&mut ready, Some(&Timespec::default()))? == 0 {
            return Ok(());
        }
        let mut chunk = vec![0; CHUNK_BYTES];
        match self.socket.read(&mut chunk)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            size => {
                self.incoming.buffer().extend_from_slice(chunk.get(..size).unwrap_or_default());
                Ok(())
            }
        }
    }

    fn obey(&mut self, message: ToAgent) {
        let groups = self.groups();
        match (message, &mut self.phase) {
            (ToAgent::Start { ranks, cgroup }, Phase::Idle) => self.start(&ranks, cgroup),
            (ToAgent::Signal { signal }, Phase::Running | Phase::Ending(_)) => {
                signal_groups(&groups, &living(), signal);
            }
            (ToAgent::Stop { signal, grace_ms }, phase @ Phase::Running) => {
                *phase = Phase::Ending(Ending::begin(groups, signal, Duration::from_millis(grace_ms)));
            }
            (ToAgent::Stop { grace_ms, .. }, Phase::Ending(ending)) => {
                ending.hurry(Duration::from_millis(grace_ms))
            }
            (ToAgent::Kill, Phase::Ending(ending)) => ending.hurry(Duration::ZERO),
            (ToAgent::Stop { .. } | ToAgent::Kill, phase) => *phase = Phase::Ending(Ending::by_force()),
            // A second start breaks the protocol, as bad as a malformed message.
            (ToAgent::Start { .. }, _) => self.connection = Connection::Over,
            (ToAgent::Signal { .. }, Phase::Idle | Phase::Done) => {}
        }
    }

    fn start(&mut self, ranks: &[RankSpec], cgroup: CgroupUse) {
        let made = match cgroup {
            CgroupUse::IfPossible => Cgroup::create(),
            CgroupUse::Never => None,
        };
        self.memory = MemoryWatch::begin();
        self.cgroup = made.filter(|cgroup| {
            let is_in = cgroup.enter().is_ok();
            if !is_in {
                cgroup.remove();
            }
            is_in
        });
        let mut failed = None;
        for spec in ranks {
            match start_rank(spec) {
                Ok(pid) => self.workers.push(Worker { rank: spec.rank, pid, state: WorkerState::Running }),
                Err(failure) => {
                    failed = Some((spec.rank, failure));
                    break;
                }
            }
        }
        // If we cannot get out, killing the group would end ourselves: do without.
        self.cgroup = self.cgroup.take().filter(|cgroup| cgroup.leave().is_ok());
        match failed {
            None => self.say_started(),
            Some((rank, failure)) => self.undo(rank, failure),
        }
    }

    fn say_started(&mut self) {
        let workers =
            self.workers.iter().map(|worker| StartedWorker { rank: worker.rank, pid: worker.pid }).collect();
        let cgroup = self.cgroup.as_ref().map(|cgroup| cgroup.path().to_owned());
        self.phase = Phase::Running;
        self.tell(&FromAgent::Started { workers, cgroup });
    }

    /// Ends the ranks that were started before the one that failed. What failed is said when they are gone.
    fn undo(&mut self, rank: u32, StartFailure { is_permanent, message }: StartFailure) {
        self.workers.clear();
        self.failure = Some(FromAgent::StartFailed { rank, permanent: is_permanent, message });
        self.phase = Phase::Ending(Ending::by_force());
    }

    /// Reaps all that has ended, reports the ranks among them, and says whether nothing is below us any more.
    fn reap_all(&mut self) -> bool {
        loop {
            match process::reap() {
                Reaped::One(exit) => self.note(exit),
                Reaped::NoneYet => return false,
                Reaped::NoChildren => return true,
            }
        }
    }

    fn note(&mut self, exit: Exit) {
        let leader = self
            .workers
            .iter_mut()
            .find(|worker| worker.state == WorkerState::Running && worker.pid == exit.pid);
        let who = if leader.is_some() { Ended::Leader } else { Ended::Other };
        if let Some(worker) = leader {
            worker.state = WorkerState::HeldBack;
        }
        let end = match (&mut self.phase, who) {
            (Phase::Ending(ending), who) => ending.ended(exit, who),
            (_, Ended::Leader) => Some(RankEnd { leader: exit.pid, exit }),
            (_, Ended::Other) => None,
        };
        if let Some(end) = end {
            self.report(end);
        }
    }

    fn report(&mut self, RankEnd { leader, exit }: RankEnd) {
        let stop = match &self.phase {
            Phase::Ending(ending) if ending.force() == Force::Used => Stop::Forced,
            Phase::Ending(_) => Stop::Asked,
            Phase::Idle | Phase::Running | Phase::Done => Stop::No,
        };
        let held_back = |worker: &&mut Worker| worker.state == WorkerState::HeldBack && worker.pid == leader;
        let Some(worker) = self.workers.iter_mut().find(held_back) else { return };
        worker.state = WorkerState::Ended;
        let Exit { code, signal, .. } = exit;
        let oom = self.memory.evidence(&exit, stop);
        let rank = worker.rank;
        self.tell(&FromAgent::Exited { rank, pid: leader, code, signal, oom });
    }

    fn advance(&mut self, is_childless: bool) {
        let ranks_run = self.workers.iter().any(|worker| worker.state != WorkerState::Ended);
        if let Phase::Running = self.phase
            && !ranks_run
        {
            self.phase = Phase::Ending(Ending::begin(self.groups(), Signal::TERM.as_raw(), LEFTOVER_GRACE));
        }
        match (&self.connection, &mut self.phase) {
            (Connection::Over, Phase::Ending(ending)) => ending.hurry(Duration::ZERO),
            (Connection::Over, phase @ (Phase::Idle | Phase::Running)) => {
                *phase = Phase::Ending(Ending::by_force());
            }
            (Connection::Open, _) | (Connection::Over, Phase::Done) => {}
        }
        let Phase::Ending(ending) = &mut self.phase else { return };
        match ending.report(is_childless) {
            None => ending.step(ranks_run, self.cgroup.as_ref()),
            Some(report) => {
                for end in ending.give_up() {
                    self.report(end);
                }
                if let Some(cgroup) = &self.cgroup {
                    cgroup.remove();
                }
                let last_word = self.failure.take().unwrap_or(FromAgent::Ended { report });
                self.tell(&last_word);
                self.phase = Phase::Done;
            }
        }
    }

    /// Each rank leads a process group with its pid.
    fn groups(&self) -> Vec<u32> {
        self.workers.iter().map(|worker| worker.pid).collect()
    }

    /// A controller that is gone is noticed by the loop, so a failure to send needs nothing here.
    fn tell(&mut self, message: &FromAgent) {
        if let Ok(line) = to_line(message) {
            let _ = self.socket.write_all(&line);
        }
    }
}
