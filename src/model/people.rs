//! What people may do to a run besides stopping it: annotate it, throw it away, take it back.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::{
    Actor, Event, EventKind, Refusal, RunRecord, Trail,
    names::{check_name, check_tags},
};
use crate::base::{Invalid, Timestamp, limits};

/// Changes the annotations of a run. What is not named stays as it is (RFC 7396): a tag that is null is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AnnotateRun {
    /// Name for people.
    #[serde(default)]
    #[schema(max_length = 256)]
    pub name: Option<String>,
    /// Notes, Markdown; null removes them.
    #[serde(default, deserialize_with = "named")]
    #[schema(value_type = Option<String>, max_length = 65536)]
    pub notes: Option<Option<String>>,
    /// Labels to set, or with null to remove.
    #[serde(default)]
    pub tags: BTreeMap<String, Option<String>>,
}

/// Tells null from missing.
fn named<'de, D: Deserializer<'de>>(de: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(de).map(Some)
}

impl AnnotateRun {
    /// Checks the rules of a change, as far as they do not depend on the run.
    ///
    /// # Errors
    /// The first rule that is broken, with its field.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if self.notes.iter().flatten().any(|notes| notes.len() > limits::NOTES_BYTES) {
            return Err(Invalid::over("notes", limits::NOTES_BYTES, "bytes"));
        }
        let set = self.tags.iter().map(|(key, value)| (key.clone(), value.clone().unwrap_or_default()));
        check_tags(&set.collect())
    }
}

/// Whether somebody wants a checkpoint kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Whatever retention says.
    Set,
    /// Not any longer.
    Removed,
}

impl RunRecord {
    /// Changes name, notes and tags.
    ///
    /// # Errors
    /// When the run would have too many tags; then nothing is changed.
    pub fn annotate(&mut self, body: AnnotateRun, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        let AnnotateRun { name, notes, tags } = body;
        let mut all = self.run.tags.clone();
        for (key, value) in tags {
            match value {
                Some(value) => all.insert(key, value),
                None => all.remove(&key),
            };
        }
        check_tags(&all)?;
        let mut changed = Vec::new();
        if let Some(name) = name.filter(|name| *name != self.run.name) {
            changed.push(format!("name {:?} to {name:?}", self.run.name));
            self.run.name = name;
        }
        if let Some(notes) = notes.filter(|notes| *notes != self.run.notes) {
            changed.push("notes".to_owned());
            self.run.notes = notes.filter(|notes| !notes.is_empty());
        }
        if all != self.run.tags {
            changed.push("tags".to_owned());
            self.run.tags = all;
        }
        if !changed.is_empty() {
            let event = self.event(now, EventKind::Annotation, Actor::User);
            trail.events.push(Event { reason: Some(format!("changed {}", changed.join(", "))), ..event });
        }
        Ok(())
    }

    /// Puts the run into the trash. Again is not an error.
    ///
    /// # Errors
    /// When it is live: it must end first.
    pub fn trash(&mut self, now: Timestamp, trail: &mut Trail) -> Result<(), Refusal> {
        if !self.run.phase.is_terminal() {
            return Err(Refusal::RunLive(self.run.id.clone()));
        }
        if self.run.trashed_at.is_none() {
            self.run.trashed_at = Some(now);
            let event = self.event(now, EventKind::Trash, Actor::User);
            trail.events.push(Event { to: Some("trash".to_owned()), ..event });
        }
        Ok(())
    }

    /// Takes the run out of the trash. Of one that is not there it changes nothing.
    pub fn restore(&mut self, by: Actor, now: Timestamp, trail: &mut Trail) {
        if self.run.trashed_at.take().is_some() {
            let event = self.event(now, EventKind::Trash, by);
            trail.events.push(Event { from: Some("trash".to_owned()), ..event });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_removes_and_missing_leaves() {
        let read = |json: &str| serde_json::from_str::<AnnotateRun>(json).unwrap();
        assert_eq!(read("{}").notes, None);
        assert_eq!(read(r#"{"notes": null}"#).notes, Some(None));
        assert_eq!(read(r#"{"notes": "x"}"#).notes, Some(Some("x".into())));
        assert_eq!(read(r#"{"tags": {"a": null, "b": "c"}}"#).tags.len(), 2);
        assert!(serde_json::from_str::<AnnotateRun>(r#"{"status": "x"}"#).is_err());
    }

    #[test]
    fn what_is_too_long_is_refused_by_name() {
        let long =
            AnnotateRun { notes: Some(Some("x".repeat(limits::NOTES_BYTES + 1))), ..AnnotateRun::default() };
        assert_eq!(long.check().unwrap_err().field, "notes");
        let tags = BTreeMap::from([(String::new(), None)]);
        assert!(AnnotateRun { tags, ..AnnotateRun::default() }.check().is_err());
    }
}
