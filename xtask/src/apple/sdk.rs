//! A stub of the macOS SDK: as much as linking takes. What it proves is that the program's symbols are declared
//! consistently and, for libSystem, whose list is Apple's own, that they exist. The other lists are written by hand.

use super::macho::Version;
use anyhow::{Context, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The version that the stub calls itself, which an executable records. To one with an older SDK, macOS 26 says that it is 16.
/// The default version of Metal's language depends on it too, so that the Metal device always names the language itself.
pub(super) const VERSION: Version = Version { major: 26, minor: 0 };
/// Where libSystem's list comes from: one file of a Python package.
const PACKAGE: &str = "ziglang==0.15.2";
const MEMBER: &str = "ziglang/lib/libc/darwin/libSystem.tbd";
/// Takes one file out of a wheel: archive, member, destination.
const EXTRACT: &str =
    "import sys, zipfile; open(sys.argv[3], 'wb').write(zipfile.ZipFile(sys.argv[1]).read(sys.argv[2]))";

/// A framework of the system as a row of [`LIBRARIES`].
macro_rules! framework {
    ($name:literal, $version:literal, $symbols:literal) => {
        (
            concat!("System/Library/Frameworks/", $name, ".framework/", $name, ".tbd"),
            concat!("/System/Library/Frameworks/", $name, ".framework/Versions/", $version, "/", $name),
            $symbols,
        )
    };
}

/// Folder, install name, symbols.
const LIBRARIES: [(&str, &str, &str); 6] = [
    ("usr/lib/libiconv.tbd", "/usr/lib/libiconv.2.dylib", ""),
    ("usr/lib/libobjc.tbd", "/usr/lib/libobjc.A.dylib", include_str!("libobjc.txt")),
    framework!("Metal", "A", "_MTLCreateSystemDefaultDevice _MTLCopyAllDevices"),
    framework!("Foundation", "C", ""),
    framework!("CoreFoundation", "A", ""),
    framework!("CoreGraphics", "A", ""),
];

/// Writes the SDK into `folder/sdk` and answers where.
pub(super) fn write(folder: &Path, libsystem: Option<&Path>) -> Result<PathBuf> {
    let sdk = folder.join("sdk");
    let system = match libsystem {
        Some(path) => path.to_owned(),
        None => fetched(folder)?,
    };
    for (path, install_name, symbols) in LIBRARIES {
        put(&sdk.join(path), &stub(install_name, symbols))?;
    }
    let text = fs::read_to_string(&system).with_context(|| system.display().to_string())?;
    for name in ["libSystem", "libc", "libm"] {
        put(&sdk.join(format!("usr/lib/{name}.tbd")), &text)?;
    }
    let settings = format!(
        "{{\"CanonicalName\": \"macosx{VERSION}\", \"Version\": \"{VERSION}\", \"MaximumDeploymentTarget\": \
         \"{VERSION}.99\"}}\n"
    );
    put(&sdk.join("SDKSettings.json"), &settings)?;
    Ok(sdk)
}

/// A text-based stub of a library.
fn stub(install_name: &str, symbols: &str) -> String {
    let symbols: Vec<&str> = symbols.split_whitespace().collect();
    format!(
        "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: '{install_name}'\n\
         current-version: 1\nexports:\n  - targets: [ arm64-macos ]\n    symbols: [ {} ]\n...\n",
        symbols.join(", ")
    )
}

fn put(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// libSystem's list, taken out of the package once.
fn fetched(folder: &Path) -> Result<PathBuf> {
    let list = folder.join("libSystem.tbd");
    if list.is_file() {
        return Ok(list);
    }
    let wheels = folder.join("wheels");
    let python = python(folder)?;
    let fetch = run(Command::new(&python)
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", PACKAGE])
        .arg("--dest")
        .arg(&wheels));
    fetch.with_context(|| format!("cannot fetch {PACKAGE}\nhint: name a libSystem.tbd with --libsystem"))?;
    let mut found = fs::read_dir(&wheels)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = found.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let wheel = wheel.with_context(|| format!("{} holds no wheel", wheels.display()))?;
    let part = folder.join("libSystem.part");
    run(Command::new(&python).args(["-c", EXTRACT]).arg(&wheel).arg(MEMBER).arg(&part))?;
    fs::rename(&part, &list)?;
    fs::remove_dir_all(&wheels)?;
    Ok(list)
}

/// A Python with pip: of a virtual environment, because the system's often has none.
fn python(folder: &Path) -> Result<PathBuf> {
    let environment = folder.join("venv");
    let python = environment.join("bin/python");
    if !environment.join("bin/pip").is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            .context("cannot make a virtual environment\nhint: name a libSystem.tbd with --libsystem")?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_names_its_library_and_symbols() {
        let text = stub("/usr/lib/libx.dylib", "_a\n  _b\n");
        assert!(text.contains("install-name: '/usr/lib/libx.dylib'\n"), "{text}");
        assert!(text.contains("symbols: [ _a, _b ]\n"), "{text}");
    }

    #[test]
    fn the_sdk_is_written_where_linkers_look() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list.tbd");
        fs::write(&list, "symbols").unwrap();
        let sdk = write(folder.path(), Some(&list)).unwrap();
        assert_eq!(fs::read_to_string(sdk.join("usr/lib/libSystem.tbd")).unwrap(), "symbols");
        let metal =
            fs::read_to_string(sdk.join("System/Library/Frameworks/Metal.framework/Metal.tbd")).unwrap();
        assert!(metal.contains("/System/Library/Frameworks/Metal.framework/Versions/A/Metal"), "{metal}");
        let settings: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(sdk.join("SDKSettings.json")).unwrap()).unwrap();
        assert_eq!(settings["Version"], VERSION.to_string());
    }
}
