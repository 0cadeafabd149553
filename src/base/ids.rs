//! Ids, each a type of its own. Where we make one it is a UUIDv7, so that ids sort by time.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{invalid::Invalid, limits};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(try_from = "String")]
        #[schema(value_type = String, max_length = 128, pattern = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$")]
        pub struct $name(Arc<str>);

        impl $name {
            /// A new id, later than all before.
            #[must_use]
            pub fn generate() -> Self {
                Self(uuid::Uuid::now_v7().to_string().into())
            }

            /// Takes an id from outside.
            ///
            /// # Errors
            /// It must be 1 to 128 characters of `[A-Za-z0-9._-]`, not beginning with a dot: ids become
            /// directory names.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check(text, $field)?;
                Ok(Self(text.into()))
            }

            /// Greater than any id that can be: for the ends of ranges.
            #[must_use]
            pub fn last() -> Self {
                Self("\u{7f}".into())
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                Self::parse(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::parse(&text)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id_type!(
    /// Identity of a run. Names are labels, this is what a run *is*.
    RunId,
    "run_id"
);
id_type!(
    /// Identity of an attempt, chosen by the controller so that a repeated request is recognised.
    AttemptId,
    "attempt_id"
);
id_type!(
    /// Identity of an actor: a controller or a worker.
    ActorId,
    "actor_id"
);

fn check(text: &str, field: &str) -> Result<(), Invalid> {
    if text.len() > limits::ID_BYTES {
        return Err(Invalid::over(field, limits::ID_BYTES, "characters"));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if text.is_empty() || text.starts_with('.') || !text.bytes().all(allowed) {
        return Err(Invalid::rule(
            field,
            "an id is 1 to 128 characters of letters, digits, '.', '_' and '-', and does not begin with '.'",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_a_path() {
        for bad in ["", ".", "..", "../x", "a/b", "a\\b", ".hidden", "a b", "a\0", "ä", &"x".repeat(129)] {
            assert!(RunId::parse(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "A-1_b.c", "0190b8c2-7e10-7cc3-98c4-dc0c0c07398f", &"x".repeat(128)] {
            assert_eq!(RunId::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn generated_ids_sort_by_time() {
        let (a, b) = (RunId::generate(), RunId::generate());
        assert!(a < b);
    }
}
