//! Where a checkpoint's files come from: a folder or memory.

use crate::{Bytes, CheckpointError, mapped};
use std::{
    io::Read,
    path::{Path, PathBuf},
};

/// The largest file that is read into memory whole (the real tokenizer has 11 MB); weights are mapped instead.
const MAX_READ: u64 = 256 << 20;
/// The largest config or index: parsed JSON takes several times its size (the real model's index has 0.2 MB).
const MAX_JSON: u64 = 16 << 20;
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
const DOWNLOAD_AGAIN: &str = "incomplete download; download this file again";

/// The files of one checkpoint.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    Folder(PathBuf),
    Memory(Vec<(String, Bytes)>),
}

impl Files {
    /// An error unless there is a folder.
    pub(crate) fn check_place(&self) -> Result<(), CheckpointError> {
        let Self::Folder(folder) = self else { return Ok(()) };
        match folder.metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(CheckpointError::File {
                file: self.place(),
                problem: "not a folder".to_owned(),
                hint: "a checkpoint is a folder with config.json, tokenizer.json and *.safetensors".into(),
            }),
            Err(source) => Err(io(folder, source)),
        }
    }

    /// The folder for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Folder(folder) => folder.display().to_string(),
            Self::Memory(_) => "the files in memory".to_owned(),
        }
    }

    /// A file for messages.
    pub(crate) fn label(&self, name: &str) -> String {
        match self {
            Self::Folder(folder) => folder.join(name).display().to_string(),
            Self::Memory(_) => name.to_owned(),
        }
    }

    /// The names of all files, sorted.
    pub(crate) fn list(&self) -> Result<Vec<String>, CheckpointError> {
        let mut names: Vec<String> = match self {
            Self::Folder(folder) => {
                let io = |source| CheckpointError::Io { path: folder.clone(), source };
                let mut names = Vec::new();
                for entry in folder.read_dir().map_err(io)? {
                    let entry = entry.map_err(io)?;
                    // Follows links: a hub cache holds links to blobs. A dangling one counts as absent.
                    if entry.path().is_file() {
                        names.push(entry.file_name().to_string_lossy().into_owned());
                    }
                }
                names
            }
            Self::Memory(files) => files.iter().map(|(name, _)| name.clone()).collect(),
        };
        names.sort();
        Ok(names)
    }

    /// The contents of a config or an index, or `None` when it is not there.
    pub(crate) fn read_json(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        self.read_at_most(name, MAX_JSON)
    }

    /// The contents of a small file, or `None` when it is not there.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        self.read_at_most(name, MAX_READ)
    }

    fn read_at_most(&self, name: &str, limit: u64) -> Result<Option<Bytes>, CheckpointError> {
        let too_large = |length: u64| {
            let problem =
                format!("the file has {length} bytes; at most {limit} are expected in a file of this name");
            self.error(name, problem, "")
        };
        let Some(bytes) = self.fetch(name, |path, length| {
            if length > limit {
                return Err(too_large(length));
            }
            let mut contents = Vec::new();
            let file = std::fs::File::open(path).map_err(|source| io(path, source))?;
            // A file that grows meanwhile is cut, and its parser will say so.
            file.take(limit).read_to_end(&mut contents).map_err(|source| io(path, source))?;
            Ok(Bytes::new(contents))
        })?
        else {
            return Ok(None);
        };
        if bytes.len() as u64 > limit {
            return Err(too_large(bytes.len() as u64));
        }
        self.refuse_pointer(name, &bytes)?;
        Ok(Some(bytes))
    }

    /// The contents of a weight file, mapped.
    pub(crate) fn map(&self, name: &str) -> Result<Option<Bytes>, CheckpointError> {
        let Some(bytes) = self.fetch(name, |path, length| {
            if length == 0 {
                Ok(Bytes::new([]))
            } else {
                mapped::map(path).map_err(|source| io(path, source))
            }
        })?
        else {
            return Ok(None);
        };
        if bytes.is_empty() {
            return Err(self.error(name, "the file is empty", DOWNLOAD_AGAIN));
        }
        self.refuse_pointer(name, &bytes)?;
        Ok(Some(bytes))
    }

    fn fetch(
        &self,
        name: &str,
        from_disk: impl FnOnce(&Path, u64) -> Result<Bytes, CheckpointError>,
    ) -> Result<Option<Bytes>, CheckpointError> {
        if !is_file_name(name) {
            return Err(self.error(name, "not the name of a file in the checkpoint's own folder", ""));
        }
        match self {
            Self::Memory(files) => Ok(files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.clone())),
            Self::Folder(folder) => {
                let path = folder.join(name);
                let metadata = match path.metadata() {
                    Ok(metadata) => metadata,
                    Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(source) => return Err(io(&path, source)),
                };
                // Opening a pipe would wait for ever.
                if !metadata.is_file() {
                    return Err(self.error(name, "not a regular file", ""));
                }
                from_disk(&path, metadata.len()).map(Some)
            }
        }
    }

    fn refuse_pointer(&self, name: &str, bytes: &[u8]) -> Result<(), CheckpointError> {
        if bytes.starts_with(LFS_POINTER) {
            let hint = "incomplete download; run `git lfs pull` in the folder, or download this file again";
            return Err(self.error(name, "a git-lfs pointer instead of the file's contents", hint));
        }
        Ok(())
    }

    fn error(&self, name: &str, problem: impl Into<String>, hint: &str) -> CheckpointError {
        CheckpointError::File { file: self.label(name), problem: problem.into(), hint: hint.into() }
    }
}

/// Whether a name is a plain one: no folders, no way out of the checkpoint's own.
pub(crate) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}

fn io(path: &Path, source: std::io::Error) -> CheckpointError {
    CheckpointError::Io { path: path.to_owned(), source }
}
