//! Weight files: which are read, which are missing, which are not what they seem.

use crate::support::{Draft, Tiny, assert_says, refusal, safetensors};
use lily_checkpoint::Checkpoint;
use serde_json::{Value, json};
use std::{fs, path::Path};

const INDEX: &str = "model.safetensors.index.json";

fn sharded(shards: usize) -> (Draft, tempfile::TempDir) {
    let mut draft = Tiny::new().converted();
    draft.shards = shards;
    let folder = tempfile::tempdir().unwrap();
    draft.write(folder.path());
    (draft, folder)
}

fn edit_index(folder: &Path, edit: impl FnOnce(&mut Value)) {
    let mut index: Value = serde_json::from_slice(&fs::read(folder.join(INDEX)).unwrap()).unwrap();
    edit(&mut index);
    fs::write(folder.join(INDEX), index.to_string()).unwrap();
}

fn refused(folder: &Path, says: &[&str]) {
    assert_says(&refusal(Checkpoint::open(folder)), says);
}

#[test]
fn all_missing_files_are_listed() {
    let (_, folder) = sharded(4);
    for number in [2, 4] {
        fs::remove_file(folder.path().join(format!("model-0000{number}-of-00004.safetensors"))).unwrap();
    }
    refused(
        folder.path(),
        &["2 of the model's files", "model-00002-of-00004", "model-00004-of-00004", "hint: download"],
    );
}

#[test]
fn leftover_index() {
    let (mut draft, folder) = sharded(2);
    draft.shards = 1;
    draft.write(folder.path());
    // Complete by the index, which alone counts: the single file is a stray.
    let opened = Checkpoint::open(folder.path()).unwrap();
    assert_says(&opened.warnings.join("\n"), &["not named by the index): model.safetensors"]);
    // The files that the index names are gone; no guess which of the two is meant.
    fs::remove_file(folder.path().join("model-00001-of-00002.safetensors")).unwrap();
    fs::remove_file(folder.path().join("model-00002-of-00002.safetensors")).unwrap();
    refused(
        folder.path(),
        &[
            "incomplete download",
            "model-00002-of-00002.safetensors",
            "model.safetensors is there but not named",
            "remove the index",
        ],
    );
    fs::remove_file(folder.path().join(INDEX)).unwrap();
    Checkpoint::open(folder.path()).unwrap();
}

#[test]
fn without_an_index() {
    let (_, folder) = sharded(3);
    fs::remove_file(folder.path().join(INDEX)).unwrap();
    assert_eq!(Checkpoint::open(folder.path()).unwrap().warnings, Vec::<String>::new());
    // Names that are almost right belong to no set.
    for stray in [
        "model-00004-of-00003.safetensors",
        "model-0001-of-0003.safetensors",
        "model-00000-of-00003.safetensors",
    ] {
        fs::write(folder.path().join(stray), "x").unwrap();
    }
    assert_says(
        &Checkpoint::open(folder.path()).unwrap().warnings.join(""),
        &["model-00004-of-00003.safetensors"],
    );
    fs::write(folder.path().join("model-00001-of-00002.safetensors"), "x").unwrap();
    refused(folder.path(), &["files of several checkpoints", "[2, 3]"]);
}

#[test]
fn no_weights_at_all() {
    let folder = tempfile::tempdir().unwrap();
    refused(&folder.path().join("absent"), &["absent"]);
    refused(folder.path(), &["no config.json", "hint: a checkpoint is a folder"]);
    fs::write(folder.path().join("config.json"), Tiny::new().config().to_string()).unwrap();
    refused(&folder.path().join("config.json"), &["not a folder"]);
    refused(folder.path(), &["needed is model.safetensors", "found no *.safetensors but config.json"]);
    fs::create_dir(folder.path().join("model.safetensors")).unwrap();
    refused(folder.path(), &["no weights"]);
}

