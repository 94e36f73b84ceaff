//! `lily serve`: starts, answers, ends.

use crate::process::{Done, done, lily};
use std::{
    io::{BufRead, BufReader, Lines, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Stdio},
};

/// A server on a free port; killed if a test fails.
struct Server {
    child: Child,
    address: String,
    /// What it tells after its address.
    log: Lines<BufReader<ChildStderr>>,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut child = lily(["serve", "--port", "0"].iter().chain(args))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut server = Self { child, address: String::new(), log };
        let mut seen = Vec::new();
        while let Some(Ok(line)) = server.log.next() {
            if let Some(address) = line.strip_prefix("listening on http://") {
                server.address = address.to_owned();
                return server;
            }
            seen.push(line);
        }
        panic!("the server never listened: {seen:#?}");
    }

    /// Status line and body of an answer.
    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).expect("connected");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        (head.lines().next().expect("a status").to_owned(), body.to_owned())
    }

    fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn answers_and_ends_on_a_signal() {
    let mut server = Server::start(&[]);
    let (status, body) = server.get("/v1/models");
    assert!(status.contains("200") && body.contains("lily-nano"), "{status} {body}");

    let body = r#"{"messages": [{"role": "user", "content": "Hi"}], "temperature": 0, "chat_template_kwargs": {"enable_thinking": false}}"#;
    let head = format!(
        "Host: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    let (status, answer) = server.ask(&format!("POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n\r\n{body}"));
    assert!(
        status.contains("200") && answer.contains("Hello! How can I help you today?"),
        "{status} {answer}"
    );

    #[cfg(unix)]
    {
        let pid = server.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
    }
}

#[test]
fn an_answer_is_a_line_of_the_log_without_its_text() {
    let mut server = Server::start(&[]);
    let body = r#"{"prompt": "a secret", "max_tokens": 1}"#;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (status, _) = server.ask(&(head + body));
    assert!(status.contains("200"), "{status}");
    let line = server.log.next().expect("a line").expect("text");
    assert!(line.contains("route=\"completions\"") && line.contains("finish=\"length\""), "{line}");
    assert!(!line.contains("secret"), "{line}");
}

#[test]
fn keys_are_asked_for() {
    let server = Server::start(&["--api-key", "secret"]);
    let (status, _) = server.get("/v1/models");
    assert!(status.contains("401"), "{status}");
}

/// `--api-key "$UNSET"` once opened the server to everybody, and hid the warning that it does.
#[test]
fn an_empty_key_opens_no_server() {
    let refused = |done: Done| {
        assert_eq!(done.code, Some(2), "{done:#?}");
        assert!(done.stderr.contains("--api-key") && done.stderr.contains("LILY_API_KEY"), "{done:#?}");
    };
    for keys in [&["--api-key", ""][..], &["--api-key", " "], &["--api-key", "secret", "--api-key="]] {
        refused(done(["serve", "--port", "0", "--host", "0.0.0.0"].iter().chain(keys)));
    }
    let mut command = lily(["serve", "--port", "0"]);
    refused(command.env("LILY_API_KEY", "").output().expect("the binary starts").into());
}

#[test]
fn an_address_that_is_taken_is_told() {
    let server = Server::start(&[]);
    let port = server.address.rsplit(':').next().expect("a port");
    let done = done(["serve", "--port", port]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains(port) && done.stderr.contains("hint:"), "{}", done.stderr);
}

#[test]
fn a_host_that_is_not_this_machine_is_told_as_such() {
    // An address for documentation (RFC 5737): no machine has it.
    let done = done(["serve", "--port", "0", "--host", "192.0.2.1"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("192.0.2.1:0") && done.stderr.contains("hint: --host"), "{}", done.stderr);
    assert!(!done.stderr.contains("port with"), "{}", done.stderr);
}
