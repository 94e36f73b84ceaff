//! Where a server is.

use std::{fmt, str::FromStr};

/// Host and port of an `http://` address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// A name, or an IP address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Address {
    type Err = String;

    /// `http://host:port`, `host:port`, `host` or `:port`; a path is not taken.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err("https is not spoken here; name the server's own http address".to_owned());
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("a `]` is missing")?,
            None => rest.find(':').map_or((rest, ""), |colon| rest.split_at(colon)),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| format!("{port:?} is no port"))?,
            None if port.is_empty() => 80,
            None => return Err(format!("{port:?} is not expected behind the host")),
        };
        let host = if host.is_empty() { "127.0.0.1" } else { host };
        if host.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '?' | '#')) {
            return Err("expected http://HOST:PORT".to_owned());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl Address {
    /// As the header `Host` has it.
    pub(super) fn authority(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_their_forms() {
        for (text, shown) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://box.lan:1/", "http://box.lan:1"),
            ("localhost:8080", "http://localhost:8080"),
            (":9000", "http://127.0.0.1:9000"),
            ("box", "http://box:80"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for wrong in
            ["https://x", "http://a:b", "http://a/b", "http://a:80/metrics", "[::1", "a b", "http://u@h"]
        {
            assert!(wrong.parse::<Address>().is_err(), "{wrong}");
        }
    }
}
