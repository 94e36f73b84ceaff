//! `lily serve`: an OpenAI-compatible server.

use crate::{
    cli::{GlobalOptions, Switch},
    failure::Advice,
    load,
    printer::write_to,
    terminal::{Stream, Terminal},
};
use anyhow::{Context, Result};
use clap::Args;
use lily_engine::EngineOptions;
use lily_server::{Limits, Model, ServeError, ServerConfig};
use std::{
    net::SocketAddr,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const LONG: &str = "\
Serve the model over HTTP, in the way of OpenAI's API (/v1/chat/completions, /v1/completions, /v1/responses, \
/v1/models) and Anthropic's (/v1/messages), with /health and /metrics; /openapi.json lists every route.

It listens on the loopback interface only, unless --host says otherwise; then set --api-key too. Ctrl-C (or SIGTERM) \
lets running answers finish for a few seconds; a second one ends at once.";

/// Serve the model over HTTP, in the way of OpenAI's and Anthropic's APIs
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct ServeArgs {
    /// Address or name to listen on
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    host: String,

    /// Port; 0 takes a free one
    #[arg(short, long, default_value_t = 8080, value_name = "PORT")]
    port: u16,

    /// Key that clients must show; may be given several times
    #[arg(long, env = "LILY_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Vec<String>,

    /// Further name under which the model answers; may be given several times
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,

    /// Refuse requests for models of another name
    #[arg(long)]
    strict_model: bool,

    /// Browser origin that may call the server, `*` for any; may be given several times
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,

    /// Host name under which the server may be addressed, beyond --host and loopback names, `*` for any
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Whether the model thinks when a request does not say [default: the chat template's]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    think: Option<Switch>,

    /// Refuse requests that ask for other thinking than --think
    #[arg(long, requires = "think")]
    force_think: bool,

    /// Answers that are made at the same time
    #[arg(long, default_value_t = EngineOptions::default().max_running, value_name = "N")]
    parallel: usize,

    /// Requests that may wait; more are told to come back later
    #[arg(long, default_value_t = EngineOptions::default().max_waiting, value_name = "N")]
    queue: usize,

    /// Memory for states of earlier prompts, in MiB
    #[arg(long, default_value_t = EngineOptions::default().snapshot_budget >> 20, value_name = "MIB")]
    cache: usize,

    /// Longest time for an answer, waiting included [default: unlimited]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Put the text of messages and answers into the log
    #[arg(long)]
    log_text: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ServeArgs, options: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode> {
    check_keys(args)?;
    check_names(args)?;
    let engine = EngineOptions {
        max_running: args.parallel.max(1),
        max_waiting: args.queue,
        snapshot_budget: args.cache.saturating_mul(1 << 20),
        ..EngineOptions::default()
    };
    let loaded = load::load(options, engine, terminal)?;
    let described = format!("{} · {}", loaded.name, loaded.engine.describe());
    let model = Model {
        id: loaded.name.clone(),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        template: loaded.text.template()?.clone(),
        tokenizer: loaded.text.tokenizer,
        engine: loaded.engine,
        stop_ids: loaded.stop_ids,
        defaults: loaded.defaults,
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("the async runtime")?;
    runtime.block_on(async {
        // Registered before anything is announced: a signal is never missed.
        let shutdown = shutdown_signal().context("signal handlers")?;
        let announce = |address| announce(terminal, &described, args, address);
        lily_server::serve(config(args), model, announce, shutdown).await.map_err(no_server)
    })?;
    // Whatever still hangs on a connection is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// Another port helps only where the port is at fault.
fn no_server(error: ServeError) -> anyhow::Error {
    use std::io::ErrorKind::{AddrInUse, PermissionDenied};
    match &error {
        ServeError::Bind { address, source } if !matches!(source.kind(), AddrInUse | PermissionDenied) => {
            Advice::new(
                format!("cannot listen on {address}: {source}"),
                "--host takes an address or a name of this machine, such as 127.0.0.1, or 0.0.0.0 for all",
            )
            .into()
        }
        _ => error.into(),
    }
}

/// An empty key is a variable that was not set (`--api-key "$KEY"`): who wanted a key must not get an open server.
fn check_keys(args: &ServeArgs) -> Result<()> {
    if args.api_key.iter().any(|key| key.trim().is_empty()) {
        return Err(Advice::usage(
            "--api-key (or LILY_API_KEY) is empty",
            "give the key that clients must show, or leave --api-key away and LILY_API_KEY unset to ask for none",
        )
        .into());
    }
    Ok(())
}

/// Names that could never match what a client sends.
fn check_names(args: &ServeArgs) -> Result<()> {
    let is_origin = |origin: &String| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        origin == "*"
            || authority.is_some_and(|name| {
                !name.is_empty() && !name.contains(|c: char| c == '/' || c.is_whitespace() || c == '@')
            })
    };
    if let Some(origin) = args.cors.iter().find(|origin| !is_origin(origin)) {
        return Err(Advice::usage(
            format!("--cors \"{}\" is no origin", origin.escape_debug()),
            "an origin is a scheme, a host and perhaps a port, without a path: https://app.example",
        )
        .into());
    }
    let is_host = |name: &String| {
        !name.is_empty()
            && !name.contains(|c: char| c == '/' || c.is_whitespace() || c == '@')
            && (name.parse::<std::net::IpAddr>().is_ok() || !name.contains(':'))
    };
    if let Some(name) = args.allow_host.iter().find(|name| !is_host(name)) {
        return Err(Advice::usage(
            format!("--allow-host \"{}\" is no host name", name.escape_debug()),
            "give the name alone, without scheme and port: box.example",
        )
        .into());
    }
    if args.alias.iter().any(|alias| alias.trim().is_empty()) {
        return Err(Advice::usage("--alias is empty", "give a name, or leave --alias away").into());
    }
    Ok(())
}

fn config(args: &ServeArgs) -> ServerConfig {
    ServerConfig {
        host: args.host.clone(),
        port: args.port,
        aliases: args.alias.clone(),
        strict_model: args.strict_model,
        api_keys: args.api_key.clone(),
        cors_origins: args.cors.clone(),
        allowed_hosts: args.allow_host.clone(),
        thinking: args.think.map(Switch::is_on),
        force_thinking: args.force_think,
        log_text: args.log_text,
        limits: Limits { deadline: args.timeout.map(Duration::from_secs), ..Limits::default() },
    }
}

/// Tells where the server listens; nobody can be told if stderr is gone.
fn announce(terminal: &Terminal, model: &str, args: &ServeArgs, address: SocketAddr) {
    let open = !address.ip().is_loopback() && args.api_key.is_empty();
    let url =
        terminal.paint(Stream::Stderr, terminal.styles.strong, &format!("http://{address}")).into_owned();
    let mut text = format!("{}\nlistening on {url}\n", terminal.visible(model));
    if open {
        let label = terminal.paint(Stream::Stderr, terminal.styles.warning, "warning");
        text.push_str(&format!(
            "{label}: anyone who can reach this address may use the model; see --api-key\n"
        ));
    }
    let _ = write_to(Stream::Stderr, &text);
}

/// Resolves with the first SIGINT or SIGTERM; the next one ends the program at once.
fn shutdown_signal() -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = Signals::new()?;
    Ok(async move {
        signals.next().await;
        let _ = write_to(Stream::Stderr, "shutting down; again to end at once\n");
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(130);
        });
    })
}

#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
