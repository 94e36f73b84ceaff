//! The web page at `/`: a chat in the browser, compiled into the binary.
//!
//! The page is a few files without a build step: `assets/index.html`, one style sheet and plain ES modules. It speaks
//! `/v1/chat/completions` as any client does. Its policy lets it load from and talk to its own origin only, and makes
//! every sink that could turn text into markup or code refuse text. The files hold nothing secret, so they are given out
//! without a key; what a key protects, the page asks for with the key that its user types.

use crate::state::Server;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use std::sync::Arc;

/// Where everything but the page itself lies.
const FOLDER: &str = "/web/";

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! asset {
    ($name:literal, $kind:expr) => {
        Asset { name: $name, kind: $kind, bytes: include_bytes!(concat!("assets/", $name)) }
    };
}

const PAGE: Asset = asset!("index.html", HTML);

const ASSETS: &[Asset] = &[
    asset!("style.css", "text/css; charset=utf-8"),
    asset!("lily.svg", "image/svg+xml"),
    asset!("early.js", SCRIPT),
    asset!("main.js", SCRIPT),
    asset!("api.js", SCRIPT),
    asset!("conversation.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("generation.js", SCRIPT),
    asset!("markdown.js", SCRIPT),
    asset!("settings.js", SCRIPT),
    asset!("sse.js", SCRIPT),
    asset!("store.js", SCRIPT),
    asset!("theme.js", SCRIPT),
    asset!("view.js", SCRIPT),
];

/// What the page may do: load and ask from its own origin, and never turn text into markup or code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The page's routes.
pub(crate) fn router() -> Router<Arc<Server>> {
    Router::new()
        .route("/", get(async || respond(&PAGE)))
        .route("/web/config.json", get(config))
        .route("/web/{name}", get(file))
}

/// True for paths that are given out without a key.
pub(crate) fn is_open(path: &str) -> bool {
    path == "/" || path.starts_with(FOLDER)
}

async fn file(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => respond(asset),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn respond(asset: &Asset) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of the binary brings another page.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let mut response = ([(header::CONTENT_TYPE, asset.kind)], asset.bytes).into_response();
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

/// What the page must know before the first request: whether a key is needed, and the values that hold where a request
/// sets none.
async fn config(State(server): State<Arc<Server>>) -> Json<Value> {
    let defaults = &server.model.defaults;
    // As short as the checkpoint's file has it: 0.95, not 0.949999988.
    let short = |value: f32| value.to_string().parse::<f64>().unwrap_or_else(|_| value.into());
    Json(json!({
        "needs_key": !server.config.api_keys.is_empty(),
        "defaults": {
            "temperature": short(defaults.temperature),
            "top_p": short(defaults.top_p),
            "top_k": defaults.top_k,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file that a file of the page names is there, and none names another place.
    #[test]
    fn files_name_one_another_and_nothing_else() {
        let all = || std::iter::once(&PAGE).chain(ASSETS);
        let mut named = vec!["config.json"];
        for asset in all() {
            let text = std::str::from_utf8(asset.bytes).expect("UTF-8");
            for rest in text.split(FOLDER).skip(1) {
                let end = rest.find(['"', '\'', ')']).expect("a quote");
                let name = &rest[..end];
                let known = name == "config.json" || ASSETS.iter().any(|asset| asset.name == name);
                assert!(known, "{} names {name}", asset.name);
                named.push(ASSETS.iter().find(|asset| asset.name == name).map_or("config.json", |a| a.name));
            }
            for scheme in ["http:", "https:"] {
                for rest in text.split(scheme).skip(1) {
                    // A name space is no address, and the list of safe schemes is none.
                    let fine = rest.starts_with("//www.w3.org/2000/svg\"") || rest.starts_with('"');
                    assert!(fine, "{} names {scheme}{}", asset.name, &rest[..rest.len().min(30)]);
                }
            }
            for sink in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", " style="]
            {
                assert!(!text.contains(sink), "{} has {sink}", asset.name);
            }
        }
        for asset in ASSETS {
            assert!(named.contains(&asset.name), "nothing names {}", asset.name);
        }
    }
}
