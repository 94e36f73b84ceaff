//! A GET over plain HTTP, with limits on time and size.

use super::address::Address;
use anyhow::{Context, Result, bail};
use std::{
    io::{Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

/// For connecting, and for each read.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most of a response.
const MOST_BYTES: u64 = 4 << 20;

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) body: String,
}

/// Asks a server for a path.
pub(super) fn get(server: &Address, path: &str, key: Option<&str>) -> Result<Reply> {
    let mut stream = connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let key = match key {
        Some(key) if key.chars().any(char::is_control) => bail!("the key has a control character"),
        Some(key) => format!("Authorization: Bearer {key}\r\n"),
        None => String::new(),
    };
    let host = server.authority();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{key}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut bytes).context("no answer")?;
    parse(&bytes).context("this is no HTTP server")
}

fn connect(server: &Address) -> Result<TcpStream> {
    let addresses = (server.host.as_str(), server.port).to_socket_addrs().context("no such host")?;
    let mut failed = None;
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => bail!("the host has no address"),
    }
}

fn parse(bytes: &[u8]) -> Result<Reply> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").context("no end of the header")?;
    let head = std::str::from_utf8(&bytes[..end])?;
    let mut lines = head.split("\r\n");
    let status =
        lines.next().and_then(|line| line.strip_prefix("HTTP/1.")).and_then(|line| line.split(' ').nth(1));
    let status = status.and_then(|status| status.parse().ok()).context("no status")?;
    let chunked = lines.any(|line| line.to_ascii_lowercase().replace(' ', "") == "transfer-encoding:chunked");
    let body = &bytes[end + 4..];
    let body = if chunked { dechunk(body)? } else { body.to_vec() };
    Ok(Reply { status, body: String::from_utf8(body)? })
}

fn dechunk(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|two| two == b"\r\n").context("a chunk without a size")?;
        let size = std::str::from_utf8(&rest[..line])?.split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size.trim(), 16)?;
        if size == 0 {
            return Ok(body);
        }
        let begin = line + 2;
        let chunk = begin
            .checked_add(size)
            .and_then(|end| rest.get(begin..end))
            .context("a chunk that is cut off")?;
        body.extend_from_slice(chunk);
        rest = rest.get(begin + size + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_whole_and_chunked() {
        let reply = |text: &str| parse(text.as_bytes());
        assert_eq!(
            reply("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap(),
            Reply { status: 200, body: "hi".into() }
        );
        let chunked =
            "HTTP/1.1 503 Busy\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nhi\r\n3;x=y\r\n yo\r\n0\r\n\r\n";
        assert_eq!(reply(chunked).unwrap(), Reply { status: 503, body: "hi yo".into() });
        for wrong in [
            "",
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhi",
        ] {
            assert!(reply(wrong).is_err(), "{wrong:?}");
        }
    }
}