#[test]
fn files_that_are_not_weights() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n";
    for name in ["model-00002-of-00003.safetensors", INDEX, "config.json"] {
        let (_, folder) = sharded(3);
        fs::write(folder.path().join(name), pointer).unwrap();
        refused(folder.path(), &[name, "git-lfs pointer", "incomplete download", "git lfs pull"]);
    }
    let (_, folder) = sharded(3);
    let shard = folder.path().join("model-00002-of-00003.safetensors");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, "").unwrap();
    refused(folder.path(), &["model-00002-of-00003.safetensors", "is empty", "incomplete download"]);
    fs::write(&shard, &whole[..whole.len() - 5]).unwrap();
    let lengths = format!("{} bytes and its header describes {}", whole.len() - 5, whole.len());
    refused(folder.path(), &["model-00002-of-00003.safetensors", "incomplete download", &lengths]);
    fs::write(&shard, [&whole[..], b"more"].concat()).unwrap();
    refused(folder.path(), &["model-00002-of-00003.safetensors", "4 bytes after the last tensor"]);
    fs::write(&shard, "<!DOCTYPE html><html>404 not found</html>").unwrap();
    refused(folder.path(), &["model-00002-of-00003.safetensors", "damaged safetensors header"]);
}

#[test]
fn an_index_that_lies() {
    let file = "model-00001-of-00002.safetensors";
    let norm = "language_model.model.norm.weight";
    let map = |index: &mut Value| index["weight_map"].as_object_mut().unwrap().clone();
    let change = |edit: &dyn Fn(&mut Value), says: &[&str]| {
        let (_, folder) = sharded(2);
        edit_index(folder.path(), edit);
        refused(folder.path(), says);
    };
    for bad in ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", "c:\\x", "a\0"] {
        change(&|index| index["weight_map"][norm] = json!(bad), &[INDEX, norm, "in the same folder"]);
    }
    change(&|index| index["weight_map"][norm] = json!(3), &[INDEX, norm, "in 3"]);
    change(&|index| index["weight_map"]["x"] = json!(file), &[INDEX, "`x`", file, "does not hold it"]);
    change(
        &|index| {
            let other = map(index).values().find(|f| *f != &index["weight_map"][norm]).unwrap().clone();
            index["weight_map"][norm] = other;
        },
        &[INDEX, norm, "does not hold it"],
    );
    change(&|index| index["weight_map"] = json!({}), &[INDEX, "is empty"]);
    change(&|index| index["weight_map"] = json!([]), &[INDEX, "must be an object"]);
    change(&|index| *index = json!([]), &[INDEX, "expected an object"]);
    let (_, folder) = sharded(2);
    fs::write(folder.path().join(INDEX), "{\"weight_map\": {").unwrap();
    refused(folder.path(), &[INDEX, "not valid JSON", "line 1"]);

    // A tensor that its file holds and the index leaves out is read all the same.
    let (_, folder) = sharded(2);
    edit_index(folder.path(), |index| drop(index["weight_map"].as_object_mut().unwrap().remove(norm)));
    let opened = Checkpoint::open(folder.path()).unwrap();
    assert_says(&opened.warnings.join(""), &["the index does not name 1 tensors", norm]);
}

#[test]
fn files_without_end() {
    for name in ["config.json", INDEX] {
        let (_, folder) = sharded(2);
        // 1 TiB of nothing: it takes no disk, and must not take memory.
        fs::File::create(folder.path().join(name)).unwrap().set_len(1 << 40).unwrap();
        refused(folder.path(), &[name, "the file has 1099511627776 bytes"]);
    }
    let (_, folder) = sharded(2);
    let shard = folder.path().join("model-00001-of-00002.safetensors");
    fs::File::options().write(true).open(&shard).unwrap().set_len(1 << 36).unwrap();
    refused(
        folder.path(),
        &["model-00001-of-00002.safetensors", "bytes after the last tensor belong to none"],
    );
}

#[test]
fn a_tensor_in_two_files() {
    let (draft, folder) = sharded(2);
    let half = draft.tensors.len().div_ceil(2);
    let mut second = draft.tensors[half..].to_vec();
    second.push(draft.tensors[0].clone());
    fs::write(folder.path().join("model-00002-of-00002.safetensors"), safetensors(&second, true)).unwrap();
    refused(folder.path(), &["the same tensor twice", "model-00001-of-00002", "model-00002-of-00002"]);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_pipes_refused() {
    let (_, blobs) = sharded(2);
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(blobs.path()).unwrap() {
        let entry = entry.unwrap();
        std::os::unix::fs::symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    Checkpoint::open(folder.path()).unwrap();
    fs::remove_file(blobs.path().join("model-00002-of-00002.safetensors")).unwrap();
    refused(folder.path(), &["incomplete download", "model-00002-of-00002.safetensors"]);
    fs::remove_file(folder.path().join("config.json")).unwrap();
    let pipe = folder.path().join("config.json");
    if std::process::Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        refused(folder.path(), &["config.json", "not a regular file"]);
    }
}
