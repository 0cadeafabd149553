//! What is wrong with an input, said so that the caller can mend it.

use std::fmt;

/// An input that breaks a rule: which field, what rule, which limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Path of the field in the request, `workers[3].pid`.
    pub field: String,
    /// One sentence: what is wrong and what would be right.
    pub message: String,
    /// The documented limit that was passed, where there is one.
    pub limit: Option<u64>,
    /// Whether the value could not be understood at all, or was understood and breaks a rule.
    pub kind: InvalidKind,
}

/// The two ways to be invalid; HTTP answers them with 400 and 422.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidKind {
    /// Not a value of this type at all, or an implausible one.
    Malformed,
    /// Understood, but against a rule.
    Rule,
}

impl Invalid {
    /// A rule that `field` breaks.
    pub fn rule(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), limit: None, kind: InvalidKind::Rule }
    }

    /// A value of `field` that cannot be understood.
    pub fn malformed(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: InvalidKind::Malformed, ..Self::rule(field, message) }
    }

    /// A documented limit that `field` passes.
    pub fn over(field: impl Into<String>, limit: usize, what: &str) -> Self {
        let message = format!("at most {limit} {what} are allowed here");
        Self { limit: Some(super::number::size(limit)), ..Self::rule(field, message) }
    }

    /// The same complaint about a field inside `parent`.
    #[must_use]
    pub fn within(mut self, parent: &str) -> Self {
        self.field =
            if self.field.is_empty() { parent.to_owned() } else { format!("{parent}.{}", self.field) };
        self
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl std::error::Error for Invalid {}
