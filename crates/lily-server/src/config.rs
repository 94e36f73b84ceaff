//! How a server is set up: [`ServerConfig`].

use std::time::Duration;

/// Settings of a server. The default listens on the loopback interface only, asks for no key and sends no CORS headers.
#[derive(Clone)]
pub struct ServerConfig {
    /// Address or name to listen on.
    pub host: String,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// Further names under which the model is listed and answers.
    pub aliases: Vec<String>,
    /// Refuse a request whose `model` is neither the model's id nor an alias (404). Else any name is served by the one
    /// model loaded, and the answer's `model` field says which that is.
    pub strict_model: bool,
    /// Keys of which a client must show one (`Authorization: Bearer KEY` or `x-api-key: KEY`); empty asks for none.
    pub api_keys: Vec<String>,
    /// Origins that a browser page may call from (`http://localhost:3000`); `*` is any; empty sends no CORS headers and
    /// refuses requests that carry a foreign `Origin`.
    pub cors_origins: Vec<String>,
    /// Host names, beyond loopback names and `host` itself, under which the server may be addressed (a guard against
    /// DNS rebinding); `*` is any.
    pub allowed_hosts: Vec<String>,
    /// Whether the model thinks when a request does not say; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// `thinking` holds even if a request says otherwise (such a request is refused with 400).
    pub force_thinking: bool,
    /// Put message and answer text into the log. Off: no user text is ever logged.
    pub log_text: bool,
    /// What a request and a connection may take.
    pub limits: Limits,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            aliases: Vec::new(),
            strict_model: false,
            api_keys: Vec::new(),
            cors_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            thinking: None,
            force_thinking: false,
            log_text: false,
            limits: Limits::default(),
        }
    }
}

/// Keys stay out of logs and panics.
impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("aliases", &self.aliases)
            .field("strict_model", &self.strict_model)
            .field("api_keys", &format_args!("[{} keys]", self.api_keys.len()))
            .field("cors_origins", &self.cors_origins)
            .field("allowed_hosts", &self.allowed_hosts)
            .field("thinking", &self.thinking)
            .field("force_thinking", &self.force_thinking)
            .field("log_text", &self.log_text)
            .field("limits", &self.limits)
            .finish()
    }
}

/// Bounds: nothing that a client sends or withholds makes the server grow or wait without end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request body; more is 413.
    pub body_bytes: usize,
    /// Nesting of arrays and objects in a body; more is 400.
    pub json_depth: usize,
    /// Messages of a conversation.
    pub messages: usize,
    /// Tools of a request.
    pub tools: usize,
    /// Choices of a request (`n`).
    pub choices: usize,
    /// Prompts of a completions request.
    pub prompts: usize,
    /// Answers of one request: prompts times choices. More than the engine's queue holds could never be taken.
    pub answers: usize,
    /// Stop strings of a request.
    pub stop_strings: usize,
    /// Bytes of one stop string.
    pub stop_bytes: usize,
    /// Entries of `logit_bias`.
    pub logit_bias: usize,
    /// Responses that `/v1/responses` keeps for later requests; the oldest go first.
    pub stored_responses: usize,
    /// Bytes that they may take together.
    pub stored_bytes: usize,
    /// Open connections; further ones wait in the system's backlog.
    pub connections: usize,
    /// Bytes of undelivered output per choice. A reader that falls further behind loses its stream (with an error
    /// event), so that it never holds up the others.
    pub stream_buffer: usize,
    /// Time for a client to send the header of a request.
    pub header_timeout: Duration,
    /// Time for a client to send a body.
    pub body_timeout: Duration,
    /// Time that a write may wait for the client to read; then the connection is closed.
    pub write_timeout: Duration,
    /// Time from arrival to the end of the answer; `None` is unlimited.
    pub deadline: Option<Duration>,
    /// A stream without data for this long carries a comment line, so that nobody in between gives up on it.
    pub keep_alive: Duration,
    /// What `Retry-After` says when the queue is full.
    pub retry_after: Duration,
    /// Time for running answers to finish at shutdown.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 32 << 20,
            json_depth: 64,
            messages: 16_384,
            tools: 1_024,
            choices: 8,
            prompts: 32,
            answers: 64,
            stop_strings: 16,
            stop_bytes: 1_024,
            logit_bias: 4_096,
            stored_responses: 1_024,
            stored_bytes: 64 << 20,
            connections: 512,
            stream_buffer: 1 << 20,
            header_timeout: Duration::from_secs(60),
            body_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(120),
            deadline: None,
            keep_alive: Duration::from_secs(5),
            retry_after: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
