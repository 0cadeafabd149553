//! What follows from an attempt to deliver: a plain function, so that it can be tested as a table.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How an attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There was an answer.
    Answered {
        status: u16,
        /// How long the receiver wants to be left alone.
        retry_after: Option<Duration>,
        /// The beginning of its words.
        said: String,
    },
    /// There was none.
    Failed(String),
}

/// What to do with the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Delivered,
    /// Try again after this.
    Again(Duration, String),
    GiveUp(String),
}

/// Judges the attempt `attempt` (from 0) on an event that has been deliverable for `age`. `jitter`, 0 to 1, keeps hooks
/// from coming all at once.
pub(super) fn judge(
    outcome: &Outcome,
    attempt: u32,
    age: Duration,
    give_up: Duration,
    jitter: f64,
) -> Verdict {
    let (why, wanted) = match outcome {
        Outcome::Answered { status: 200..=299, .. } => return Verdict::Delivered,
        Outcome::Answered { status, retry_after, said } => {
            let why =
                if said.is_empty() { format!("status {status}") } else { format!("status {status}: {said}") };
            // What the receiver does not understand or want it will not want the next time either.
            if matches!(status, 400..=499) && !matches!(status, 408 | 425 | 429) {
                return Verdict::GiveUp(why);
            }
            (why, retry_after.unwrap_or_default().min(LONGEST_WAIT))
        }
        Outcome::Failed(why) => (why.clone(), Duration::ZERO),
    };
    let left = give_up.saturating_sub(age);
    if left.is_zero() {
        return Verdict::GiveUp(format!("{why}; given up after {:.1} s", age.as_secs_f64()));
    }
    let full = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(attempt)).min(LONGEST_WAIT);
    let wait = (full / 2 + (full / 2).mul_f64(jitter.clamp(0.0, 1.0))).max(wanted);
    // The last attempt is made when the time is up, not before.
    Verdict::Again(wait.min(left), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVE_UP: Duration = Duration::from_secs(600);

    fn answered(status: u16) -> Outcome {
        Outcome::Answered { status, retry_after: None, said: String::new() }
    }

    #[test]
    fn an_answer_decides() {
        for (status, expected) in [
            (200, "delivered"),
            (204, "delivered"),
            (299, "delivered"),
            (301, "again"),
            (304, "again"),
            (400, "given up"),
            (401, "given up"),
            (404, "given up"),
            (408, "again"),
            (410, "given up"),
            (425, "again"),
            (429, "again"),
            (500, "again"),
            (503, "again"),
        ] {
            let verdict = match judge(&answered(status), 0, Duration::ZERO, GIVE_UP, 0.0) {
                Verdict::Delivered => "delivered",
                Verdict::Again(..) => "again",
                Verdict::GiveUp(_) => "given up",
            };
            assert_eq!(verdict, expected, "{status}");
        }
    }

    #[test]
    fn waits_double_up_to_a_minute_and_end_with_the_time() {
        let wait = |attempt, age, jitter| {
            let age = Duration::from_secs(age);
            match judge(&Outcome::Failed("refused".into()), attempt, age, GIVE_UP, jitter) {
                Verdict::Again(wait, why) if why == "refused" => Some(wait.as_secs_f64()),
                Verdict::GiveUp(why) if why.starts_with("refused; given up after 6") => None,
                other => panic!("{other:?}"),
            }
        };
        for (attempt, age, jitter, expected) in [
            (0, 0, 1.0, Some(1.0)),
            (0, 0, 0.0, Some(0.5)),
            (1, 1, 1.0, Some(2.0)),
            (5, 30, 0.5, Some(24.0)),
            (6, 60, 1.0, Some(60.0)),
            (40, 60, 1.0, Some(60.0)),
            (u32::MAX, 60, 7.0, Some(60.0)),
            (9, 595, 1.0, Some(5.0)),
            (9, 600, 1.0, None),
            // One that waited behind others for too long has its one attempt.
            (0, 600, 1.0, None),
            (0, 6000, 1.0, None),
        ] {
            assert_eq!(wait(attempt, age, jitter), expected, "{attempt} {age} {jitter}");
        }
    }

    #[test]
    fn a_receiver_may_ask_for_a_longer_wait() {
        let busy = |seconds| Outcome::Answered {
            status: 429,
            retry_after: Some(Duration::from_secs(seconds)),
            said: "busy".into(),
        };
        for (seconds, expected) in [(0, 1), (7, 7), (3600, 60)] {
            let verdict = judge(&busy(seconds), 0, Duration::ZERO, GIVE_UP, 1.0);
            assert_eq!(verdict, Verdict::Again(Duration::from_secs(expected), "status 429: busy".into()));
        }
    }
}
