//! Faults in a copy of the host code: each must be found by the check that is there for its kind.

use super::{Apple, TARGET, linked_by, linker_arguments};
use crate::tree::Tree;
use anyhow::{Context, Result, bail};
use std::{fs, io::Write, path::Path, process::Command};

/// A line of the host code, wrong.
struct Fault {
    /// What kind of mistake it is.
    name: &'static str,
    /// In which file.
    file: &'static str,
    /// What stands there once.
    right: &'static str,
    /// What is put in its place.
    wrong: &'static str,
    /// What the compiler says about it.
    said: &'static str,
}

const FAULTS: [Fault; 5] = [
    Fault {
        name: "a number of another type",
        file: "crates/lily-gpu/src/device/metal/api/open.rs",
        right: "max_buffer: device.maxBufferLength() as u64,",
        wrong: "max_buffer: device.maxBufferLength(),",
        said: "mismatched types",
    },
    Fault {
        name: "a method that the API does not have",
        file: "crates/lily-gpu/src/device/metal/api/compiler.rs",
        right: "options.setLanguageVersion(",
        wrong: "options.setLanguage(",
        said: "no method named `setLanguage`",
    },
    Fault {
        name: "arguments in the wrong order",
        file: "crates/lily-gpu/src/device/metal/api/commands.rs",
        right: "buffer.encodeSignalEvent_value(ProtocolObject::from_ref(&*self.event.0), value)",
        wrong: "buffer.encodeSignalEvent_value(value, ProtocolObject::from_ref(&*self.event.0))",
        said: "arguments to this method are incorrect",
    },
    Fault {
        name: "an object that must stay on its thread",
        file: "crates/lily-gpu/src/device/metal/api/memory.rs",
        right: "unsafe impl Send for Memory {}",
        wrong: "",
        said: "cannot be sent between threads safely",
    },
    Fault {
        name: "an unchecked call that is not marked",
        file: "crates/lily-gpu/src/device/metal/api/commands.rs",
        right: "unsafe { self.encoder.setBufferOffset_atIndex(offset, slot as usize) };",
        wrong: "self.encoder.setBufferOffset_atIndex(offset, slot as usize);",
        said: "is unsafe and requires unsafe",
    },
];

/// A program that names a symbol which no library has.
const UNDEFINED: &str = r#"
#[link(name = "Metal", kind = "framework")]
unsafe extern "C" { fn MTLCreateSystemDefaultDevise() -> usize; }
fn main() { std::process::exit(unsafe { MTLCreateSystemDefaultDevise() } as i32) }
"#;

/// Plants each fault in turn; true if every one was found.
pub(super) fn run(apple: &Apple<'_>, sdk: &Path, out: &mut dyn Write) -> Result<bool> {
    let copy = apple.folder.join("planted");
    copy_tree(apple.root, &copy)?;
    let mut fine = true;
    for fault in &FAULTS {
        let path = copy.join(fault.file);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        fs::write(&path, planted(fault, &text)?)?;
        let mut command = apple.cargo(&copy, "check");
        let output = command.args(["-p", "lily-gpu"]).output().context("cargo check")?;
        fs::write(&path, &text)?;
        fine &= verdict(out, fault.name, output.status.success(), &output.stderr, fault.said)?;
    }
    let source = apple.folder.join("undefined.rs");
    fs::write(&source, UNDEFINED)?;
    let mut command = Command::new("rustc");
    command.args(["--edition", "2024", "--target", TARGET, "-Clinker=clang-19"]).args(linker_arguments());
    linked_by(&mut command, sdk);
    let output =
        command.arg(&source).arg("-o").arg(apple.folder.join("undefined")).output().context("rustc")?;
    fine &= verdict(
        out,
        "a symbol that is nowhere",
        output.status.success(),
        &output.stderr,
        "undefined symbol",
    )?;
    Ok(fine)
}

/// The text with the fault in it.
fn planted(fault: &Fault, text: &str) -> Result<String> {
    match text.matches(fault.right).count() {
        1 => Ok(text.replacen(fault.right, fault.wrong, 1)),
        count => bail!("{}: {:?} stands there {count} times, not once", fault.file, fault.right),
    }
}

/// Says whether a fault was found, and by the right words.
fn verdict(out: &mut dyn Write, name: &str, passed: bool, stderr: &[u8], said: &str) -> Result<bool> {
    let text = String::from_utf8_lossy(stderr);
    let found = !passed && text.contains(said);
    let words = if found { "found" } else { "NOT FOUND" };
    writeln!(out, "planted: {name}: {words}")?;
    if !passed && !found {
        writeln!(out, "expected {said:?} in\n{text}")?;
    }
    Ok(found)
}

/// The repository's files at another place. Files that are the same already keep their time, so that little is built anew.
fn copy_tree(root: &Path, copy: &Path) -> Result<()> {
    for file in Tree::from_git(root)?.files {
        let to = copy.join(&file.path);
        let wanted =
            file.path.ends_with(".toml") || file.path.ends_with(".lock") || file.path.starts_with("crates/");
        if !wanted && !file.path.starts_with("xtask/") {
            continue;
        }
        if fs::read(&to).is_ok_and(|bytes| bytes == file.bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs::write(&to, &file.bytes).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_needs_its_one_place() {
        let fault = Fault { name: "", file: "f.rs", right: "a + b", wrong: "a - b", said: "" };
        assert_eq!(planted(&fault, "x(a + b)").unwrap(), "x(a - b)");
        assert!(planted(&fault, "a + b, a + b").is_err());
        assert!(planted(&fault, "").is_err());
    }

    #[test]
    fn a_check_that_fails_for_another_reason_found_nothing() {
        let mut out = Vec::new();
        assert!(verdict(&mut out, "x", false, b"error: mismatched types", "mismatched types").unwrap());
        assert!(!verdict(&mut out, "x", true, b"", "mismatched types").unwrap());
        assert!(!verdict(&mut out, "x", false, b"no network", "mismatched types").unwrap());
    }
}
