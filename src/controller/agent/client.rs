//! The controller's side of an agent: starts it, talks to it, reaps it.
//! It keeps no state of the workers: what the agent says is passed on as it comes.

use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Child;
use tokio::time::timeout;

use super::cgroup::Cgroup;
use super::protocol::{FromAgent, Incoming, PROTOCOL_VERSION, ProtocolError, ToAgent, to_line};
use crate::controller::process;

/// A machine under load starts a process late, but not that late.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How long an agent may take to exit after its connection has ended: it kills for at most 5 s.
const EXIT_LIMIT: Duration = Duration::from_secs(10);

/// Why an agent could not be started or talked to.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The program did not start.
    #[error("the agent {program} could not be started")]
    Spawn {
        /// The trainhead binary that was named.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It started, but did not introduce itself.
    #[error("the agent {0} did not say hello: is it a trainhead program?")]
    NoHello(String),
    /// It is another version than this controller.
    #[error(
        "the agent speaks protocol version {found}, this controller {PROTOCOL_VERSION}: use one version of trainhead"
    )]
    WrongVersion {
        /// The agent's version.
        found: u32,
    },
    /// It is gone.
    #[error("the connection to the agent is broken")]
    Connection(#[source] io::Error),
    /// It sent what is no message, or was to be sent one that is too long.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// An agent and the connection to it. Dropping it ends the connection, whereupon the agent kills its workers and
/// exits; tokio's runtime reaps it.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    pid: u32,
    stream: UnixStream,
    incoming: Incoming,
    outgoing: Vec<u8>,
    /// The workers' control group, from their start to the agent's last word.
    cgroup: Option<Cgroup>,
}

impl AgentProcess {
    /// Starts `program agent` and waits for its greeting. `program` is the trainhead binary.
    pub async fn spawn(program: &Path) -> Result<Self, AgentError> {
        let name = program.display().to_string();
        let failed = |source| AgentError::Spawn { program: name.clone(), source };
        let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let stream = UnixStream::from_std(ours).map_err(failed)?;
        let child = process::spawn_agent(program, theirs).map_err(failed)?;
        let pid = child.id().unwrap_or_default();
        let mut agent =
            Self { child, pid, stream, incoming: Incoming::default(), outgoing: Vec::new(), cgroup: None };
        match timeout(HELLO_LIMIT, agent.recv()).await {
            Ok(Ok(Some(FromAgent::Hello { version: PROTOCOL_VERSION, .. }))) => Ok(agent),
            Ok(Ok(Some(FromAgent::Hello { version: found, .. }))) => Err(AgentError::WrongVersion { found }),
            // Another program may print anything, or nothing.
            Ok(Ok(_) | Err(_)) | Err(_) => {
                // It may not care about the end of the connection. It has no workers. An error means that it is gone.
                let _ = agent.child.start_kill();
                Err(AgentError::NoHello(name))
            }
        }
    }

    /// The agent's process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a message. If the future is dropped, the rest of the message goes out before the next one.
    pub async fn send(&mut self, message: &ToAgent) -> Result<(), AgentError> {
        self.outgoing.extend(to_line(message)?);
        while !self.outgoing.is_empty() {
            let sent = self.stream.write(&self.outgoing).await.map_err(AgentError::Connection)?;
            self.outgoing.drain(..sent);
        }
        Ok(())
    }

    /// The next message; none when the connection has ended. Cancel-safe: nothing is lost if the future is dropped.
    pub async fn recv(&mut self) -> Result<Option<FromAgent>, AgentError> {
        loop {
            if let Some(message) = self.incoming.take()? {
                self.follow(&message);
                return Ok(Some(message));
            }
            match self.stream.read_buf(self.incoming.buffer()).await {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                // An agent that was killed with words of ours unread ends the connection like this.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(AgentError::Connection(error)),
            }
        }
    }

    /// Ends the connection and waits until the agent has exited, which is at once if it has said its last word.
    /// If it was killed, so is what is left in its workers' control group; without one see
    /// [`sweep_orphans`](super::sweep_orphans).
    pub async fn finish(mut self) -> Result<ExitStatus, AgentError> {
        // An error means that the other end is closed already.
        let _ = self.stream.shutdown().await;
        let status = match timeout(EXIT_LIMIT, self.child.wait()).await {
            Ok(status) => status,
            Err(_) => {
                // An agent that hangs. Its workers get the parent-death signal.
                self.child.start_kill().map_err(AgentError::Connection)?;
                self.child.wait().await
            }
        };
        status.map_err(AgentError::Connection)
    }

    fn follow(&mut self, message: &FromAgent) {
        match message {
            FromAgent::Started { cgroup, .. } => self.cgroup = cgroup.clone().map(Cgroup::at),
            FromAgent::StartFailed { .. } | FromAgent::Ended { .. } => self.cgroup = None,
            FromAgent::Hello { .. } | FromAgent::Exited { .. } => {}
        }
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // The agent does this itself when its connection ends, unless it was killed.
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
            cgroup.remove();
        }
    }
}
