//! `lily tune`, as far as it goes without a GPU.

use crate::process::{Done, done, lily};

#[test]
fn the_cpu_has_no_shapes() {
    let done = done(["tune"]);
    assert_eq!(done.code, Some(2), "{done:#?}");
    assert!(
        done.stderr.contains("no launch shapes") && done.stderr.contains("--backend cuda"),
        "{}",
        done.stderr
    );
    assert_eq!(done.stdout, "");
}

#[test]
fn what_was_kept_is_forgotten() {
    let folder = tempfile::tempdir().expect("a folder");
    let reset = || -> Done {
        let mut command = lily(["tune", "--reset"]);
        command.env("LILY_CACHE_DIR", folder.path()).output().expect("the binary starts").into()
    };
    assert_eq!(reset().success().stdout, "nothing was measured before\n");
    let tuned = folder.path().join("tuned");
    std::fs::create_dir(&tuned).expect("a folder");
    let [kept, other, part] = ["some-gpu.shapes", "other", "some-gpu.7.part"].map(|name| tuned.join(name));
    let nested = tuned.join("a-folder.shapes");
    std::fs::create_dir(&nested).expect("a folder");
    std::fs::write(&part, "").expect("a file");
    std::fs::write(&kept, "").expect("a file");
    std::fs::write(&other, "").expect("a file");
    let both = format!("removed {}\nremoved {}\n", part.display(), kept.display());
    assert_eq!(reset().success().stdout, both);
    assert!(!kept.exists() && !part.exists() && other.exists() && nested.exists());

    // What cannot be read is named.
    std::fs::remove_dir_all(&tuned).expect("removed");
    std::fs::write(&tuned, "").expect("a file");
    let done = reset();
    assert!(done.code != Some(0) && done.stderr.contains(&tuned.display().to_string()), "{done:#?}");
}
