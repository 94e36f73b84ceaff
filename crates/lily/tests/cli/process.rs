//! Starts `lily` in a clean environment.

use std::{
    ffi::OsStr,
    io::Write,
    path::PathBuf,
    process::{Command, Output, Stdio},
};

/// A command line for the binary under test: no model, key or colour setting leaks in from outside.
pub(crate) fn lily<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lily"));
    command.args(args).stdin(Stdio::null());
    for name in ["LILY_MODEL", "LILY_API_KEY", "LILY_LOG", "NO_COLOR", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command
}

/// What a finished process left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// The outcome, which must be success.
    #[track_caller]
    pub(crate) fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// stdout as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs to the end without input.
pub(crate) fn done<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Done {
    lily(args).output().expect("the binary starts").into()
}

/// Runs to the end with this on stdin.
pub(crate) fn fed<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>, input: &str) -> Done {
    let mut child = lily(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("stdin is a pipe");
    // A process that fails early does not read its input.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("the process ends").into()
}

/// The embedded model's files.
pub(crate) fn nano() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../models/nano")
}

/// A writable copy of nano, without the weights if they are not wanted.
pub(crate) fn nano_copy(weights: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for entry in std::fs::read_dir(nano()).expect("nano is there") {
        let path = entry.expect("an entry").path();
        let is_weights = path.extension().is_some_and(|extension| extension == "safetensors");
        if path.is_file() && (weights || !is_weights) {
            std::fs::copy(&path, folder.path().join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    folder
}
