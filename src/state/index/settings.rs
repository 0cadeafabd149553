//! Values of settings, to order runs by them: read from disk for the keys that are asked for, and kept for the last few.

use serde_json::Value as Json;

use super::{RunIndex, Slot, order::Value};
use crate::base::RunId;

/// Keys whose values are kept: some 3 MB each for 100,000 runs.
const KEPT: usize = 4;

/// What is known of one setting of all runs.
#[derive(Debug)]
pub(super) struct Setting {
    key: Box<str>,
    /// By slot. None: not read yet, or no run stands there.
    known: Vec<Option<Option<Value>>>,
}

impl Setting {
    pub(super) fn value(&self, slot: Slot) -> Option<&Value> {
        self.known.get(slot)?.as_ref()?.as_ref()
    }
}

/// The settings that are kept, the one that was read first in front.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<Setting>);

impl Settings {
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        self.0.iter().find(|setting| *setting.key == *key)
    }

    /// Another run stands there, or the same one with other settings.
    pub(super) fn forget(&mut self, slot: Slot) {
        for known in self.0.iter_mut().filter_map(|setting| setting.known.get_mut(slot)) {
            *known = None;
        }
    }

    fn get_or_begin(&mut self, key: &str) -> Option<&mut Setting> {
        if self.get(key).is_none() {
            if self.0.len() == KEPT {
                self.0.remove(0);
            }
            self.0.push(Setting { key: key.into(), known: Vec::new() });
        }
        self.0.iter_mut().find(|setting| *setting.key == *key)
    }
}

impl RunIndex {
    /// The runs of which it is not known what they have of this setting.
    pub(crate) fn without_setting(&self, key: &str) -> Vec<RunId> {
        let setting = self.settings.get(key);
        let unknown = |slot: &Slot| setting.is_none_or(|s| s.known.get(*slot).is_none_or(Option::is_none));
        self.by_id.iter().filter(|(_, slot)| unknown(slot)).map(|(id, _)| id.clone()).collect()
    }

    /// What runs have of a setting.
    pub(crate) fn learn_setting(&mut self, key: &str, values: Vec<(RunId, Option<Json>)>) {
        let Some(setting) = self.settings.get_or_begin(key) else { return };
        for (id, value) in values {
            let Some(&slot) = self.by_id.get(&id) else { continue };
            if setting.known.len() <= slot {
                setting.known.resize(self.rows.len().max(slot + 1), None);
            }
            if let Some(known) = setting.known.get_mut(slot) {
                *known = Some(value.as_ref().and_then(Value::of_setting));
            }
        }
    }
}
