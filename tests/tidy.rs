//! The house rules that the compiler does not know: which layer may use which, and how long a file may be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The layers, ground floor first. `controller` and `head` stand side by side.
const LAYERS: [&str; 7] = ["base", "model", "store", "state", "controller", "head", "cli"];
const LINES: usize = 400;

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            // A directory of tests is as what stands below `#[cfg(test)]`.
            if path.is_dir() && !path.ends_with("tests") {
                walk(&path, out);
            } else if path.is_file() && path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths
        .into_iter()
        .filter_map(|path| {
            let layer = path.strip_prefix(&root).unwrap().components().next().unwrap();
            let layer = layer.as_os_str().to_str().unwrap().to_owned();
            let text = fs::read_to_string(&path).unwrap();
            LAYERS.contains(&layer.as_str()).then_some((layer, path, text))
        })
        .collect()
}

/// A file without its tests.
fn code(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]").map_or(text, |(code, _)| code)
}

#[test]
fn a_layer_uses_only_layers_before_it() {
    for (layer, path, text) in sources() {
        let own = LAYERS.iter().position(|l| *l == layer).unwrap();
        for (i, other) in LAYERS.iter().enumerate() {
            let sideways = layer == "head" && *other == "controller";
            if i <= own && !sideways {
                continue;
            }
            for line in code(&text).lines().filter(|line| !line.trim_start().starts_with("//")) {
                let direct = line.contains(&format!("crate::{other}"));
                // A grouped import: `use crate::{` on a line of its own, the layer on a later one.
                let grouped = line.starts_with(&format!("    {other}::")) && text.contains("use crate::{");
                assert!(!direct && !grouped, "{} uses {other}: {line}", path.display());
            }
        }
    }
}

#[test]
fn what_a_layer_must_not_know_it_does_not_name() {
    for (layer, path, text) in sources() {
        let code = code(&text);
        let file = path.file_name().unwrap().to_str().unwrap();
        let must_not = |word: &str, why: &str| {
            let named = code.lines().any(|l| !l.trim_start().starts_with("//") && l.contains(word));
            assert!(!named, "{} names {word}: {why}", path.display());
        };
        if layer != "store" {
            must_not("sqlx::", "SQL is the store's");
        }
        if layer != "head" && file != "session_server.rs" {
            must_not("axum::", "HTTP is the head's and the session server's");
        }
        if layer == "model" {
            for word in ["tokio", "std::fs", "std::time::Instant", "SystemTime", ".now()"] {
                must_not(word, "the model is pure");
            }
        }
        if !(layer == "controller" && file == "process.rs") {
            must_not("unsafe {", "only process.rs may");
        }
        if layer != "cli" {
            must_not("anyhow", "only the command line has errors without a type");
        }
    }
}

#[test]
fn no_file_is_longer_than_a_subject_needs_and_each_says_what_it_is_for() {
    for (_, path, text) in sources() {
        let lines = code(&text).lines().count();
        assert!(lines <= LINES, "{} has {lines} lines", path.display());
        assert!(text.starts_with("//!"), "{} does not say what it is for", path.display());
    }
}

#[test]
fn nothing_outside_the_state_can_change_a_run() {
    for (layer, path, text) in sources() {
        if matches!(layer.as_str(), "store" | "state") {
            continue;
        }
        for word in ["Writer", "Batch", "store::"] {
            let named = code(&text).lines().any(|l| l.contains("crate::store") && l.contains(word));
            assert!(!named, "{} reaches into the store", path.display());
        }
    }
}
