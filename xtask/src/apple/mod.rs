//! `cargo xtask apple`: everything about the Apple target that a machine without Apple's tools can check.
//!
//! The calls of Metal are read from the text and held against their tables ([`calls`]). Clippy checks the types of the crates
//! that hold Metal code, and of every other crate of this workspace that goes into the program, as for `aarch64-apple-darwin`;
//! the `lily` program is linked against a stub SDK ([`sdk`]); the executable is read back ([`macho`]); and faults that are
//! planted into a copy of the host code must be found ([`planted`]).
//!
//! Needs the target's standard library (`rustup target add aarch64-apple-darwin`), clang-19 and lld-19.

pub(crate) mod calls;
mod macho;
mod planted;
mod sdk;

use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use macho::{Executable, Version};
use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

/// The target.
const TARGET: &str = "aarch64-apple-darwin";
/// The oldest macOS that the program is made for.
const OLDEST: Version = Version { major: 14, minor: 0 };
/// The linker's front end.
const CLANG: &str = "clang-19";
/// The linker.
const LLD: &str = "ld64.lld-19";
/// Libraries that the program must ask for: Metal's own, and CoreGraphics, without which there is no default device.
const WANTED: [&str; 5] =
    ["Metal.framework", "Foundation.framework", "CoreGraphics.framework", "libobjc", "libSystem"];

/// What to do.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Plant faults into a copy of the host code and expect each to be found.
    #[arg(long)]
    planted: bool,
    /// The list of libSystem's symbols; fetched from PyPI's `ziglang` when not given.
    #[arg(long, value_name = "libSystem.tbd")]
    libsystem: Option<PathBuf>,
}

/// Folders and settings of a run.
struct Apple<'a> {
    root: &'a Path,
    /// Everything that is written goes there.
    folder: PathBuf,
    cargo: OsString,
}

pub(crate) fn run(root: &Path, options: &Options, out: &mut impl Write) -> Result<bool> {
    needs_target()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join(target).join("apple");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let apple = Apple { root, folder, cargo };
    let mut failed = false;
    let mut step = |name: &str, passed: &mut dyn FnMut(&mut dyn Write) -> Result<bool>| -> Result<()> {
        let start = Instant::now();
        let fine = passed(out)?;
        failed |= !fine;
        let verdict = if fine { "ok" } else { "FAILED" };
        writeln!(out, "{name:<8} {verdict:<7} {:>5.0} s", start.elapsed().as_secs_f64())?;
        Ok(out.flush()?)
    };
    step("calls", &mut |out| apple.calls(out))?;
    step("check", &mut |_| apple.clippy())?;
    needs_linker()?;
    let sdk = sdk::write(&apple.folder, options.libsystem.as_deref())?;
    step("link", &mut |out| apple.link(&sdk, out))?;
    if options.planted {
        step("planted", &mut |out| planted::run(&apple, &sdk, out))?;
    }
    Ok(failed)
}

