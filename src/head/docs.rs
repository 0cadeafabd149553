//! The API's description, and a page to try it, served from the binary.

use axum::Router;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::router::Head;

/// The page to try the API. Its address of the document is relative, so that it works below a proxy's prefix.
pub(super) fn pages() -> Router<Head> {
    SwaggerUi::new("/docs").config(Config::from("../openapi.json")).into()
}
