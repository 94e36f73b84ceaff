//! Compiled kernels on disk: one file per hash of everything that decides about the machine code.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

/// A folder of machine code.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
    extension: &'static str,
}

impl Cache {
    /// In `folder`, else in the folder `kind` of `LILY_CACHE_DIR`, else of the user's cache folder; without any of them nothing
    /// is kept.
    pub(super) fn new(folder: Option<PathBuf>, kind: &str, extension: &'static str) -> Self {
        let from_environment = || {
            let named =
                |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let user = || {
                Some(named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?.join("lily"))
            };
            Some(named("LILY_CACHE_DIR").or_else(user)?.join(kind))
        };
        Self { folder: folder.or_else(from_environment), extension }
    }

    /// The code with this hash, if it is kept.
    #[cfg(any(not(target_os = "macos"), test))]
    pub(super) fn get(&self, hash: &str) -> Option<Vec<u8>> {
        fs::read(self.path(hash)?).ok().filter(|code| !code.is_empty())
    }

    /// Keeps code. What goes wrong is logged and costs the next start some seconds.
    #[cfg(any(not(target_os = "macos"), test))]
    pub(super) fn put(&self, hash: &str, code: &[u8]) {
        let Some(path) = self.path(hash) else { return };
        if let Err(error) = in_place_of(&path, |part| fs::write(part, code)) {
            tracing::warn!("{}: {error}; the kernel is compiled again next time", path.display());
        }
    }

    /// Where the code with this hash is, or would be.
    pub(super) fn path(&self, hash: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{hash}.{}", self.extension)))
    }
}

/// Has a file written beside `path` and then put in its place, so that another process sees the whole file or none.
pub(super) fn in_place_of<E: ToString>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let unique = format!("{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let part = folder.join(unique);
    let written = write(&part).map_err(|error| error.to_string());
    let written = written.and_then(|()| fs::rename(&part, path).map_err(|error| error.to_string()));
    if written.is_err() {
        // What is left of it, if anything.
        let _ = fs::remove_file(&part);
    }
    written
}

/// FNV-1a of 128 bits over all parts and their lengths, as hexadecimal digits.
pub(super) fn hash(parts: &[&str]) -> String {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    let mut eat = |byte: u8| hash = (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    for part in parts {
        part.bytes().for_each(&mut eat);
        part.len().to_le_bytes().into_iter().for_each(&mut eat);
    }
    format!("{hash:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("lily-cubin-cache-{}", std::process::id()));
        let cache = Cache::new(Some(folder.clone()), "cuda", "cubin");
        let (one, other) = (hash(&["a", "b"]), hash(&["ab", ""]));
        assert_ne!(one, other);
        assert_eq!(cache.get(&one), None);
        cache.put(&one, b"code");
        assert_eq!(cache.get(&one).as_deref(), Some(&b"code"[..]));
        assert_eq!(cache.get(&other), None);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no part files are left");
        fs::remove_dir_all(folder).unwrap();
    }
}
