//! `lily top`, against a server that answers from memory.

use crate::process::{done, lily};
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

const METRICS: &str = "# TYPE lily_running gauge\nlily_running 2\nlily_waiting 1\nlily_generated_tokens_total 500\n\
    lily_answers_total{finish=\"stop\"} 7\nlily_prompt_tokens_total 200\nlily_cached_tokens_total 150\n\
    lily_snapshots 3\nlily_snapshot_bytes 2500000\nlily_time_to_first_token_seconds_bucket{le=\"0.1\"} 4\n\
    lily_time_to_first_token_seconds_bucket{le=\"+Inf\"} 4\n";
const HEALTH: &str =
    r#"{"status": "ok", "model": "some-model", "backend": "CPU", "context": 4096, "version": "0.1.0"}"#;

/// A server that gives these answers until the test's process ends; its port.
fn serve(key: Option<&'static str>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read > 0) {
                request.push(byte[0]);
            }
            let request = String::from_utf8_lossy(&request);
            let allowed = key.is_none_or(|key| request.contains(&format!("Authorization: Bearer {key}\r\n")));
            let (status, body) = match request.split(' ').nth(1) {
                _ if !allowed => ("401 Unauthorized", "{}"),
                Some("/metrics") => ("200 OK", METRICS),
                Some("/health") => ("200 OK", HEALTH),
                _ => ("404 Not Found", ""),
            };
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    port
}

#[test]
fn one_report_without_a_terminal() {
    let address = format!("127.0.0.1:{}", serve(None));
    let text = done(["top", &address, "--interval", "0.1"]).success().stdout;
    for words in [
        "some-model",
        "2 running",
        "1 waiting",
        "75 % cached",
        "2.50 MB",
        "7 stop",
        "first token",
        "500 generated",
    ] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_key_is_shown_and_asked_for() {
    let address = format!("127.0.0.1:{}", serve(Some("secret")));
    let refused = done(["top", &address, "--once"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--api-key"), "{}", refused.stderr);
    let args = ["top", &address, "--once", "--interval", "0.1", "--api-key", "secret"];
    assert!(done(args).success().stdout.contains("some-model"));
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let gone = done(["top", &format!("127.0.0.1:{port}"), "--once"]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stderr.contains("cannot watch") && gone.stderr.contains("hint:"), "{}", gone.stderr);
}

#[cfg(unix)]
#[test]
fn on_a_terminal_it_draws_waits_and_leaves_the_terminal_as_it_was() {
    use rexpect::session::spawn_command;
    use std::process::Stdio;

    for (there, words) in [(true, "some-model"), (false, "not reachable")] {
        let port = if there {
            serve(None)
        } else {
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port()
        };
        let mut command = lily(["top", &format!("127.0.0.1:{port}"), "--interval", "0.2"]);
        command.stdin(Stdio::inherit()).env("TERM", "xterm");
        let mut session = spawn_command(command, Some(60_000)).expect("the binary starts on a terminal");
        session.exp_string("\u{1b}[?1049h").expect("the second screen");
        session.exp_string(words).expect("what there is to see");
        session.send("q").expect("sent");
        session.flush().expect("sent");
        let rest = session.exp_eof().expect("it ends");
        assert!(rest.contains("\u{1b}[?1049l") && rest.contains("\u{1b}[?25h"), "{rest:?}");
        let status = session.process().wait().expect("a status");
        assert!(format!("{status:?}").ends_with(", 0)"), "{status:?}");
    }
}
