//! The parts, and all of them run with a program in cargo's place that fails where it is told to.

use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(arguments: &[&str]) -> Options {
    let line = std::iter::once("x").chain(arguments.iter().copied());
    <Line as clap::Parser>::parse_from(line).options
}

fn parts_of(arguments: &[&str], tensor: bool) -> Vec<Part> {
    parts(Path::new("/root"), &options(arguments), tensor)
}

fn names(parts: &[Part]) -> Vec<&str> {
    parts.iter().map(Part::name).collect()
}

#[test]
fn every_part_names_the_device() {
    for device in ["metal", "cuda"] {
        for part in parts_of(&["--model", "folder", "--validate", "--device", device], true) {
            let command = part.to_string();
            let named = [format!("LILY_TEST_DEVICE={device}"), format!("--backend {device}")];
            assert!(named.iter().any(|named| command.contains(named)), "{command}");
            assert!(command.contains("--release"), "{command}");
            let validated = command.contains("cargo test ") && device == "metal";
            assert_eq!(command.contains("MTL_SHADER_VALIDATION=1"), validated, "{command}");
        }
    }
}

#[test]
fn what_is_measured_can_be_left_out() {
    let quick = ["every kernel compiles", "kernel tests", "nano's goldens"];
    assert_eq!(names(&parts_of(&["--quick", "--model", "x"], false)), quick);
    let all = [&quick[..], &["bandwidth", "nano's speed", "the model's speed"]].concat();
    assert_eq!(names(&parts_of(&["--model", "x"], false)), all);
}

#[test]
fn tensor_operations_are_tested_where_they_are() {
    let kernels = |tensor| parts_of(&[], tensor)[1].to_string();
    assert!(kernels(false).contains("--skip tensor_operations"));
    assert!(!kernels(true).contains("--skip tensor_operations") && kernels(true).contains("--skip wgmma"));
}

#[test]
fn a_word_chooses_kernels_and_tests() {
    let parts = parts_of(&["--tests", "embedding", "--device", "emulator"], false);
    assert!(parts[0].to_string().ends_with("--features emulator -- kernels embedding"), "{}", parts[0]);
    let tests = "cargo test -p lily-gpu --test kernels --features emulator,device-tests -- embedding";
    assert!(parts[1].to_string().ends_with(tests), "{}", parts[1]);
}

/// Says of each part what a success would, and fails for the part whose command contains `$PLANTED`, in its way.
#[cfg(unix)]
const CARGO: &str = r#"#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
planted=$(cat "$(dirname "$0")/planted")
way=$(cat "$(dirname "$0")/way")
case "$*" in
  *"$planted"*)
    echo "planted words" >&2
    case $way in
      status) exit 101 ;;
      silent) exit 0 ;;
      signal) kill -KILL $$ ;;
    esac ;;
esac
case "$*" in
  *machine*) echo "device: a GPU, metal4-tensor" ;;
  *kernels*) echo "7 kernels in 1.0 s, 0 failed"; echo "test result: ok. 7 passed; 0 failed;" ;;
  *parity*) echo "skipped: no model" >&2; echo "test result: ok. 2 passed; 0 failed;" ;;
  *bandwidth*) echo "a copy: 100.0 GB/s" ;;
  *bench*) echo "decode 128: 100.0 tok/s" ;;
esac
"#;

/// A run with a failure planted where the command contains some words: what it says, the report, the commands, and whether
/// it failed.
#[cfg(unix)]
fn planted(words: &str, way: &str) -> (String, String, String, bool) {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name);
    for (name, text) in [("cargo", CARGO), ("planted", words), ("way", way)] {
        std::fs::write(file(name), text).expect("written");
    }
    std::fs::set_permissions(file("cargo"), Permissions::from_mode(0o755)).expect("executable");
    let report = file("report.txt");
    let options = options(&["--model", "/folder", "--out", &report.to_string_lossy()]);
    let system = Outcome { name: "system".to_owned(), ..Outcome::default() };
    let mut out = Vec::new();
    let failed =
        verify(folder.path(), file("cargo").as_os_str(), &options, system, &mut out).expect("verified");
    let read = |path: &Path| std::fs::read_to_string(path).expect("there");
    (String::from_utf8(out).expect("text"), read(&report), read(&file("calls")), failed)
}

#[test]
#[cfg(unix)]
fn a_run_in_which_everything_passes() {
    let (said, report, calls, failed) = planted("nothing has these words", "status");
    assert!(!failed && said.contains("everything passed") && !report.contains("FAILED"), "{said}\n{report}");
    assert_eq!(calls.lines().count(), 7, "{calls}");
    // What the device says of itself decides: this one has tensor operations.
    assert!(!calls.contains("--skip tensor_operations"), "{calls}");
    for row in [
        "| every kernel compiles | ok | 0 | 7 kernels in 1.0 s, 0 failed |  |",
        "| nano's goldens | ok | 0 | 2 passed | skipped: no model |",
        "| the model's speed | ok | 0 | decode 128: 100.0 tok/s |  |",
    ] {
        assert!(report.contains(row), "{row}\n{report}");
    }
}

/// Each part in turn fails, in each way: it is named, its words are in the report, and all the others run and pass.
#[test]
#[cfg(unix)]
fn a_part_that_fails_is_reported_and_the_others_run() {
    for (words, name) in [
        ("machine", "device"),
        ("verify_device --release -- kernels", "every kernel compiles"),
        ("--test kernels", "kernel tests"),
        ("--test parity", "nano's goldens"),
        ("-- bandwidth", "bandwidth"),
        ("--model nano", "nano's speed"),
        ("--model /folder", "the model's speed"),
    ] {
        for (way, why) in [("status", "exit status: 101"), ("signal", "signal: 9"), ("silent", "")] {
            let (said, report, calls, failed) = planted(words, way);
            assert!(failed, "{name}, {way}: {said}");
            assert!(said.contains(&format!("FAILED: {name}; ")), "{name}, {way}: {said}");
            assert_eq!(report.matches("| FAILED |").count(), 1, "{name}, {way}: {report}");
            assert!(report.contains(&format!("| {name} | FAILED |")), "{name}, {way}: {report}");
            assert!(report.contains("planted words") && report.contains(why), "{name}, {way}: {report}");
            assert_eq!(calls.lines().count(), 7, "{name}, {way}: {calls}");
        }
    }
}

/// The workflow skips by the program's words.
#[test]
fn the_workflow_knows_how_a_missing_device_is_told() {
    let read = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
        std::fs::read_to_string(path).expect("a text")
    };
    let words = "sees no Metal device";
    assert!(read("crates/lily-gpu/src/device/metal/api/open.rs").contains(words));
    assert!(read(".github/workflows/macos.yml").contains(&format!("grep -q \"{words}\"")));
}

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_runs() {
    let options = options(&["--out", "/no/such/folder/report.txt"]);
    let cargo = OsStr::new("/no/such/cargo");
    let error = verify(Path::new("."), cargo, &options, Outcome::default(), &mut Vec::new()).unwrap_err();
    assert!(format!("{error:#}").contains("/no/such/folder/report.txt"), "{error:#}");
}
