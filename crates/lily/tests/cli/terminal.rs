//! On a terminal (a pseudo-terminal): line editing, Ctrl-C, colours, control characters.

use crate::process::lily;
use rexpect::session::{PtySession, spawn_command};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Stdio};

/// Long enough for a debug build on a busy machine.
const PATIENCE: u64 = 60_000;

/// A chat whose history and settings live in `home`.
fn chat(home: &Path, args: &[&str]) -> PtySession {
    let mut command = lily(["chat", "-t", "0", "--think", "off", "--color", "never"].iter().chain(args));
    command
        .stdin(Stdio::inherit())
        .env("TERM", "xterm")
        .env("HOME", home)
        .env("XDG_STATE_HOME", home.join("state"));
    let mut session = spawn_command(command, Some(PATIENCE)).expect("the binary starts on a terminal");
    session.exp_string("/help").expect("a greeting");
    session.exp_string("> ").expect("a prompt");
    session
}

/// Types keys, without an end of line of its own.
fn keys(session: &mut PtySession, text: &str) {
    session.send(text).expect("sent");
    session.flush().expect("sent");
}

fn leaves_well(mut session: PtySession) {
    session.exp_eof().expect("it ends");
    let status = session.process().wait().expect("a status");
    assert!(format!("{status:?}").ends_with(", 0)"), "{status:?}");
}

#[test]
fn control_c_stops_the_answer_and_not_the_program() {
    let home = tempfile::tempdir().expect("a folder");
    // The reference is slow enough to be interrupted for certain.
    let mut session = chat(home.path(), &["--backend", "reference"]);
    session.send_line("Count from 1 to 20.").expect("sent");
    session.exp_string("1, 2").expect("an answer begins");
    session.send_control('c').expect("sent");
    session.exp_string("[stopped]").expect("the answer is stopped");
    session.exp_string("> ").expect("a prompt again");
    session.send_line("Hi").expect("sent");
    session.exp_string("Hello!").expect("the next answer");
    session.exp_string("> ").expect("a prompt again");
    // At the prompt: once clears, twice leaves.
    keys(&mut session, "not sent");
    session.send_control('c').expect("sent");
    session.exp_string("Ctrl-C again").expect("a word about leaving");
    session.exp_string("> ").expect("a prompt again");
    session.send_control('c').expect("sent");
    leaves_well(session);
}

#[test]
fn lines_are_edited_remembered_and_may_be_several() {
    let home = tempfile::tempdir().expect("a folder");
    let mut session = chat(home.path(), &[]);
    // Backspace corrects; a backslash goes on.
    keys(&mut session, "Repeat after me: one tx\u{7f}wo \\\r");
    keys(&mut session, "three\r");
    session.exp_string("three").expect("the echo");
    session.exp_string("one two").expect("the answer");
    session.exp_string("> ").expect("a prompt again");
    // Arrow up recalls.
    keys(&mut session, "\u{1b}[A");
    session.exp_string("three").expect("the line again");
    session.send_control('c').expect("sent");
    session.exp_string("> ").expect("a prompt again");
    session.send_control('d').expect("sent");
    leaves_well(session);

    let history = home.path().join("state/lily/history");
    assert!(fs::read_to_string(&history).expect("a history").contains("one two"));
    assert_eq!(fs::metadata(&history).expect("a history").permissions().mode() & 0o777, 0o600);
}

#[test]
fn unknown_commands_are_told_and_known_ones_complete() {
    let home = tempfile::tempdir().expect("a folder");
    let mut session = chat(home.path(), &["--no-history"]);
    session.send_line("/rest").expect("sent");
    session.exp_string("no command /rest").expect("an error");
    session.exp_string("> ").expect("a prompt again");
    keys(&mut session, "/sta\t\r");
    session.exp_string("nothing was answered yet").expect("statistics");
    session.exp_string("> ").expect("a prompt again");
    session.send_line("/quit").expect("sent");
    leaves_well(session);
    assert!(!home.path().join("state").exists(), "no history was wanted");
}

#[test]
fn control_characters_of_foreign_text_do_not_reach_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let request = folder.path().join("request.json");
    fs::write(&request, r#"[{"role": "user", "content": "a\u001b]0;title\u0007b"}]"#).expect("written");
    let mut command = lily(["render"]);
    command.arg(&request).stdin(Stdio::inherit()).env("TERM", "xterm");
    let mut session = spawn_command(command, Some(PATIENCE)).expect("the binary starts on a terminal");
    let output = session.exp_eof().expect("it ends");
    // The session takes every byte for a character.
    let shown: String = "a\u{241b}]0;title\u{2407}b".bytes().map(char::from).collect();
    assert!(output.contains(&shown) && !output.contains('\u{1b}'), "{output:?}");
}
