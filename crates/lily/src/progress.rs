//! Progress of long work, on stderr and only where stderr is a terminal.

use crate::terminal::Terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Nothing is drawn for work that is over within this time.
const PATIENCE: Duration = Duration::from_millis(300);

/// Draws a spinner if `work` takes a while; clears it afterwards.
pub(crate) fn spin<T: Send>(terminal: &Terminal, message: &str, work: impl FnOnce() -> T + Send) -> T {
    if !terminal.shows_progress() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, waiting) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || {
            // Disconnects when the work is over (or has panicked).
            if waiting.recv_timeout(PATIENCE) != Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            spinner.set_style(style("{spinner} {msg} ({elapsed})"));
            spinner.set_message(message.to_owned());
            spinner.enable_steady_tick(Duration::from_millis(100));
            let _ = waiting.recv();
            spinner.finish_and_clear();
        });
        let result = work();
        drop(done);
        result
    })
}

/// The bar of a prompt that takes a while to read.
pub(crate) struct PrefillBar {
    enabled: bool,
    start: Instant,
    bar: Option<ProgressBar>,
}

impl PrefillBar {
    /// Nothing is drawn yet.
    pub(crate) fn new(terminal: &Terminal) -> Self {
        Self { enabled: terminal.shows_progress(), start: Instant::now(), bar: None }
    }

    /// `done` of `total` prompt tokens were read.
    pub(crate) fn update(&mut self, done: usize, total: usize) {
        if done >= total {
            return self.clear();
        }
        if !self.enabled || self.start.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
            let bar = bar.with_elapsed(self.start.elapsed());
            bar.set_style(style("reading the prompt {wide_bar} {pos}/{len} tokens ({elapsed})"));
            bar
        });
        bar.set_position(done as u64);
    }

    /// Takes the bar off the screen.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for PrefillBar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants above; a wrong one shows in the default style.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
