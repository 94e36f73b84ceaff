//! `--verbose`: what the libraries tell through `tracing`, on stderr.

use crate::{
    cli::GlobalOptions,
    terminal::{Stream, Terminal},
};
use tracing_subscriber::EnvFilter;

/// Starts the log: warnings by default, of a server also a line for each answer, more with each `-v`. `LILY_LOG` (in the
/// syntax of `RUST_LOG`) overrides all of it.
/// Where the command itself `shows_faults` of the backend, the log leaves them to it, unless it is asked for.
pub(crate) fn start(options: &GlobalOptions, terminal: &Terminal, shows_faults: bool) {
    let level = match options.verbose {
        0 if shows_faults => "warn,lily_engine::guarded_backend=off,lily_engine::engine=off",
        0 => "warn,lily_server::request=info",
        1 => {
            "info,lily=debug,lily_checkpoint=debug,lily_text=debug,lily_engine=debug,lily_cpu=debug,lily_server=debug"
        }
        2 => "debug",
        _ => "trace",
    };
    let wish = std::env::var("LILY_LOG").ok().map(EnvFilter::try_new);
    let (filter, fault) = match wish {
        Some(Ok(filter)) => (filter, None),
        Some(Err(error)) => (EnvFilter::new(level), Some(error)),
        None => (EnvFilter::new(level), None),
    };
    let timed = options.verbose > 0 || !shows_faults;
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(terminal.colors(Stream::Stderr))
        .with_writer(std::io::stderr)
        .with_target(options.verbose > 1)
        // A reader of the log that goes away must not end the program.
        .log_internal_errors(false);
    // A second subscriber can only be there in tests; the first one stays.
    let _ = if timed { subscriber.try_init() } else { subscriber.without_time().try_init() };
    if let Some(error) = fault {
        tracing::warn!("LILY_LOG is not understood, and not followed: {error}");
    }
}
