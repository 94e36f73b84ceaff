//! One part: a command, what it said, and whether that is what it is there for.

use std::{
    ffi::OsStr,
    fmt,
    io::Read,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What a report keeps of a part that passed, from its end; of one that failed it keeps more.
const LINES: usize = 60;
const LINES_OF_A_FAILURE: usize = 400;
/// How often a part is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// What a part must say to have done something: an exit status alone is that of doing nothing, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Tests, of which at least one ran.
    Tests,
    /// A line with these words, which the report's table repeats.
    Line(&'static str),
}

/// A command of cargo.
#[derive(Debug)]
pub(super) struct Part {
    name: String,
    sign: Sign,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    skips: Vec<String>,
}

/// How a part went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) command: String,
    /// Why it counts as failed.
    pub(super) failure: Option<String>,
    pub(super) took: Duration,
    /// What came of it, in a line.
    pub(super) summary: String,
    /// What was left out, in words.
    pub(super) skips: Vec<String>,
    /// The end of what it printed.
    pub(super) output: String,
}

impl Part {
    /// `cargo ARGUMENTS`.
    pub(super) fn cargo(name: &str, sign: Sign, arguments: &[&str]) -> Self {
        let mut part = Self {
            name: name.to_owned(),
            sign,
            arguments: Vec::new(),
            environment: Vec::new(),
            skips: Vec::new(),
        };
        part.args(arguments);
        part
    }

    /// Its name in the report.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn args<S: AsRef<str>>(&mut self, arguments: &[S]) -> &mut Self {
        self.arguments.extend(arguments.iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Features of `lily-gpu`; none are none.
    pub(super) fn features(&mut self, names: &str) -> &mut Self {
        if names.is_empty() { self } else { self.args(&["--features", names]) }
    }

    pub(super) fn env(&mut self, name: &str, value: &str) -> &mut Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says what it leaves out.
    pub(super) fn skips(&mut self, words: String) -> &mut Self {
        self.skips.push(words);
        self
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={value} ")?;
        }
        write!(f, "cargo")?;
        self.arguments.iter().try_for_each(|argument| {
            if argument.contains(char::is_whitespace) {
                write!(f, " '{argument}'")
            } else {
                write!(f, " {argument}")
            }
        })
    }
}

/// Runs a part, whatever comes of it, for at most so long.
pub(super) fn run(cargo: &OsStr, root: &Path, part: &Part, limit: Duration) -> Outcome {
    let start = Instant::now();
    let child = Command::new(cargo)
        .current_dir(root)
        .args(&part.arguments)
        .envs(part.environment.iter().map(|(name, value)| (name, value)))
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let (ended, text) = match child {
        Ok(mut child) => {
            let [stdout, stderr] = [reader(child.stdout.take()), reader(child.stderr.take())];
            let ended = wait(&mut child, limit);
            let [stdout, stderr] = [stdout, stderr].map(|reader| reader.join().unwrap_or_default());
            (ended, format!("{stderr}\n{stdout}"))
        }
        Err(error) => (Err(format!("it does not start: {error}")), String::new()),
    };
    let found = found(part.sign, &text);
    let failure = match ended {
        Err(why) => Some(why),
        Ok(status) if !status.success() => Some(format!("{status}")),
        Ok(_) => found.as_ref().err().cloned(),
    };
    let skipped = text.lines().filter(|line| line.trim_start().starts_with("skipped")).map(str::to_owned);
    Outcome {
        name: part.name.clone(),
        command: part.to_string(),
        took: start.elapsed(),
        summary: found.unwrap_or_default(),
        skips: part.skips.iter().cloned().chain(skipped).collect(),
        output: end_of(&text, if failure.is_none() { LINES } else { LINES_OF_A_FAILURE }),
        failure,
    }
}

/// Everything that comes out of a pipe.
fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is what there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A GPU that hangs must not take the report with it.
fn wait(child: &mut Child, limit: Duration) -> Result<ExitStatus, String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if start.elapsed() < limit => thread::sleep(PAUSE),
            Ok(None) => {
                // Cargo's own children, a test, would live on.
                let of = Command::new("pgrep").args(["-P", &child.id().to_string()]).output();
                let children = of.map(|of| String::from_utf8_lossy(&of.stdout).into_owned());
                let _ = child.kill();
                let _ = child.wait();
                if let Ok(children) = children.as_deref().map(str::trim)
                    && !children.is_empty()
                {
                    let _ = Command::new("kill").arg("-KILL").args(children.split_whitespace()).status();
                }
                return Err(format!("no end after {} s, so it was ended", limit.as_secs()));
            }
            Err(error) => return Err(format!("cannot be waited for: {error}")),
        }
    }
}