impl Apple<'_> {
    /// The calls of Metal against their tables, as `cargo xtask tidy` has it too.
    fn calls(&self, out: &mut dyn Write) -> Result<bool> {
        let tree = Tree::from_git(self.root)?;
        let (files, own) = calls::texts(&tree);
        let faults = calls::faults(&files, &own);
        for (path, line, words) in &faults {
            writeln!(out, "{path}:{line}: {words}")?;
        }
        Ok(faults.is_empty() && !files.is_empty())
    }

    /// Types and lints of the crates that hold Metal code, tests and examples included, and of the program with every crate
    /// of the workspace that goes into it: clippy looks at those too, unless told otherwise (`--no-deps`).
    fn clippy(&self) -> Result<bool> {
        let mut command = self.cargo(self.root, "clippy");
        command.args(["-p", "lily-gpu", "-p", "lily-kernels", "-p", "lily", "--all-targets"]);
        command.args(["--features", "lily-gpu/emulator,lily-gpu/device-tests,lily-kernels/emulator"]);
        command.args(["--", "-D", "warnings"]);
        Ok(command.status().context("cargo clippy")?.success())
    }

    /// The program as an executable, and what it says about itself.
    fn link(&self, sdk: &Path, out: &mut dyn Write) -> Result<bool> {
        let mut command = self.cargo(self.root, "build");
        command.args(["-p", "lily"]);
        linked_by(&mut command, sdk);
        if !command.status().context("cargo build")?.success() {
            return Ok(false);
        }
        let path = self.folder.join("target").join(TARGET).join("debug/lily");
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let executable = Executable::read(&bytes).with_context(|| path.display().to_string())?;
        writeln!(out, "{executable}")?;
        let faults = faults(&executable);
        for fault in &faults {
            writeln!(out, "{}: {fault}", path.display())?;
        }
        Ok(faults.is_empty())
    }

    /// A cargo command for the target, with its own folder, optimising nothing: nobody runs what it makes.
    fn cargo(&self, root: &Path, what: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(root).args([what, "--locked", "--quiet", "--target", TARGET]);
        command.args(["--config", "profile.dev.debug=false", "--config", "profile.dev.incremental=false"]);
        for package in
            ["*", "lily-kernels", "lily-cpu", "lily-gpu", "lily-checkpoint", "lily-text", "lily-engine"]
        {
            command.arg("--config").arg(format!("profile.dev.package.\"{package}\".opt-level=0"));
        }
        command.env("CARGO_TARGET_DIR", self.folder.join("target")).env_remove("RUSTFLAGS");
        command
    }
}

/// Makes a cargo or rustc command link for macOS.
fn linked_by(command: &mut Command, sdk: &Path) {
    command
        .env("SDKROOT", sdk)
        .env("MACOSX_DEPLOYMENT_TARGET", format!("{OLDEST}"))
        .env("CARGO_TARGET_AARCH64_APPLE_DARWIN_LINKER", CLANG)
        .env("CARGO_TARGET_AARCH64_APPLE_DARWIN_RUSTFLAGS", linker_arguments().join(" "));
}

fn linker_arguments() -> [String; 2] {
    [format!("-Clink-arg=--target=arm64-apple-macos{OLDEST}"), "-Clink-arg=-fuse-ld=lld".to_owned()]
}

/// What is wrong with the executable.
fn faults(executable: &Executable) -> Vec<String> {
    let mut faults = Vec::new();
    if executable.minimum != OLDEST {
        faults.push(format!("made for macOS {} and later, not {OLDEST}", executable.minimum));
    }
    if executable.sdk != sdk::VERSION {
        faults.push(format!("records SDK {}, the stub is {}", executable.sdk, sdk::VERSION));
    }
    for wanted in WANTED {
        if !executable.libraries.iter().any(|library| library.contains(wanted)) {
            faults.push(format!("does not ask for {wanted}"));
        }
    }
    faults
}

fn needs_target() -> Result<()> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let folder = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if !folder.is_ok_and(|folder| Path::new(&folder).is_dir()) {
        bail!("there is no standard library for {TARGET}\nhint: rustup target add {TARGET}");
    }
    Ok(())
}

fn needs_linker() -> Result<()> {
    for tool in [CLANG, LLD] {
        if Command::new(tool).arg("--version").output().is_err() {
            bail!("there is no {tool}\nhint: on Debian, apt-get install clang-19 lld-19");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_without_coregraphics_is_refused() {
        let libraries = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut executable = Executable { minimum: OLDEST, sdk: sdk::VERSION, libraries: libraries(&WANTED) };
        assert_eq!(faults(&executable), [""; 0]);
        executable.libraries.retain(|library| !library.contains("CoreGraphics"));
        executable.minimum = Version { major: 11, minor: 0 };
        let faults = faults(&executable);
        assert_eq!(
            faults,
            ["made for macOS 11.0 and later, not 14.0", "does not ask for CoreGraphics.framework"]
        );
    }
}
