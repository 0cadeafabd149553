//! What a validation measured: a file, or the last line of its output that is a JSON object.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::Path,
};

use serde_json::{Map, Value};

use super::Validated;
use crate::{
    base::limits,
    model::metrics::{check_key, flatten},
};

/// A file that is longer holds no metrics.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// So much of the end of the output is looked through.
const OUTPUT_BYTES: u64 = 1024 * 1024;

/// Reads what was measured; what was printed counts from `offset` of the log on.
pub(super) fn read(file: &Path, log: &Path, offset: u64) -> Validated {
    let text = match File::open(file) {
        Ok(file) => {
            let mut text = String::new();
            match file.take(FILE_BYTES).read_to_string(&mut text) {
                Ok(_) => text,
                Err(e) => return Validated::Failed(format!("its metrics file cannot be read: {e}")),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Validated::Failed(format!("its metrics file cannot be read: {e}")),
    };
    let object = if text.trim().is_empty() {
        // It need not measure anything.
        last_object(&output(log, offset).unwrap_or_default()).unwrap_or_default()
    } else {
        match object(&text) {
            Some(object) => object,
            None => return Validated::Failed("its metrics file is not one JSON object".to_owned()),
        }
    };
    match flatten(object) {
        Ok(metrics) => checked(metrics),
        Err(e) => Validated::Failed(format!("what it measured cannot be taken: {e}")),
    }
}

/// Metrics that keep the rules.
pub(super) fn checked(metrics: Vec<(String, f64)>) -> Validated {
    if metrics.len() > limits::CHECKPOINT_METRICS {
        let most = limits::CHECKPOINT_METRICS;
        return Validated::Failed(format!("it measured {} values; at most {most} are kept", metrics.len()));
    }
    match metrics.iter().try_for_each(|(key, _)| check_key(key)) {
        Ok(()) => Validated::Metrics(metrics.into_iter().collect()),
        Err(e) => Validated::Failed(format!("what it measured cannot be taken: {e}")),
    }
}

/// The end of what was printed.
fn output(log: &Path, offset: u64) -> io::Result<String> {
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(offset.max(size.saturating_sub(OUTPUT_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(OUTPUT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_object(output: &str) -> Option<Map<String, Value>> {
    output.lines().rev().find_map(object)
}

fn object(text: &str) -> Option<Map<String, Value>> {
    let text = text.trim();
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&with_odd_floats_quoted(text))).ok()
}

/// Python's `json` writes NaN and the infinities as they are, which is no JSON: here they are strings.
fn with_odd_floats_quoted(text: &str) -> Cow<'_, str> {
    let (mut out, mut rest, mut in_string) = (String::with_capacity(text.len() + 16), text, false);
    while let Some(c) = rest.chars().next() {
        let odd = ["NaN", "Infinity", "-Infinity"].into_iter().find(|word| rest.starts_with(word));
        let taken = match odd {
            Some(word) if !in_string => {
                out.extend(['"'].into_iter().chain(word.chars()).chain(['"']));
                word.len()
            }
            _ if in_string && c == '\\' => rest.char_indices().nth(2).map_or(rest.len(), |(at, _)| at),
            _ => {
                in_string ^= c == '"';
                c.len_utf8()
            }
        };
        let (now, later) = rest.split_at(taken);
        if odd.is_none() || in_string {
            out.push_str(now);
        }
        rest = later;
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(file: Option<&str>, output: &str, offset: u64) -> Validated {
        let dir = tempfile::tempdir().unwrap();
        let (path, log) = (dir.path().join("m.json"), dir.path().join("log"));
        if let Some(text) = file {
            std::fs::write(&path, text).unwrap();
        }
        std::fs::write(&log, output).unwrap();
        read(&path, &log, offset)
    }

    fn metrics(expected: &[(&str, f64)]) -> Validated {
        Validated::Metrics(expected.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
    }

    #[test]
    fn the_file_counts_or_else_the_last_line_that_is_an_object() {
        let printed =
            "{\"a\": 1}\nloading\n  {\"a\": 2, \"val\": {\"loss\": 0.5, \"ok\": true}}  \n{broken}\ndone\n";
        let expected = metrics(&[("a", 2.0), ("val/loss", 0.5), ("val/ok", 1.0)]);
        assert_eq!(measured(None, printed, 0), expected);
        assert_eq!(measured(Some(" \n"), printed, 0), expected, "an empty file says nothing");
        assert_eq!(measured(Some("{\n \"b\": 3\n}\n"), printed, 0), metrics(&[("b", 3.0)]));
        assert_eq!(measured(None, printed, 9), expected);
        assert_eq!(measured(None, "{\"a\": 1}\nnext try\n", 9), metrics(&[]), "that was another try");
        assert_eq!(measured(None, "", 0), metrics(&[]));
    }

    #[test]
    fn what_is_no_number_is_refused_by_its_name() {
        for (text, named) in [
            ("{\"val\": {\"name\": \"best\"}}", "val/name"),
            ("{\"a\": [1]}", "metrics.a"),
            ("{\"a\": null}", "metrics.a"),
        ] {
            for refused in [measured(Some(text), "", 0), measured(None, text, 0)] {
                assert!(matches!(&refused, Validated::Failed(why) if why.contains(named)), "{refused:?}");
            }
        }
        let refused = measured(Some("[1]"), "", 0);
        assert!(matches!(&refused, Validated::Failed(why) if why.contains("not one JSON object")));
        let many = (0..=limits::CHECKPOINT_METRICS).map(|i| (i.to_string(), 0.0)).collect();
        assert!(matches!(checked(many), Validated::Failed(_)));
    }

    #[test]
    fn floats_as_python_writes_them_are_taken() {
        let text = r#"{"a": NaN, "b": [{"c": -Infinity}], "NaN \" NaN": Infinity, "e\\": 1.5}"#;
        let expected = r#"{"a": "NaN", "b": [{"c": "-Infinity"}], "NaN \" NaN": "Infinity", "e\\": 1.5}"#;
        assert_eq!(with_odd_floats_quoted(text), expected);
        let Validated::Metrics(found) = measured(Some("{\"loss\": NaN}"), "", 0) else { panic!() };
        assert!(found["loss"].is_nan());
    }
}
