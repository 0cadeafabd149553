//! The committed OpenAPI document is the one that the handlers make. `UPDATE_OPENAPI=1 cargo test --test openapi` writes it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::as_conversions,
    reason = "a test says what it expects by failing; `expect` would have to name just the lints that each file sets off"
)]

use std::path::Path;

#[test]
fn the_committed_document_is_the_one_that_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/trainhead.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&trainhead::head::openapi()).unwrap());
    if std::env::var_os("UPDATE_OPENAPI").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == made,
        "openapi/trainhead.json is not what the handlers make; run UPDATE_OPENAPI=1 cargo test --test openapi, read \
         the difference, and add a line to openapi/CHANGELOG.md"
    );
}

#[test]
fn every_operation_and_parameter_says_what_it_is() {
    let document = serde_json::to_value(trainhead::head::openapi()).unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(operation["summary"].is_string(), "{method} {path} ({id}) has no description");
            assert!(id.contains('_'), "{id} is a verb and a noun");
        }
    }
}
