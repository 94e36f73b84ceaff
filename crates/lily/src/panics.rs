//! Panics of the engine, told once.
//!
//! The engine catches whatever panics on its threads and hands it on as an error, which the command shows or the server
//! logs. The standard hook would tell it a second time; so for those threads it only goes to the log, with its place.

use std::panic::{PanicHookInfo, set_hook, take_hook};

/// Names of the threads whose panics are caught begin so.
const CAUGHT: [&str; 2] = ["lily-engine", "lily-cpu"];

/// Sets the hook; every other thread keeps the standard one.
pub(crate) fn tell_once() {
    let standard = take_hook();
    set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        if is_caught(std::thread::current().name()) {
            let place = info.location().map(ToString::to_string);
            tracing::info!(place, "a panic of the engine, which is told as an error");
        } else {
            standard(info);
        }
    }));
}

fn is_caught(thread: Option<&str>) -> bool {
    thread.is_some_and(|name| CAUGHT.iter().any(|begin| name.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_whose_panics_are_caught_are_quiet() {
        assert!(is_caught(Some("lily-engine")) && is_caught(Some("lily-cpu-3")));
        assert!(!is_caught(Some("main")) && !is_caught(Some("tokio-runtime-worker")) && !is_caught(None));
    }
}
