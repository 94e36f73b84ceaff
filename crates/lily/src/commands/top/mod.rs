//! `lily top`: a running server, watched from a terminal.

mod address;
mod figures;
mod http;
mod prometheus;
mod screen;
mod view;
mod watch;

use crate::{
    failure::Advice,
    printer::write_to,
    terminal::{Stream, Terminal},
};
use address::Address;
use anyhow::Result;
use clap::Args;
use screen::{Key, Screen};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};
use watch::{History, Look};

const LONG: &str = "\
Watch a running server: requests, speed, latencies, cache and memory, from its /metrics and /health.

q, Esc or Ctrl-C leaves. A server that goes away is waited for. Without a terminal, or with --once, one report is \
written to stdout; the exit code is then 1 if the server cannot be reached.";

/// Watch a running server
#[derive(Debug, Args)]
#[command(long_about = LONG)]
pub(crate) struct TopArgs {
    /// The server
    #[arg(default_value = "http://127.0.0.1:8080", value_name = "URL")]
    server: Address,

    /// The key that the server asks for
    #[arg(long, env = "LILY_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,

    /// Seconds between two looks
    #[arg(long, default_value = "1", value_name = "SECONDS", value_parser = interval)]
    interval: Duration,

    /// Write one report and leave
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds from 0.1 to 3600".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs, terminal: &Terminal) -> Result<ExitCode> {
    let watcher = watch::Watcher { server: args.server.clone(), key: args.api_key.clone() };
    if args.once || !terminal.stdout {
        return report(&watcher, args, terminal);
    }
    let (sender, looks) = mpsc::channel();
    let every = args.interval;
    // A server that hangs must not hang the screen; the thread ends with the program.
    std::thread::spawn(move || {
        while sender.send(watcher.look()).is_ok() {
            std::thread::sleep(every);
        }
    });
    watch_screen(args, terminal, &looks)?;
    Ok(ExitCode::SUCCESS)
}

/// Two looks, a moment apart, as plain text.
fn report(watcher: &watch::Watcher, args: &TopArgs, terminal: &Terminal) -> Result<ExitCode> {
    let mut history = History::default();
    history.add(watcher.look(), Instant::now());
    if history.error().is_none() {
        std::thread::sleep(args.interval);
        history.add(watcher.look(), Instant::now());
    }
    if let Some(error) = history.error() {
        let advice = Advice::new(
            format!("cannot watch {}", args.server),
            "start a server with `lily serve`, or name the one that runs: `lily top http://HOST:PORT`",
        );
        return Err(anyhow::anyhow!("{error}").context(advice));
    }
    let lines = view::lines(&args.server, &history, Instant::now());
    let text: String = lines.iter().map(|line| format!("{}\n", line.plain().trim_end())).collect();
    write_to(Stream::Stdout, &terminal.foreign(Stream::Stdout, &text))?;
    Ok(ExitCode::SUCCESS)
}

/// Draws until the user leaves or a signal comes.
fn watch_screen(args: &TopArgs, terminal: &Terminal, looks: &mpsc::Receiver<Look>) -> Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let mut history = History::default();
    let mut screen = Screen::open()?;
    let mut drawn: Option<Instant> = None;
    while !ended.load(Ordering::Relaxed) {
        let fresh = match looks.recv_timeout(Duration::ZERO) {
            Ok(look) => {
                history.add(look, Instant::now());
                true
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread that watches the server ended"),
        };
        // The time since a server went away goes on, too.
        if fresh || drawn.is_none_or(|drawn| drawn.elapsed() >= Duration::from_secs(1)) {
            screen.draw(&view::lines(&args.server, &history, Instant::now()), terminal)?;
            drawn = Some(Instant::now());
        }
        match screen.key(Duration::from_millis(100))? {
            Some(Key::Leave) => break,
            Some(Key::Redraw) => drawn = None,
            None => {}
        }
    }
    Ok(())
}
