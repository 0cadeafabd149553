//! Phases of a run and states of its controller: the tables that say what may follow what.

use super::{closed_enum::closed_enum, refusal::Refusal};

closed_enum! {
    /// What `/api/train/runs` says of a run. Derived from its [`Phase`].
    RunStatus {
        /// Registered and not ended.
        Started = "STARTED",
        /// Ended well.
        Finished = "FINISHED",
        /// Its controller reported an error.
        Errored = "ERRORED",
        /// A user stopped it, or its controller is gone.
        Aborted = "ABORTED",
    }
}

closed_enum! {
    /// The one source of truth about where a run is; every status is derived from it.
    Phase {
        /// Registered, nothing asked for yet.
        Initializing = "INITIALIZING",
        /// A worker group is being placed.
        Scheduling = "SCHEDULING",
        /// Workers train (also while preempting and shutting down).
        Running = "RUNNING",
        /// The group failed and another attempt is coming.
        Restarting = "RESTARTING",
        /// The group is being replaced by one of another size.
        Resizing = "RESIZING",
        /// Ended well.
        Finished = "FINISHED",
        /// Ended by an error that the controller reported.
        Errored = "ERRORED",
        /// Stopped by a user, or concluded because the controller is gone.
        Aborted = "ABORTED",
    }
}

impl Phase {
    /// The status that this phase shows as.
    #[must_use]
    pub const fn run_status(self) -> RunStatus {
        match self {
            Self::Initializing | Self::Scheduling | Self::Running | Self::Restarting | Self::Resizing => {
                RunStatus::Started
            }
            Self::Finished => RunStatus::Finished,
            Self::Errored => RunStatus::Errored,
            Self::Aborted => RunStatus::Aborted,
        }
    }

    /// Whether a run in this phase has ended.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        !matches!(self.run_status(), RunStatus::Started)
    }

    /// The phase after a change to `to`: the one function through which a phase changes.
    ///
    /// # Errors
    /// [`Refusal::RunEnded`] from a terminal phase, [`Refusal::IllegalTransition`] for a pair that the table
    /// does not have. A change to itself is none.
    pub fn to(self, to: Self) -> Result<Self, Refusal> {
        use Phase::{Initializing, Resizing, Restarting, Running, Scheduling};
        if self.is_terminal() {
            return if self == to { Ok(to) } else { Err(Refusal::RunEnded(self.run_status())) };
        }
        let legal = to.is_terminal()
            || match to {
                Initializing => self == Initializing,
                // A group can be placed from anywhere; that no other attempt is live is the attempt's rule.
                // Running is also the phase of shutting down, which any live run may do.
                Scheduling | Running => true,
                Restarting | Resizing => matches!(self, Running | Scheduling) || self == to,
                _ => false,
            };
        if legal { Ok(to) } else { Err(Refusal::IllegalTransition { from: self.as_str(), to: to.as_str() }) }
    }
}

impl RunStatus {
    /// The terminal phase that a run ends in to show this status; none for STARTED.
    #[must_use]
    pub const fn terminal_phase(self) -> Option<Phase> {
        match self {
            Self::Started => None,
            Self::Finished => Some(Phase::Finished),
            Self::Errored => Some(Phase::Errored),
            Self::Aborted => Some(Phase::Aborted),
        }
    }
}

closed_enum! {
    /// The controller's own state, finer than the phase.
    ControllerState {
        /// Started, asks the scaling policy.
        Initializing = "INITIALIZING",
        /// A group is being started.
        Scheduling = "SCHEDULING",
        /// A group could not be started; another try is coming.
        Rescheduling = "RESCHEDULING",
        /// The group trains.
        Running = "RUNNING",
        /// A preemption notice came; the group drains.
        Preempting = "PREEMPTING",
        /// The group failed; another attempt is coming.
        Restarting = "RESTARTING",
        /// The group is to be replaced by one of another size.
        Resizing = "RESIZING",
        /// The group is being ended.
        ShuttingDown = "SHUTTING_DOWN",
        /// Ended by an error.
        Errored = "ERRORED",
        /// Ended well.
        Finished = "FINISHED",
        /// Stopped.
        Aborted = "ABORTED",
    }
}

impl ControllerState {
    /// The run's phase while its controller is in this state.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self {
            Self::Initializing => Phase::Initializing,
            Self::Scheduling | Self::Rescheduling => Phase::Scheduling,
            Self::Running | Self::Preempting | Self::ShuttingDown => Phase::Running,
            Self::Restarting => Phase::Restarting,
            Self::Resizing => Phase::Resizing,
            Self::Errored => Phase::Errored,
            Self::Finished => Phase::Finished,
            Self::Aborted => Phase::Aborted,
        }
    }

    /// Whether a new attempt begins when this state is entered.
    #[must_use]
    pub const fn begins_attempt(self) -> bool {
        matches!(self, Self::Initializing | Self::Restarting | Self::Resizing)
    }

    /// Whether the controller may go from this state to `next`: the table of 04-controller.md.
    #[must_use]
    pub const fn may_go_to(self, next: Self) -> bool {
        use ControllerState as S;
        matches!(
            (self, next),
            (S::Initializing | S::Rescheduling | S::Restarting | S::Resizing, S::Scheduling)
                | (S::Scheduling, S::Running | S::Rescheduling)
                | (S::Running, S::Restarting | S::Resizing | S::Preempting)
                | (S::Preempting, S::Restarting)
                | (
                    S::Initializing
                        | S::Scheduling
                        | S::Rescheduling
                        | S::Running
                        | S::Preempting
                        | S::Restarting
                        | S::Resizing,
                    S::ShuttingDown
                )
                | (S::ShuttingDown, S::Errored | S::Finished | S::Aborted)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leaves_a_terminal_phase() {
        for &from in Phase::ALL.iter().filter(|p| p.is_terminal()) {
            for &to in Phase::ALL {
                assert_eq!(from.to(to).is_ok(), from == to, "{from} -> {to}");
            }
        }
    }

    #[test]
    fn every_live_phase_can_end_and_can_be_scheduled() {
        for &from in Phase::ALL.iter().filter(|p| !p.is_terminal()) {
            for to in [Phase::Finished, Phase::Errored, Phase::Aborted, Phase::Scheduling] {
                assert!(from.to(to).is_ok(), "{from} -> {to}");
            }
            assert_eq!(from.to(Phase::Initializing).is_ok(), from == Phase::Initializing);
        }
    }

    #[test]
    fn whatever_the_controller_may_do_the_phase_may_do_too() {
        for &from in ControllerState::ALL {
            for &next in ControllerState::ALL {
                if from.may_go_to(next) {
                    assert!(from.phase().to(next.phase()).is_ok(), "{from} -> {next}");
                }
            }
        }
    }

    #[test]
    fn every_controller_state_but_the_terminal_ones_can_shut_down_and_only_that_ends_it() {
        for &from in ControllerState::ALL {
            let live = !from.phase().is_terminal();
            assert_eq!(
                from.may_go_to(ControllerState::ShuttingDown),
                live && from != ControllerState::ShuttingDown
            );
            for end in [ControllerState::Errored, ControllerState::Finished, ControllerState::Aborted] {
                assert_eq!(from.may_go_to(end), from == ControllerState::ShuttingDown);
            }
        }
    }
}
