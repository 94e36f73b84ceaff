//! Help, versions, wrong usage, broken pipes.

use crate::process::{done, lily};
use std::{io::Read, process::Stdio};

#[test]
fn help_names_every_command() {
    let alone = done::<&str>([]).success();
    for command in ["chat", "run", "serve", "info", "render", "bench", "eval", "parse", "top", "tune"] {
        assert!(alone.stdout.contains(command), "{command}");
        let help = done([command, "--help"]).success();
        assert!(
            help.stdout.contains("Usage:") && help.stdout.contains("--model"),
            "{command}: {}",
            help.stdout
        );
    }
    assert_eq!(alone.stdout, done(["-h"]).success().stdout);
}

#[test]
fn version_is_the_package_s() {
    assert_eq!(done(["--version"]).success().stdout, format!("lily {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_code_2_and_says_why() {
    let cases: &[(&[&str], &str)] = &[
        (&["nosuch"], "nosuch"),
        (&["run", "--temperature", "warm", "Hi"], "warm"),
        (&["run", "--temperature", "-1", "Hi"], "temperature"),
        (&["run", "--top-p", "0", "Hi"], "top_p"),
        (&["run", "--max-tokens", "0", "Hi"], "max-tokens"),
        (&["run", "--threads", "0", "Hi"], "threads"),
        (&["run", "--raw", "--system", "x", "Hi"], "--system"),
        (&["run"], "no prompt"),
        (&["run", "--context", "999999999", "Hi"], "999999999"),
        (&["run", "--backend", "reference", "--precision", "int8", "Hi"], "f32"),
        (&["run", "--backend", "reference", "--weights", "resident", "Hi"], "--weights"),
        (&["run", "--backend", "reference", "--threads", "1", "Hi"], "--threads"),
        (&["chat", "--think", "maybe"], "maybe"),
        (&["chat", "--min-p", "2"], "min_p"),
        (&["bench", "--prefill", "0"], "0 tokens"),
        (&["bench", "--rounds", "0"], "above 0"),
        (&["bench", "--prefill", "8", "--sampled"], "--sampled"),
        (&["eval"], "--reference"),
        (&["parse", "--chunk", "0"], "whole"),
        (&["parse", "--request", "a", "--tools", "b"], "--tools"),
        (&["top", "https://example.org"], "https"),
        (&["top", "--interval", "0"], "0.1"),
        (&["serve", "--cors", ""], "no origin"),
        (&["serve", "--cors", "app.example"], "no origin"),
        (&["serve", "--cors", "http://a/b"], "no origin"),
        (&["serve", "--allow-host", "http://x:80"], "no host name"),
        (&["serve", "--alias", ""], "--alias"),
        (&["tune", "--only", "tile"], "tiles"),
        (&["tune", "--margin", "100"], "below 100"),
        (&["tune", "--margin", "-1"], "below 100"),
        (&["tune", "--rounds", "2"], "3"),
        (&["tune", "--reset", "--dry-run"], "--dry-run"),
    ];
    for (args, words) in cases {
        let done = done(*args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:#?}");
        assert!(done.stderr.contains(words), "{args:?}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for args in [&["info"][..], &["run", "-t", "0", "--think", "off", "Count from 1 to 20."], &["--help"]] {
        let mut child =
            lily(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        drop(child.stdout.take());
        let status = child.wait().expect("the process ends");
        let mut stderr = String::new();
        child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn colours_only_when_asked_for() {
    let error = |color: &[&str]| done([&["info", "--model", "/no/such/model"], color].concat()).stderr;
    assert!(!error(&[]).contains('\u{1b}'));
    assert!(error(&["--color", "always"]).contains('\u{1b}'));
}
