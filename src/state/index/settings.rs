//! Values of settings, to order runs by them: read from disk for the keys that are asked for, and kept for the last few.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value as Json;

use super::{RunIndex, Slot, order::Value};
use crate::base::RunId;

/// Keys whose values are kept: 3 MB each for 100,000 runs with numbers, with texts up to 10 MB.
const KEPT: usize = 8;

/// What is known of one setting of all runs.
#[derive(Debug)]
pub(super) struct Setting {
    key: Box<str>,
    /// By slot. None: not read yet, or no run stands there.
    known: Vec<Option<Option<Value>>>,
    /// When it was last asked for, counted by what was asked.
    used: AtomicU64,
}

impl Setting {
    pub(super) fn value(&self, slot: Slot) -> Option<&Value> {
        self.known.get(slot)?.as_ref()?.as_ref()
    }
}

/// The settings that are kept.
#[derive(Debug, Default)]
pub(super) struct Settings {
    kept: Vec<Setting>,
    asked: AtomicU64,
}

impl Settings {
    pub(super) fn get(&self, key: &str) -> Option<&Setting> {
        let setting = self.kept.iter().find(|setting| *setting.key == *key)?;
        setting.used.store(self.asked.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(setting)
    }

    /// Another run stands there, or the same one with other settings.
    pub(super) fn forget(&mut self, slot: Slot) {
        for known in self.kept.iter_mut().filter_map(|setting| setting.known.get_mut(slot)) {
            *known = None;
        }
    }

    fn get_or_begin(&mut self, key: &str) -> Option<&mut Setting> {
        if self.get(key).is_none() {
            let used = |at: &usize| self.kept.get(*at).map(|setting| setting.used.load(Ordering::Relaxed));
            if self.kept.len() == KEPT
                && let Some(longest_ago) = (0..KEPT).min_by_key(used)
            {
                self.kept.remove(longest_ago);
            }
            let used = AtomicU64::new(self.asked.fetch_add(1, Ordering::Relaxed));
            self.kept.push(Setting { key: key.into(), known: Vec::new(), used });
        }
        self.kept.iter_mut().find(|setting| *setting.key == *key)
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
