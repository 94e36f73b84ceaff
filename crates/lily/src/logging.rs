//! `--verbose`: what the libraries tell through `tracing`, on stderr.

use crate::{
    cli::GlobalOptions,
    terminal::{Stream, Terminal},
};
use tracing_subscriber::EnvFilter;

/// Starts the log: warnings by default, more with each `-v`. `LILY_LOG` (in the syntax of `RUST_LOG`) overrides both.
/// Where the command itself `shows_faults` of the backend, the log leaves them to it, unless it is asked for.
pub(crate) fn start(options: &GlobalOptions, terminal: &Terminal, shows_faults: bool) {
    let level = match options.verbose {
        0 if shows_faults => "warn,lily_engine::guarded_backend=off,lily_engine::engine=off",
        0 => "warn",
        1 => {
            "info,lily=debug,lily_checkpoint=debug,lily_text=debug,lily_engine=debug,lily_cpu=debug,lily_server=debug"
        }
        2 => "debug",
        _ => "trace",
    };
    let filter = std::env::var("LILY_LOG").ok().and_then(|spec| EnvFilter::try_new(spec).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new(level));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(terminal.colors(Stream::Stderr))
        .with_writer(std::io::stderr)
        .with_target(options.verbose > 1);
    // A second subscriber can only be there in tests; the first one stays.
    let _ = if options.verbose > 0 { subscriber.try_init() } else { subscriber.without_time().try_init() };
}
