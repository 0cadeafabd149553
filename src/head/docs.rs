//! The API's description, and a page to try it, served from the binary.

use std::sync::Arc;

use axum::{Extension, Json, Router};
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::router::Head;

/// The OpenAPI document.
pub(super) async fn show_document(Extension(document): Extension<Arc<OpenApi>>) -> Json<OpenApi> {
    Json(OpenApi::clone(&document))
}

/// The page to try the API. Its address of the document is relative, so that it works below a proxy's prefix.
pub(super) fn pages() -> Router<Head> {
    SwaggerUi::new("/docs").config(Config::from("../openapi.json")).into()
}
