//! One way to write the closed enums of the domain: a word for each variant, the same in SQL, JSON, Rust and the spec.

// The word is a `tt`: a `literal` would reach utoipa's derive in a wrapping that it does not read, and the spec would name
// the variants instead of the words.
macro_rules! closed_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:tt),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for it, everywhere.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::base::Invalid;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(crate::base::Invalid::malformed(
                        "",
                        format!("{text:?} is not one of {}", [$($word),+].join(", ")),
                    )),
                }
            }
        }
    };
}

pub(crate) use closed_enum;

#[cfg(test)]
mod tests {
    use crate::model::{
        Actor, AttemptStatus, CheckpointState, ControllerState, EndReason, EventKind, Phase, RunStatus,
        WorkerStatus,
        checkpoint::{Fate, ScoreOrder},
        run::ActorStatus,
    };

    #[test]
    fn every_word_of_every_closed_enum_comes_back_as_itself() {
        macro_rules! round_trip {
            ($($t:ty),+) => {$(for &value in <$t>::ALL {
                assert_eq!(value.as_str().parse::<$t>().unwrap(), value);
                let json = serde_json::to_string(&value).unwrap();
                assert_eq!(json, format!("{:?}", value.as_str()));
                assert_eq!(serde_json::from_str::<$t>(&json).unwrap(), value);
            } assert!("nonsense".parse::<$t>().is_err());)+};
        }
        round_trip!(
            RunStatus,
            Phase,
            ControllerState,
            AttemptStatus,
            EndReason,
            WorkerStatus,
            ActorStatus,
            EventKind,
            Actor,
            CheckpointState,
            ScoreOrder,
            Fate
        );
    }
}
