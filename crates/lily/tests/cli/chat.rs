//! `lily chat` from a pipe: one line, one message.

use crate::process::fed;

const GREEDY: [&str; 5] = ["chat", "-t", "0", "--think", "off"];

#[test]
fn several_turns_share_a_conversation() {
    let done = fed(GREEDY, "Hello, I am Anna.\nWhat is my name?\n").success();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{done:#?}");
    assert!(lines[1].contains("Anna"), "{done:#?}");
    assert_eq!(done.stderr, "", "a pipe is told nothing");
    assert!(!done.stdout.contains('\u{1b}'));
}

#[test]
fn commands_work_and_talk_to_stderr() {
    let done =
        fed(GREEDY, "Hello, I am Anna.\n/reset\nWhat is my name?\n/stats\n/help\n/quit\nHi\n").success();
    assert_eq!(done.stdout.lines().count(), 2, "nothing after /quit: {done:#?}");
    assert!(!done.stdout.lines().nth(1).expect("two answers").contains("Anna"), "{done:#?}");
    for words in ["starts over", "tok/s", "/system"] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
}

#[test]
fn retry_answers_the_last_message_again() {
    let done = fed(GREEDY, "/retry\nHi\n/retry\n").success();
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines, ["Hello! How can I help you today?"; 2], "{done:#?}");
}

#[test]
fn thinking_can_be_switched_and_stays_off_stdout() {
    let done = fed(["chat", "-t", "0", "-v"], "/think on\nHi\n/think off\nHi\n/think\n").success();
    assert!(done.stderr.contains("thinking is off"), "{}", done.stderr);
    assert!(!done.stdout.contains("think"), "{}", done.stdout);
    assert_eq!(done.stdout.lines().count(), 2);
}

#[test]
fn the_system_message_can_be_shown_and_set() {
    let done = fed(
        ["chat", "-t", "0", "--system", "Be brief."],
        "/system\n/system Be kind.\n/system\n/system none\n/system\n",
    )
    .success();
    for words in ["Be brief.", "Be kind.", "no system message"] {
        assert!(done.stderr.contains(words), "{words}: {}", done.stderr);
    }
}

#[test]
fn a_full_context_is_told_and_survived() {
    let long = "word ".repeat(80);
    let done =
        fed(["chat", "-t", "0", "--think", "off", "--context", "64"], &format!("Hi\n{long}\n/reset\nHi\n"));
    assert_eq!(done.code, Some(1), "a message was not answered: {done:#?}");
    assert_eq!(done.stdout.lines().count(), 2, "{done:#?}");
    assert!(
        done.stderr.contains("the context holds 64") && done.stderr.contains("/reset"),
        "{}",
        done.stderr
    );
}

#[test]
fn text_that_merely_starts_with_a_slash_is_a_message() {
    let done = fed(GREEDY, "/etc/hosts\n").success();
    assert_eq!(done.stdout.lines().count(), 1, "{done:#?}");
}

#[test]
fn earlier_turns_are_not_read_again() {
    let done = fed(GREEDY, "Hello, I am Anna.\nWhat is my name?\n/stats\n").success();
    let line = done.stderr.lines().find(|line| line.contains(" cached)")).expect("statistics");
    let kept =
        line.split('(').nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse::<usize>().ok());
    assert!(kept.is_some_and(|kept| kept > 5), "{line}");
}
