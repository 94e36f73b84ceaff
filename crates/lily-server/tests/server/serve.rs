//! The server on a real socket.

use crate::app::Setup;
use crate::script::Seen;
use lily_engine::Engine;
use lily_server::{ServeError, ServerConfig, serve};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Running {
    address: SocketAddr,
    engine: Engine,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

async fn start(mut setup: Setup) -> Running {
    setup.config.port = 0;
    let model = setup.model();
    let engine = model.engine.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let (tell, told) = oneshot::channel();
    let config = setup.config.clone();
    let task = tokio::spawn(async move {
        let stopped = async move { drop(stopped.await) };
        serve(config, model, |address| tell.send(address).expect("the test waits for it"), stopped).await
    });
    Running { address: told.await.expect("an address"), engine, stop, task }
}

impl Running {
    /// Stops the server, which must end well.
    async fn end(self) {
        drop(self.stop);
        self.task.await.expect("no panic").expect("a clean end");
    }

    /// Waits until nothing is generated any more. `what` names the case.
    async fn is_idle_within(&self, limit: Duration, what: &str) {
        let started = Instant::now();
        while self.engine.metrics().running > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(started.elapsed() < limit, "{what:?}: the generation goes on");
        }
    }
}

/// Waits until so many tokens have been decoded.
async fn decodes_until(seen: &Seen, count: usize) {
    while seen.decoded.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sends a chat request and returns the open connection.
async fn ask(address: SocketAddr, fields: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let body = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"Hi\"}}],\"enable_thinking\":false{fields}}}"
    );
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    stream
}

async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let count = stream.read(&mut buffer).await.expect("read");
        assert!(count > 0, "{wanted:?} did not come: {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_frees_its_place_at_once() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(1);
    let seen = setup.script.seen.clone();
    let running = start(setup).await;
    for fields in [",\"stream\":true", ""] {
        let before = seen.decoded.load(Ordering::Relaxed);
        let mut stream = ask(running.address, fields).await;
        if fields.is_empty() {
            decodes_until(&seen, before + 20).await;
        } else {
            read_until(&mut stream, "word").await;
        }
        drop(stream);
        running.is_idle_within(Duration::from_secs(2), fields).await;
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_lets_an_answer_finish() {
    let mut setup = Setup::new(&"word ".repeat(100));
    setup.script.decode_time = Duration::from_millis(5);
    let running = start(setup).await;
    let mut stream = ask(running.address, ",\"stream\":true").await;
    read_until(&mut stream, "word").await;
    drop(running.stop);
    let rest = read_until(&mut stream, "[DONE]").await;
    assert!(rest.contains("\"finish_reason\":\"stop\""), "{rest}");
    running.task.await.expect("no panic").expect("a clean end");
    assert!(TcpStream::connect(running.address).await.is_err(), "the port is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_ends_what_takes_longer_than_the_grace() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(5);
    setup.config.limits.shutdown_grace = Duration::from_millis(100);
    let running = start(setup).await;
    let mut stream = ask(running.address, ",\"stream\":true").await;
    read_until(&mut stream, "word").await;
    let started = Instant::now();
    drop(running.stop);
    let rest = read_until(&mut stream, "\"error\"").await;
    assert!(rest.contains("shutting down") && !rest.contains("[DONE]"), "{rest}");
    running.task.await.expect("no panic").expect("a clean end");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_header_does_not_hold_a_connection() {
    let mut setup = Setup::new("Hello.");
    setup.config.limits.header_timeout = Duration::from_millis(100);
    let running = start(setup).await;
    let mut stream = TcpStream::connect(running.address).await.expect("a connection");
    stream.write_all(b"POST /v1/chat").await.expect("written");
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(2), stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection stayed open");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_an_error_that_names_it() {
    let running = start(Setup::new("Hello.")).await;
    let config = ServerConfig { port: running.address.port(), ..ServerConfig::default() };
    let error = serve(config, Setup::new("Hello.").model(), |_| {}, async {}).await.expect_err("taken");
    assert!(error.to_string().contains(&running.address.to_string()), "{error}");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loopback_is_the_default() {
    assert_eq!(ServerConfig::default().host, "127.0.0.1");
    let running = start(Setup::new("Hello.")).await;
    assert!(running.address.ip().is_loopback());
    running.end().await;
}

/// Sends a chat request and closes this half of the connection, as `nc` does; then the answer is read.
async fn ask_and_finish(address: SocketAddr, fields: &str) -> TcpStream {
    let mut stream = ask(address, fields).await;
    stream.shutdown().await.expect("half of it is closed");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_no_more_gets_its_answer() {
    let mut setup = Setup::new(&"word ".repeat(100));
    setup.script.decode_time = Duration::from_millis(2);
    let running = start(setup).await;
    for (fields, last) in [("", "\"finish_reason\":\"stop\""), (",\"stream\":true", "[DONE]")] {
        let mut stream = ask_and_finish(running.address, fields).await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("text");
        assert!(text.contains("200 OK") && text.contains(last), "{text}");
        // What comes before is an interim response, or a comment.
        assert!(text.starts_with("HTTP/1.1 "), "{text}");
    }
    // An answer that is there at once is nothing but itself.
    let mut stream = ask_and_finish(running.address, ",\"max_tokens\":0").await;
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("text");
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    assert_eq!(running.engine.metrics().cancelled, 0);
    running.end().await;
}

/// Bytes behind a request, such as a line's end or the next request, do not hide that the client is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_said_more_and_hangs_up_is_cancelled() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(1);
    let seen = setup.script.seen.clone();
    let running = start(setup).await;
    let long = "x".repeat(20_000);
    let next = format!("GET /health HTTP/1.1\r\nhost: {}\r\n\r\n", running.address);
    let large = format!("GET /health HTTP/1.1\r\nhost: x\r\nx-long: {long}\r\n\r\n");
    for (more, later) in [("\r\n", ""), ("", "\r\n"), (&*next, ""), (&*next, &*next), (&*large, &*large)] {
        for half in [false, true] {
            let before = seen.decoded.load(Ordering::Relaxed);
            let mut stream = ask_and_go_on(running.address, more).await;
            decodes_until(&seen, before + 20).await;
            stream.write_all(later.as_bytes()).await.expect("written");
            if half {
                stream.shutdown().await.expect("half of it is closed");
            }
            drop(stream);
            running.is_idle_within(Duration::from_secs(1), more).await;
        }
    }
    running.end().await;
}

/// Requests one behind the other are all answered, in their order, also those that come while an answer is made and
/// those of a client that says no more.
#[tokio::test(flavor = "multi_thread")]
async fn requests_behind_each_other_are_all_answered() {
    let mut setup = Setup::new(&"word ".repeat(100));
    setup.script.decode_time = Duration::from_millis(2);
    let seen = setup.script.seen.clone();
    let running = start(setup).await;
    let long = "x".repeat(5_000);
    let head = format!("GET /health HTTP/1.1\r\nhost: {}\r\n", running.address);
    let next = format!("{head}x-long: {long}\r\n\r\n");
    let last = format!("{head}connection: close\r\n\r\n");
    for half in [false, true] {
        for (more, later) in
            [(format!("\r\n{next}"), format!("{next}{last}")), (String::new(), format!("{next}{next}{last}"))]
        {
            let before = seen.decoded.load(Ordering::Relaxed);
            let mut stream = ask_and_go_on(running.address, &more).await;
            decodes_until(&seen, before + 20).await;
            stream.write_all(later.as_bytes()).await.expect("written");
            if half {
                stream.shutdown().await.expect("half of it is closed");
            }
            let mut text = String::new();
            let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut text)).await;
            end.expect("the connection stayed open").expect("text");
            let (answer, rest) = text.split_once("\"finish_reason\":\"stop\"").expect("the whole answer");
            assert!(answer.contains("word word"), "{text}");
            assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 3, "{text}");
        }
    }
    assert_eq!(running.engine.metrics().cancelled, 0);
    running.end().await;
}

/// Sends a chat request that leaves its connection open, and more behind it.
async fn ask_and_go_on(address: SocketAddr, more: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let body = r#"{"messages":[{"role":"user","content":"Hi"}],"enable_thinking":false}"#;
    let length = body.len();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}{more}"
    );
    stream.write_all(request.as_bytes()).await.expect("written");
    stream
}

