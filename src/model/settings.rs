//! What a run was started with, as it is kept: JSON as text. It is stored and shown as a whole at every change of the run,
//! and only few look into it; as a tree it would be several times as large.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer, de::DeserializeOwned};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

/// Settings of a run: a JSON object.
#[derive(Clone, Debug)]
pub struct Settings(Box<RawValue>);

impl Settings {
    /// Settings as they were kept.
    ///
    /// # Errors
    /// When the text is no JSON object.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        let settings = Self(RawValue::from_string(text)?);
        members(&settings.0).map(drop)?;
        Ok(settings)
    }

    /// The JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// One of them, if there is one that is of this shape.
    #[must_use]
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let members = members(&self.0).ok()?;
        serde_json::from_str(members.get(name)?.get()).ok()
    }

    /// What stands at a path, `a/b` for `b` of `a`, as the dashboard names them; objects that hold anything are no value
    /// but a part of the path. Names may hold slashes, too.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<Value> {
        fn within(object: &RawValue, path: &str) -> Option<Value> {
            let members = members(object).ok()?;
            if let Some(value) = members.get(path) {
                let value: Value = serde_json::from_str(value.get()).ok()?;
                if value.as_object().is_none_or(Map::is_empty) {
                    return Some(value);
                }
            }
            members.iter().find_map(|(name, inner)| {
                let rest = path.strip_prefix(name.as_str())?.strip_prefix('/')?;
                inner.get().starts_with('{').then(|| within(inner, rest))?
            })
        }
        within(&self.0, path)
    }

    /// All of them.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }
}

fn members(object: &RawValue) -> Result<BTreeMap<String, &RawValue>, serde_json::Error> {
    serde_json::from_str(object.get())
}

impl From<Map<String, Value>> for Settings {
    fn from(map: Map<String, Value>) -> Self {
        // A map of JSON always is JSON.
        Self(to_raw_value(&map).unwrap_or_default())
    }
}

impl PartialEq for Settings {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_stands_at_a_path_is_found_as_it_is_named_in_lists() {
        let settings =
            json!({"opt": {"lr": 0.1, "a/b": {"c": "x"}}, "opt/lr": 2, "e": {}, "n": null, "l": [1]});
        let Value::Object(map) = settings else { panic!() };
        let settings = Settings::from(map);
        assert_eq!(settings.at("opt/lr"), Some(json!(2)));
        assert_eq!(settings.at("opt/a/b/c"), Some(json!("x")));
        assert_eq!(settings.at("e"), Some(json!({})));
        assert_eq!((settings.at("n"), settings.at("l")), (Some(Value::Null), Some(json!([1]))));
        for none in ["opt", "opt/", "lr", "", "opt/lr/x", "l/0", "e/x"] {
            assert_eq!(settings.at(none), None, "{none}");
        }
    }

    #[test]
    fn settings_are_an_object_and_come_back_as_they_were() {
        let Value::Object(map) = json!({"b": [1, {"c": "ä\n\"x\""}], "a": 1e300, "n": 7}) else { panic!() };
        let settings = Settings::from(map.clone());
        assert_eq!(Settings::parse(settings.as_json().to_owned()).unwrap(), settings);
        assert_eq!(settings.to_map(), map);
        assert_eq!(serde_json::to_value(&settings).unwrap(), Value::Object(map));
        assert_eq!(
            (settings.get("n"), settings.get::<String>("n"), settings.get::<i64>("x")),
            (Some(7), None, None)
        );
        for bad in ["", "[", "[1]", "3", "null", "{} {}", "{\"a\":}"] {
            assert!(Settings::parse(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