/// What a part did, in a line; an error if it did nothing.
fn found(sign: Sign, text: &str) -> Result<String, String> {
    match sign {
        Sign::Tests => {
            let mut sums = [0_u64; 2];
            for line in text.lines().filter(|line| line.starts_with("test result: ")) {
                for (sum, word) in sums.iter_mut().zip([" passed", " failed"]) {
                    let before = line.split(word).next().unwrap_or_default();
                    let number = before.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok());
                    *sum += number.unwrap_or(0);
                }
            }
            match sums {
                [0, 0] => Err("no test ran".to_owned()),
                [passed, 0] => Ok(format!("{passed} passed")),
                [passed, failed] => Ok(format!("{passed} passed, {failed} failed")),
            }
        }
        Sign::Line(words) => {
            let line = text.lines().find(|line| line.contains(words));
            line.map(|line| line.trim().to_owned()).ok_or_else(|| format!("it does not say \"{words}\""))
        }
    }
}

/// The last lines of a text without cargo's own progress.
fn end_of(text: &str, lines: usize) -> String {
    let progress =
        ["Compiling ", "Downloading ", "Downloaded ", "Running ", "Finished ", "Blocking ", "Locking "];
    let told: Vec<&str> = text
        .lines()
        .filter(|line| {
            !line.trim().is_empty() && !progress.iter().any(|word| line.trim_start().starts_with(word))
        })
        .collect();
    told[told.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_what_a_reader_can_type() {
        let mut part = Part::cargo("x", Sign::Tests, &["test", "-p", "lily-gpu"]);
        part.features("emulator,device-tests").args(&["--", "--nocapture"]).env("A", "1");
        let wanted = "A=1 cargo test -p lily-gpu --features emulator,device-tests -- --nocapture";
        assert_eq!(part.to_string(), wanted);
        let mut metal = Part::cargo("x", Sign::Tests, &["run"]);
        assert_eq!(metal.features("").args(&["a b"]).to_string(), "cargo run 'a b'");
    }

    #[test]
    fn progress_is_not_told() {
        let text = "   Compiling a v1\n    Finished `test`\ntest one ... ok\n\ntest two ... ok\n";
        assert_eq!(end_of(text, 9), "test one ... ok\ntest two ... ok");
        assert_eq!(end_of(text, 1), "test two ... ok");
    }

    #[test]
    fn doing_nothing_is_no_success() {
        let result = |passed, failed| {
            format!(
                "test result: ok. {passed} passed; {failed} failed; 0 ignored; 0 measured; 9 filtered out\n"
            )
        };
        assert_eq!(found(Sign::Tests, &result(0, 0)), Err("no test ran".to_owned()));
        assert_eq!(found(Sign::Tests, ""), Err("no test ran".to_owned()));
        assert_eq!(found(Sign::Tests, &(result(0, 0) + &result(12, 0))), Ok("12 passed".to_owned()));
        assert_eq!(found(Sign::Tests, &result(2, 1)), Ok("2 passed, 1 failed".to_owned()));
        assert_eq!(found(Sign::Line("GB/s"), "a\n 3 GB/s\n"), Ok("3 GB/s".to_owned()));
        assert_eq!(found(Sign::Line("GB/s"), "a\n"), Err("it does not say \"GB/s\"".to_owned()));
    }

    /// `sh` in the place of cargo.
    #[cfg(unix)]
    fn shell(sign: Sign, script: &str, limit: Duration) -> Outcome {
        let part = Part::cargo("planted", sign, &["-c", script]);
        run(OsStr::new("sh"), Path::new("."), &part, limit)
    }

    #[test]
    #[cfg(unix)]
    fn every_way_to_fail_is_told() {
        let minute = Duration::from_secs(60);
        let done = "echo test result: ok. 1 passed";
        assert_eq!(shell(Sign::Tests, done, minute).failure, None);
        let status = shell(Sign::Tests, &format!("{done}; echo why >&2; exit 101"), minute);
        assert_eq!(status.failure.as_deref(), Some("exit status: 101"));
        assert!(status.output.contains("why"), "{}", status.output);
        let killed = shell(Sign::Tests, &format!("{done}; kill -ABRT $$"), minute).failure.expect("killed");
        assert!(killed.starts_with("signal: 6"), "{killed}");
        assert_eq!(shell(Sign::Tests, "true", minute).failure.as_deref(), Some("no test ran"));
        let part = Part::cargo("planted", Sign::Tests, &[]);
        let missing = run(OsStr::new("/no/such/cargo"), Path::new("."), &part, minute);
        assert!(missing.failure.expect("missing").starts_with("it does not start: "));
    }

    /// A test under cargo that hangs: both are ended.
    #[test]
    #[cfg(unix)]
    fn what_hangs_is_ended() {
        let start = Instant::now();
        let hung = shell(Sign::Tests, "echo before; sleep 60; echo after", Duration::from_millis(200));
        assert_eq!(hung.failure.as_deref(), Some("no end after 0 s, so it was ended"));
        assert!(hung.output.contains("before") && !hung.output.contains("after"), "{}", hung.output);
        assert!(start.elapsed() < Duration::from_secs(30), "its child held on");
    }

    #[test]
    #[cfg(unix)]
    fn what_was_skipped_is_told() {
        let script = "echo 'skipped: LILY_MODEL is not set' >&2; echo test result: ok. 1 passed";
        let outcome = shell(Sign::Tests, script, Duration::from_secs(60));
        assert_eq!(outcome.skips, ["skipped: LILY_MODEL is not set"]);
    }
}
