//! Who may ask: host, origin, key; and what a browser is told (CORS).
//!
//! A server on the loopback interface is within reach of every web page that its user opens. Two checks keep pages out:
//! `Host` must be a name that is ours (a page whose own name was made to point at this machine sends its own name), and
//! `Origin`, which browsers send and others do not, must be our own or one that was allowed.

use crate::ServerConfig;
use crate::anthropic::translate_errors;
use crate::error::ApiError;
use crate::state::Server;
use crate::web;
use axum::body::Body;
use axum::extract::{MatchedPath, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The layer around all routes.
pub(crate) async fn guard(State(server): State<Arc<Server>>, request: Request<Body>, next: Next) -> Response {
    let config = &server.config;
    let allowed = allowed_origin(config, request.headers());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let anthropic = request.uri().path().starts_with("/v1/messages");
    let mut response = match check(config, &request, allowed.is_some()) {
        Err(error) => error.into_response(),
        Ok(()) if is_preflight(&request) && allowed.is_some() => preflight(request.headers()),
        Ok(()) => next.run(request).await,
    };
    log_error(route.as_ref(), &response);
    if anthropic {
        response = translate_errors(response);
    }
    if let Some(origin) = allowed {
        // Error answers too: without the header a page cannot even read what was wrong.
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
    }
    server.metrics.responded(response.status().as_u16());
    response
}

/// A line for each refusal and fault. The route is logged, not the path, which is the client's own text.
fn log_error(route: Option<&MatchedPath>, response: &Response) {
    if let Some(error) = response.extensions().get::<ApiError>() {
        tracing::info!(
            target: "lily_server::request",
            route = route.map(MatchedPath::as_str),
            status = error.status.as_u16(),
            error = error.code.unwrap_or(error.kind),
            param = error.param,
            "refused"
        );
    }
}

fn check(config: &ServerConfig, request: &Request<Body>, cors: bool) -> Result<(), ApiError> {
    let headers = request.headers();
    check_host(config, headers)?;
    if !cors && headers.contains_key(header::ORIGIN) && !is_same_origin(headers) {
        let message = "pages of this origin may not call this server; its operator can allow the origin";
        return Err(ApiError::refused(StatusCode::FORBIDDEN, "origin_not_allowed", message));
    }
    let path = request.uri().path();
    let open = path == "/health" || web::is_open(path) || (cors && is_preflight(request));
    if open || config.api_keys.is_empty() || has_key(config, headers) {
        return Ok(());
    }
    let message = "a valid API key is needed, as Authorization: Bearer KEY or x-api-key: KEY";
    Err(ApiError::refused(StatusCode::UNAUTHORIZED, "invalid_api_key", message))
}

/// Refuses host names that are not ours. With keys there is nothing to guard: a page does not know one.
fn check_host(config: &ServerConfig, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let known = host.to_str().is_ok_and(|host| {
        let name = host_name(host);
        let named = |allowed: &String| allowed == "*" || allowed.eq_ignore_ascii_case(name);
        name.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || name.to_ascii_lowercase().ends_with(".localhost")
            || name.eq_ignore_ascii_case(&config.host)
            || config.allowed_hosts.iter().any(named)
    });
    if known || !config.api_keys.is_empty() {
        return Ok(());
    }
    let message = "this server does not answer to that host name; its operator can allow the name";
    Err(ApiError::refused(StatusCode::FORBIDDEN, "host_not_allowed", message))
}

/// The name in `name:port`, without the brackets of an IPv6 address.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    let (Some(origin), Some(host)) = (headers.get(header::ORIGIN), headers.get(header::HOST)) else {
        return false;
    };
    let origin = origin.as_bytes();
    [b"http://".as_slice(), b"https://"]
        .iter()
        .any(|scheme| origin.strip_prefix(*scheme) == Some(host.as_bytes()))
}

/// What `Access-Control-Allow-Origin` says, if the request's origin was allowed.
fn allowed_origin(config: &ServerConfig, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    if config.cors_origins.iter().any(|allowed| allowed == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    config.cors_origins.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

fn is_preflight(request: &Request<Body>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(asked: &HeaderMap) -> Response {
    const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
    const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers
        .insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    if asked.contains_key(ASKS_PRIVATE) {
        headers.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Compares with every key in constant time, so that timing does not tell how much of a guess was right.
fn has_key(config: &ServerConfig, headers: &HeaderMap) -> bool {
    let bearer = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes).and_then(|value| {
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii())
    });
    let given = bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes)).unwrap_or_default();
    // An empty key, a slip of configuration, lets no one in.
    let keys = config.api_keys.iter().filter(|key| !key.is_empty());
    let matches = keys.map(|key| key.as_bytes().ct_eq(given));
    matches.fold(subtle::Choice::from(0), |any, one| any | one).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                (name, HeaderValue::from_str(value).expect("a value"))
            })
            .collect()
    }

    #[test]
    fn hosts() {
        let config = ServerConfig {
            host: "box.lan".to_owned(),
            allowed_hosts: vec!["ai.example".to_owned()],
            ..ServerConfig::default()
        };
        for host in [
            "localhost:8080",
            "127.0.0.1:8080",
            "[::1]:8080",
            "192.168.0.7",
            "BOX.lan",
            "app.localhost",
            "ai.example:1",
        ] {
            assert_eq!(check_host(&config, &headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", ""] {
            assert!(check_host(&config, &headers(&[("host", host)])).is_err(), "{host}");
        }
    }

    #[test]
    fn same_origin_needs_the_same_port() {
        let same = |origin, host| is_same_origin(&headers(&[("origin", origin), ("host", host)]));
        assert!(same("http://localhost:8080", "localhost:8080"));
        assert!(!same("http://localhost:3000", "localhost:8080"));
        assert!(!same("null", "localhost:8080"));
    }

    #[test]
    fn keys() {
        let config =
            ServerConfig { api_keys: vec!["one".to_owned(), "two".to_owned()], ..ServerConfig::default() };
        for pair in [("authorization", "Bearer two"), ("authorization", "bearer one"), ("x-api-key", "one")] {
            assert!(has_key(&config, &headers(&[pair])), "{pair:?}");
        }
        for pair in [
            ("authorization", "Bearer tw"),
            ("authorization", "two"),
            ("x-api-key", ""),
            ("x-api-key", "onetwo"),
        ] {
            assert!(!has_key(&config, &headers(&[pair])), "{pair:?}");
        }
        assert!(!has_key(&config, &HeaderMap::new()));
    }
}