/// Closing one half first does not hide that the client is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_no_more_and_leaves_is_cancelled() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(1);
    let seen = setup.script.seen.clone();
    let running = start(setup).await;
    for fields in [",\"stream\":true", ""] {
        let before = seen.decoded.load(Ordering::Relaxed);
        let stream = ask_and_finish(running.address, fields).await;
        decodes_until(&seen, before + 20).await;
        drop(stream);
        running.is_idle_within(Duration::from_secs(8), fields).await;
    }
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_body_is_not_waited_for() {
    let running = start(Setup::new("Hello.")).await;
    let mut stream = TcpStream::connect(running.address).await.expect("a connection");
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-length: 100\r\n\r\n{{",
        running.address
    );
    stream.write_all(head.as_bytes()).await.expect("written");
    stream.shutdown().await.expect("half of it is closed");
    let mut rest = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    assert!(end.is_ok(), "the connection stayed open");
    running.end().await;
}

/// HTTP/1.0 has no interim responses: its client gets what is there at once, and then counts as gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_old_that_says_no_more() {
    let mut setup = Setup::new(&"word ".repeat(10_000));
    setup.script.decode_time = Duration::from_millis(1);
    let running = start(setup).await;
    for (body, answered) in [("{}", true), ("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", false)]
    {
        let mut stream = TcpStream::connect(running.address).await.expect("a connection");
        let head =
            format!("POST /v1/chat/completions HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(head.as_bytes()).await.expect("written");
        stream.shutdown().await.expect("half of it is closed");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("text");
        assert_eq!(text.starts_with("HTTP/1.0 400"), answered, "{text}");
        assert_eq!(text.is_empty(), !answered, "{text}");
    }
    running.end().await;
}
