//! Rules for bounded text and documents from outside, and the made-up names of unnamed runs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::base::{Invalid, RunId, limits};

/// Checks a name of a run, an experiment or a job.
///
/// # Errors
/// It must have 1 to 256 characters and no control characters.
pub fn check_name(field: &str, name: &str) -> Result<(), Invalid> {
    if name.chars().count() > limits::NAME_CHARS {
        return Err(Invalid::over(field, limits::NAME_CHARS, "characters"));
    }
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Invalid::rule(
            field,
            "a name has at least one visible character and no control characters",
        ));
    }
    Ok(())
}

/// Checks the tags of a run.
///
/// # Errors
/// At most 100, keys of 1 to 128 characters, values of at most 5,000.
pub fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), Invalid> {
    if tags.len() > limits::TAGS {
        return Err(Invalid::over("tags", limits::TAGS, "tags"));
    }
    for (key, value) in tags {
        let field = || format!("tags.{}", key.chars().take(limits::TAG_KEY_CHARS).collect::<String>());
        if key.is_empty() || key.chars().count() > limits::TAG_KEY_CHARS {
            return Err(Invalid::over(
                field(),
                limits::TAG_KEY_CHARS,
                "characters in a key, and at least one,",
            ));
        }
        if value.chars().count() > limits::TAG_VALUE_CHARS {
            return Err(Invalid::over(field(), limits::TAG_VALUE_CHARS, "characters in a value"));
        }
    }
    Ok(())
}

/// Counts what is written.
struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Checks a free-form document such as the settings.
///
/// # Errors
/// At most 1 MiB of JSON and 32 levels.
pub fn check_document(field: &str, document: &Map<String, Value>) -> Result<(), Invalid> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    if 1 + document.values().map(depth).max().unwrap_or(0) > limits::SETTINGS_DEPTH {
        return Err(Invalid::over(field, limits::SETTINGS_DEPTH, "levels of nesting"));
    }
    let mut bytes = Count(0);
    let bytes = serde_json::to_writer(&mut bytes, document).map_or(usize::MAX, |()| bytes.0);
    if bytes > limits::SETTINGS_BYTES {
        return Err(Invalid::over(field, limits::SETTINGS_BYTES, "bytes of JSON"));
    }
    Ok(())
}

/// Cuts a status detail to its limit, keeping its head and its tail: causes stand first or last. NUL, which C strings
/// cannot hold, becomes its picture.
#[must_use]
pub fn cut_detail(text: String) -> String {
    let text = if text.contains('\0') { text.replace('\0', "␀") } else { text };
    let limit = limits::STATUS_DETAIL_BYTES;
    if text.len() <= limit {
        return text;
    }
    let head = text.floor_char_boundary(limit / 2 - 16);
    let tail = text.ceil_char_boundary(text.len() - (limit / 2 - 16));
    format!("{} … {}", text.get(..head).unwrap_or_default(), text.get(tail..).unwrap_or_default())
}

const MANNERS: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clear", "crisp", "deft", "eager", "early", "fair", "fleet", "gentle",
    "grand", "keen", "light", "lively", "lucid", "mellow", "noble", "patient", "plain", "proud", "quick",
    "quiet", "ready", "sharp", "silver", "steady", "still", "sunny", "swift", "warm",
];
const ANIMALS: [&str; 32] = [
    "badger", "bear", "beaver", "crane", "curlew", "deer", "dolphin", "falcon", "finch", "fox", "gull",
    "hare", "heron", "ibex", "jay", "kestrel", "lark", "lynx", "marten", "otter", "owl", "plover", "puffin",
    "raven", "robin", "seal", "stork", "swallow", "swan", "tern", "vole", "wren",
];

/// A name for a run that has none: two words and a number, from its id.
#[must_use]
pub fn made_up_name(id: &RunId) -> String {
    let bytes = *blake3::hash(id.as_str().as_bytes()).as_bytes();
    let pick = |at: usize, n: usize| usize::from(bytes.get(at).copied().unwrap_or(0)) % n;
    let word = |words: &[&'static str; 32], at: usize| words.get(pick(at, 32)).copied().unwrap_or("run");
    format!("{}-{}-{}", word(&MANNERS, 0), word(&ANIMALS, 1), pick(2, 90) + 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_visible_character_and_a_limit() {
        assert!(check_name("name", "käse 🧀 <img src=x>").is_ok());
        assert!(check_name("name", &"ä".repeat(256)).is_ok());
        assert_eq!(check_name("name", &"ä".repeat(257)).unwrap_err().limit, Some(256));
        for bad in ["", "  ", "a\nb", "a\0"] {
            assert!(check_name("name", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_long_detail_keeps_its_head_and_its_tail() {
        let cut = cut_detail(format!("first {} last", "é".repeat(20_000)));
        assert!(cut.len() <= limits::STATUS_DETAIL_BYTES);
        assert!(cut.starts_with("first ") && cut.ends_with(" last"));
    }

    #[test]
    fn documents_are_bounded_in_depth_and_size() {
        let nest = |levels: usize| {
            let value = (1..levels).fold(Value::Null, |v, _| serde_json::json!([v]));
            Map::from_iter([("a".to_owned(), value)])
        };
        assert!(check_document("settings", &nest(32)).is_ok());
        assert_eq!(check_document("settings", &nest(33)).unwrap_err().limit, Some(32));
        let big = Map::from_iter([("a".to_owned(), Value::String("x".repeat(limits::SETTINGS_BYTES)))]);
        assert!(check_document("settings", &big).is_err());
    }

    #[test]
    fn a_made_up_name_is_two_words_and_a_number_and_always_the_same() {
        let id = RunId::parse("r1").unwrap();
        assert_eq!(made_up_name(&id), made_up_name(&id));
        assert_eq!(made_up_name(&id).split('-').count(), 3);
    }
}
