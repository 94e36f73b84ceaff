//! Faults in a copy of the host code: each must be found by the check that is there for its kind.

use super::{Apple, TARGET, calls, linked_by, linker_arguments};
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
    /// What the compiler, or the table of calls, says about it.
    said: &'static str,
}

/// Faults that the compiler finds: of types, and of numbers that are compared with the bindings' names.
const FAULTS: [Fault; 8] = [
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
    Fault {
        name: "Metal 3.0, which has no bfloat",
        file: "crates/lily-gpu/src/device/metal/numbers.rs",
        right: "Language::V3_1 => (3 << 16) + 1,",
        wrong: "Language::V3_1 => 3 << 16,",
        said: "assertion failed: numbers::language(Language::V3_1)",
    },
    Fault {
        name: "buffers that are the GPU's alone",
        file: "crates/lily-gpu/src/device/metal/numbers.rs",
        right: "BUFFER: usize = 1 << 8;",
        wrong: "BUFFER: usize = 1 << 8 | 2 << 4;",
        said: "assertion failed: numbers::BUFFER",
    },
    Fault {
        name: "an upload that does not wait",
        file: "crates/lily-gpu/src/device/metal/api/mod.rs",
        right: ".write(to.offset(), bytes, &mut self.queue.settled()?);",
        wrong: ".write(to.offset(), bytes);",
        said: "this method takes 3 arguments but 2",
    },
];

/// Faults of type-checked text that the table of calls finds.
const CALLS: [Fault; 17] = [
    call(
        "a selector of macOS 26, unguarded",
        "open.rs",
        "device.hasUnifiedMemory()",
        "device.newMTL4CommandQueue().is_some()",
        "newMTL4CommandQueue needs macOS 26.0",
    ),
    call(
        "a guard for an older system",
        "compiler.rs",
        "if available!(macos = 15.0)",
        "if available!(macos = 14.0)",
        "setMathMode needs macOS 15.0",
    ),
    call(
        "a missing guard",
        "compiler.rs",
        "if available!(macos = 26.0)",
        "if wanted.threads > 0",
        "setRequiredThreadsPerThreadgroup needs macOS 26.0",
    ),
    call(
        "a set without a guard",
        "residency.rs",
        "if !available!(macos = 15.0) {\n            return None;\n        }",
        "",
        "needs macOS 15.0",
    ),
    call(
        "a method of which nobody knows since when",
        "open.rs",
        "device.hasUnifiedMemory()",
        "device.isHeadless()",
        "isHeadless is in no table",
    ),
    call(
        "a call past the bindings",
        "open.rs",
        "device.maxBufferLength()",
        "unsafe { objc2::msg_send![device, maxBufferLength] }",
        "msg_send: only the bindings",
    ),
    call(
        "an encoder that is not ended",
        "commands.rs",
        "        self.encoder.endEncoding();\n    }\n}\n\nimpl Fenced",
        "    }\n}\n\nimpl Fenced",
        "endEncoding()\"",
    ),
    call(
        "a command buffer that is not committed",
        "commands.rs",
        "        buffer.commit();\n",
        "",
        "commit()\"",
    ),
    call(
        "a handler of another moment",
        "commands.rs",
        "buffer.addCompletedHandler(",
        "buffer.addScheduledHandler(",
        "addScheduledHandler is in no table",
    ),
    call(
        "no autorelease pool",
        "commands.rs",
        "autoreleasepool(|_| work())",
        "work()",
        "autoreleasepool(|_| work())\"",
    ),
    call(
        "another value of the event",
        "commands.rs",
        "(&*self.event.0), value)",
        "(&*self.event.0), value - 1)",
        "value - 1",
    ),
    call(
        "threads for threadgroups",
        "commands.rs",
        "dispatchThreadgroups_threadsPerThreadgroup",
        "dispatchThreads_threadsPerThreadgroup",
        "dispatchThreads_threads",
    ),
    call(
        "a barrier for textures",
        "commands.rs",
        "MTLBarrierScope(numbers::BARRIER)",
        "MTLBarrierScope::Textures",
        "MTLBarrierScope::Textures",
    ),
    call(
        "a quarter of the bytes",
        "commands.rs",
        "bytes.len(), slot)",
        "bytes.len() / 4, slot)",
        "bytes.len() / 4",
    ),
    call(
        "an offset in words",
        "commands.rs",
        "setBufferOffset_atIndex(offset,",
        "setBufferOffset_atIndex(offset / 4,",
        "offset / 4",
    ),
    call(
        "a copy the other way round",
        "commands.rs",
        "memory(from.0)?.handle(),\n                from.1,\n                memory(to.0)?.handle(),\n                to.1,",
        "memory(to.0)?.handle(),\n                to.1,\n                memory(from.0)?.handle(),\n                from.1,",
        "handle(), to.1, memory(from.0)",
    ),
    call(
        "residency that is ended, not requested",
        "residency.rs",
        "self.0.requestResidency()",
        "self.0.endResidency()",
        "endResidency",
    ),
];

/// A fault in a file of the calls.
const fn call(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    said: &'static str,
) -> Fault {
    Fault { name, file, right, wrong, said }
}

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
    let tree = Tree::from_git(apple.root)?;
    let (files, own) = calls::texts(&tree);
    for fault in &CALLS {
        fine &= verdict_of_calls(out, fault, &files, &own)?;
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

/// Plants a fault into one of the files of calls; true if the table finds it.
fn verdict_of_calls(
    out: &mut dyn Write,
    fault: &Fault,
    files: &[(&str, &str)],
    own: &[&str],
) -> Result<bool> {
    let path = format!("{}{}", calls::FOLDER, fault.file);
    let text = files.iter().find(|(known, _)| *known == path).with_context(|| path.clone())?.1;
    let wrong = planted(fault, text)?;
    let changed: Vec<(&str, &str)> = files
        .iter()
        .map(|&(known, text)| (known, if known == path { wrong.as_str() } else { text }))
        .collect();
    let words: Vec<String> = calls::faults(&changed, own).into_iter().map(|(.., words)| words).collect();
    verdict(out, fault.name, words.is_empty(), words.join("\n").as_bytes(), fault.said)
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
    fn the_table_of_calls_finds_its_faults() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let tree = Tree::from_git(root).unwrap();
        let (files, own) = calls::texts(&tree);
        assert_eq!(calls::faults(&files, &own), []);
        for fault in &CALLS {
            let mut out = Vec::new();
            let found = verdict_of_calls(&mut out, fault, &files, &own).unwrap();
            assert!(found, "{}", String::from_utf8_lossy(&out));
        }
    }

    #[test]
    fn a_check_that_fails_for_another_reason_found_nothing() {
        let mut out = Vec::new();
        assert!(verdict(&mut out, "x", false, b"error: mismatched types", "mismatched types").unwrap());
        assert!(!verdict(&mut out, "x", true, b"", "mismatched types").unwrap());
        assert!(!verdict(&mut out, "x", false, b"no network", "mismatched types").unwrap());
    }
}
