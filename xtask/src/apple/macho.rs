//! What an arm64 Mach-O executable says about itself: the system it is for, the SDK it was made with, its libraries.

use anyhow::{Context, Result, bail};
use std::fmt;

const MAGIC_64: u32 = 0xfeed_facf;
const CPU_ARM64: u32 = 0x0100_000c;
const TYPE_EXECUTE: u32 = 2;
const HEADER: usize = 32;
const LC_LOAD_DYLIB: u32 = 0xc;
const LC_LOAD_WEAK_DYLIB: u32 = 0x8000_0018;
const LC_BUILD_VERSION: u32 = 0x32;
const PLATFORM_MACOS: u32 = 1;

/// `major.minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version {
    pub(super) major: u16,
    pub(super) minor: u8,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Version {
    /// From Mach-O's 16.8.8 bits.
    fn of(word: u32) -> Self {
        Self { major: (word >> 16) as u16, minor: (word >> 8) as u8 }
    }
}

/// An executable for macOS on arm64.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Executable {
    /// The oldest macOS that it is made for.
    pub(super) minimum: Version,
    /// What the system takes for the SDK: it decides, among others, the default version of Metal's language.
    pub(super) sdk: Version,
    /// Install names, in order.
    pub(super) libraries: Vec<String>,
}

impl Executable {
    /// Reads the load commands.
    ///
    /// # Errors
    /// For anything but an arm64 executable for macOS.
    pub(super) fn read(bytes: &[u8]) -> Result<Self> {
        if (word(bytes, 0)?, word(bytes, 4)?, word(bytes, 12)?) != (MAGIC_64, CPU_ARM64, TYPE_EXECUTE) {
            bail!("not an arm64 Mach-O executable");
        }
        let (mut at, mut build, mut libraries) = (HEADER, None, Vec::new());
        for _ in 0..word(bytes, 16)? {
            let (command, size) = (word(bytes, at)?, word(bytes, at + 4)? as usize);
            let body = bytes.get(at..at + size).context("a load command is cut short")?;
            match command {
                LC_BUILD_VERSION if word(body, 8)? == PLATFORM_MACOS => {
                    build = Some((Version::of(word(body, 12)?), Version::of(word(body, 16)?)));
                }
                LC_LOAD_DYLIB | LC_LOAD_WEAK_DYLIB => libraries.push(name(body)?),
                _ => {}
            }
            at += size.max(8);
        }
        let (minimum, sdk) = build.context("no build version for macOS")?;
        Ok(Self { minimum, sdk, libraries })
    }
}

impl fmt::Display for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "arm64, macOS {} and later, SDK {}, with", self.minimum, self.sdk)?;
        let short = |library: &String| library.rsplit('/').next().unwrap_or(library).to_owned();
        write!(f, " {}", self.libraries.iter().map(short).collect::<Vec<_>>().join(", "))
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let word =
        bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).context("the file is cut short")?;
    Ok(u32::from_le_bytes(word))
}

/// The name of a library's load command.
fn name(body: &[u8]) -> Result<String> {
    let text = body.get(word(body, 8)? as usize..).context("a library's name lies outside its command")?;
    let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
    Ok(String::from_utf8_lossy(&text[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(commands: &[Vec<u32>]) -> Vec<u8> {
        let size = commands.iter().map(|command| 4 * command.len() as u32).sum();
        let header = [MAGIC_64, CPU_ARM64, 0, TYPE_EXECUTE, commands.len() as u32, size, 0, 0];
        header.iter().chain(commands.iter().flatten()).flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn what_an_executable_says() {
        let text = u32::from_le_bytes(*b"/a/B");
        let bytes = file(&[
            vec![0x19, 16, 7, 7],
            vec![LC_BUILD_VERSION, 24, PLATFORM_MACOS, 14 << 16, 15 << 16 | 2 << 8, 0],
            vec![LC_LOAD_DYLIB, 24, 16, 0, text, 0],
        ]);
        let executable = Executable::read(&bytes).unwrap();
        assert_eq!(executable.to_string(), "arm64, macOS 14.0 and later, SDK 15.2, with B");
        assert_eq!(executable.libraries, ["/a/B"]);
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |bytes: &[u8]| Executable::read(bytes).unwrap_err().to_string();
        assert_eq!(refused(&[]), "the file is cut short");
        assert_eq!(refused(&[0x7f; 40]), "not an arm64 Mach-O executable");
        assert_eq!(refused(&file(&[])), "no build version for macOS");
        assert_eq!(refused(&file(&[vec![LC_LOAD_DYLIB, 400]])), "a load command is cut short");
    }
}
