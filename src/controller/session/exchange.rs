//! The protocol between a train function that reports and a driver that asks for its results, as plain bookkeeping: what
//! is given to whom, and who may go on. It does not wait, knows no clock and does no I/O ([`super::driven`] does).
//!
//! What always holds: every result that was taken is given to the driver that goes on asking, in order, before it hears
//! how the function ended; a reporter stands still only until the driver acts; nothing is taken after a stop.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// When a report returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reporting {
    /// As soon as its result is taken: the ranks of a training, which wait for nobody.
    #[default]
    Immediate,
    /// When the next result is asked for: the function of a sweep's trial, which stands still between two results, so
    /// that a scheduler can end it there.
    OnDemand,
}

/// A reporter that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

/// What becomes of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is a result.
    Taken,
    /// It is none, and its reporter goes on.
    Ignored,
    /// It is none, and its reporter is to leave the function.
    Stopped,
}

/// What a driver that asked gets.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next<R, E> {
    /// The next result.
    Result(R),
    /// There will be none: the function has ended well, or it was stopped.
    Over,
    /// There will be none: the function has failed.
    Failed(E),
    /// There is none yet.
    NotYet,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Function {
    /// Nobody has asked for a result yet.
    #[default]
    Ready,
    Running,
    Ended,
}

/// One function's results on their way to its driver.
#[derive(Debug)]
pub(super) struct Exchange<R, E> {
    reporting: Reporting,
    function: Function,
    error: Option<E>,
    stopped: bool,
    paused: bool,
    /// The driver has asked and has got nothing yet.
    asked: bool,
    /// Taken and not given yet. The reporters stand.
    results: VecDeque<(Ticket, R)>,
    /// Whose result was given last, and who goes on when the next is asked for.
    standing: Option<Ticket>,
    /// Who may go on since that was last looked at.
    released: Vec<Ticket>,
    last_ticket: u64,
}

impl<R, E: Clone> Exchange<R, E> {
    pub(super) fn new(reporting: Reporting) -> Self {
        Self {
            reporting,
            function: Function::Ready,
            error: None,
            stopped: false,
            paused: false,
            asked: false,
            results: VecDeque::new(),
            standing: None,
            released: Vec::new(),
            last_ticket: 0,
        }
    }

    /// What becomes of a report that is made now.
    pub(super) fn admission(&self) -> Admission {
        if self.is_closed() {
            Admission::Stopped
        } else if self.paused {
            Admission::Ignored
        } else {
            Admission::Taken
        }
    }

    /// Takes a result, which was admitted some time before. Its reporter stands until its ticket is released.
    pub(super) fn hand_over(&mut self, result: R) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        if self.function == Function::Ready {
            self.function = Function::Running;
        }
        self.results.push_back((ticket, result));
        if self.is_closed() || self.paused {
            self.released.push(ticket);
        }
        ticket
    }

    /// The function has ended. Only the first end counts.
    pub(super) fn end(&mut self, how: Result<(), E>) {
        if self.function != Function::Ended {
            self.function = Function::Ended;
            self.error = how.err();
            self.release_all();
        }
    }

    /// The driver asks for the next result, which lets whoever made the last one go on. Asking again before there was an
    /// answer changes nothing. Whether the function is to be started now.
    pub(super) fn ask(&mut self) -> Starts {
        let starts = if self.function == Function::Ready { Starts::Now } else { Starts::No };
        if self.function == Function::Ready {
            self.function = Function::Running;
        }
        if !std::mem::replace(&mut self.asked, true) {
            self.released.extend(self.standing.take());
        }
        starts
    }

    /// What there is for a driver that has asked.
    pub(super) fn next(&mut self) -> Next<R, E> {
        if let Some((ticket, result)) = self.results.pop_front() {
            self.asked = false;
            if self.reporting == Reporting::OnDemand && !self.is_closed() && !self.paused {
                self.standing = Some(ticket);
            } else {
                self.released.push(ticket);
            }
            return Next::Result(result);
        }
        match (self.function, &self.error) {
            (Function::Ended, None) => Next::Over,
            (Function::Ended, Some(error)) => Next::Failed(error.clone()),
            _ => Next::NotYet,
        }
    }

    /// The function is to end: whoever stands goes on and is told so. One that was not started is not.
    pub(super) fn stop(&mut self) {
        self.stopped = true;
        if self.function == Function::Ready {
            self.function = Function::Ended;
        }
        self.release_all();
    }

    /// From now on reports are no results, and nobody stands.
    pub(super) fn pause_reporting(&mut self) {
        self.paused = true;
        self.release_all();
    }

    /// Whether nothing runs any more.
    pub(super) fn has_ended(&self) -> bool {
        self.function == Function::Ended
    }

    /// How the function failed, if it has.
    pub(super) fn error(&self) -> Option<&E> {
        self.error.as_ref()
    }

    /// Whether nothing is taken any more, and whoever reports is to leave.
    pub(super) fn is_closed(&self) -> bool {
        self.stopped || self.has_ended()
    }

    /// Who may go on since this was asked last. Some may have gone before.
    pub(super) fn released(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.released)
    }

    fn release_all(&mut self) {
        self.released.extend(self.standing.take());
        self.released.extend(self.results.iter().map(|(ticket, _)| *ticket));
    }
}

/// Whether a function is to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Starts {
    Now,
    No,
}

#[cfg(test)]
mod tests;
