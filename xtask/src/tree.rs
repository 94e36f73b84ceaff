//! The files that belong to the repository, read once.

use anyhow::{Context, Result, bail};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// One file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

/// All files of the repository.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Absolute path of the root.
    pub(crate) root: PathBuf,
    /// Sorted by path.
    pub(crate) files: Vec<File>,
}

impl File {
    /// The text, if the file is UTF-8 without NUL bytes.
    pub(crate) fn text(&self) -> Option<&str> {
        if self.bytes.contains(&0) {
            return None;
        }
        std::str::from_utf8(&self.bytes).ok()
    }

    /// The name's extension, or the empty string.
    pub(crate) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        name.rsplit_once('.').map_or("", |(stem, extension)| if stem.is_empty() { "" } else { extension })
    }

    /// True for files whose bytes are data to be kept exactly as they are: test data and the nano checkpoint.
    pub(crate) fn is_data(&self) -> bool {
        let checkpoint =
            self.path.starts_with("models/") && matches!(self.extension(), "json" | "jinja" | "safetensors");
        checkpoint
            || self.path.contains("tests/data/")
            || self.path.contains("fuzz/seeds/")
            || self.path.contains("fuzz/corpus/")
            || matches!(self.extension(), "jsonl" | "lock" | "snap")
    }
}

impl Tree {
    /// What git tracks in `root`, and what it does not ignore.
    pub(crate) fn from_git(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("git ls-files: is git installed?")?;
        if !output.status.success() {
            bail!("git ls-files in {}: {}", root.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        let listing =
            String::from_utf8(output.stdout).context("git ls-files printed a path that is not UTF-8")?;
        let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        Self::read(root, &paths)
    }

    /// The given files below `root`. A listed file that is gone (deleted, not yet committed) is left out.
    fn read(root: &Path, paths: &[&str]) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(path);
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| full.display().to_string())?;
            files.push(File { path: (*path).to_owned(), bytes });
        }
        Ok(Self { root: root.to_path_buf(), files })
    }

    /// The file at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The texts among the files with one of these extensions.
    pub(crate) fn texts<'a>(&'a self, extensions: &'a [&str]) -> impl Iterator<Item = (&'a File, &'a str)> {
        let wanted = move |file: &&File| extensions.contains(&file.extension());
        self.files.iter().filter(wanted).filter_map(|file| Some((file, file.text()?)))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::Tree;
    use tempfile::TempDir;

    /// A tree of the given files on disk; it lives as long as the folder.
    pub(crate) fn plant(files: &[(&str, &str)]) -> (TempDir, Tree) {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let full = folder.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        let mut paths: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
        paths.sort_unstable();
        let tree = Tree::read(folder.path(), &paths).unwrap();
        (folder, tree)
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, testing::plant};
    use std::process::Command;

    #[test]
    fn git_lists_tracked_and_new_files_but_not_ignored_ones() {
        let (folder, _) = plant(&[(".gitignore", "/out\n"), ("a.rs", "x\n"), ("out/b.rs", "y\n")]);
        let init = Command::new("git").args(["init", "-q"]).current_dir(folder.path()).status().unwrap();
        assert!(init.success());
        let tree = Tree::from_git(folder.path()).unwrap();
        let paths: Vec<_> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".gitignore", "a.rs"]);
    }

    #[test]
    fn extensions_and_data_are_told_by_path() {
        let (_folder, tree) =
            plant(&[(".ci/run", "x"), ("models/nano/config.json", "{}"), ("a/tests/data/x.txt", "y")]);
        assert_eq!(tree.get(".ci/run").unwrap().extension(), "");
        assert!(tree.get("models/nano/config.json").unwrap().is_data());
        assert!(tree.get("a/tests/data/x.txt").unwrap().is_data());
        assert!(!tree.get(".ci/run").unwrap().is_data());
    }

    #[test]
    fn bytes_that_are_no_text_have_none() {
        let (_folder, tree) = plant(&[("a.bin", "a\0b"), ("a.txt", "a")]);
        assert!(tree.get("a.bin").unwrap().text().is_none());
        assert_eq!(tree.get("a.txt").unwrap().text(), Some("a"));
    }
}
