//! From text to a loaded library, once per text.

use libloading::Library;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checks {
    /// Everything.
    Full,
    /// Bounds, alignment and divergence, not races and unwritten reads: several times faster.
    Bounds,
}

/// Why a kernel could not be made ready.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EmulatorError {
    /// The compiler could not be started.
    #[error("cannot run the C++ compiler `{compiler}`: {reason}; set CXX to one that knows C++17")]
    NoCompiler {
        /// What was tried.
        compiler: String,
        /// The system's words.
        reason: String,
    },
    /// The text does not compile.
    #[error("{key} does not compile:\n{output}")]
    Compile {
        /// The specialisation.
        key: String,
        /// The compiler's words.
        output: String,
    },
    /// The compiled kernel could not be stored or loaded.
    #[error("{path}: {reason}")]
    Load {
        /// The file.
        path: String,
        /// The system's words.
        reason: String,
    },
}

type Slot = Arc<OnceLock<Result<&'static Library, EmulatorError>>>;

/// Loaded libraries by hash. They stay loaded: their thread-local data may outlive every handle.
static LOADED: LazyLock<Mutex<HashMap<u128, Slot>>> = LazyLock::new(Mutex::default);

/// The library of `text`, compiled at most once per process and found on disk after that.
pub(super) fn library(key: &str, text: &str, checks: Checks) -> Result<&'static Library, EmulatorError> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    // Arrays of a thread's own are the compiler's to check: it calls a handler of host_machine.h.
    let level: &[&str] = match checks {
        Checks::Full => &["-DKD_CHECK=2", "-fsanitize=bounds"],
        Checks::Bounds => &["-DKD_CHECK=1"],
    };
    let hash = fnv1a([compiler.as_bytes(), level.join(" ").as_bytes(), text.as_bytes()]);
    let slot = {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(loaded.entry(hash).or_default())
    };
    slot.get_or_init(|| {
        let path = folder()?.join(format!("{hash:032x}.so"));
        if !path.exists() {
            compile(&compiler, level, key, text, &path)?;
        }
        // SAFETY: the library was compiled from this crate's text; its initialisers only fill a table of kernels.
        let library = unsafe { Library::new(&path) }.map_err(|error| load_error(&path, &error))?;
        Ok(Box::leak(Box::new(library)))
    })
    .clone()
}

fn compile(compiler: &str, level: &[&str], key: &str, text: &str, path: &Path) -> Result<(), EmulatorError> {
    let partial = path.with_extension(format!("{}.partial", std::process::id()));
    let mut child = Command::new(compiler)
        .args(["-std=c++17", "-O1", "-fPIC", "-shared", "-w", "-fno-strict-aliasing", "-ffp-contract=off"])
        .args(level)
        // Libraries of one process must not share what has the same name in each.
        .arg("-fvisibility=hidden")
        .args(["-x", "c++", "-", "-o"])
        .arg(&partial)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| EmulatorError::NoCompiler {
            compiler: compiler.to_owned(),
            reason: error.to_string(),
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A compiler that stops reading says why on stderr.
        let _ = stdin.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| load_error(path, &error))?;
    if !output.status.success() {
        let output = String::from_utf8_lossy(&output.stderr).lines().take(40).collect::<Vec<_>>().join("\n");
        return Err(EmulatorError::Compile { key: key.to_owned(), output });
    }
    std::fs::rename(&partial, path).map_err(|error| load_error(path, &error))
}

fn folder() -> Result<PathBuf, EmulatorError> {
    let folder = match std::env::var_os("LILY_EMULATOR_CACHE") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_exe()
            .ok()
            .and_then(|exe| Some(exe.parent()?.join("lily-emulator")))
            .unwrap_or_else(|| PathBuf::from("lily-emulator")),
    };
    std::fs::create_dir_all(&folder).map_err(|error| load_error(&folder, &error))?;
    Ok(folder)
}

fn load_error(path: &Path, error: &dyn std::error::Error) -> EmulatorError {
    EmulatorError::Load { path: path.display().to_string(), reason: error.to_string() }
}

/// 128-bit FNV-1a over parts and their lengths.
fn fnv1a<const N: usize>(parts: [&[u8]; N]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013B;
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for part in parts {
        for &byte in part.iter().chain(&part.len().to_le_bytes()) {
            hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
        }
    }
    hash
}
