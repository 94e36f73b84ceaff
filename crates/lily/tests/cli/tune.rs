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
    let [kept, other] = ["some-gpu.shapes", "other"].map(|name| tuned.join(name));
    std::fs::write(&kept, "").expect("a file");
    std::fs::write(&other, "").expect("a file");
    assert_eq!(reset().success().stdout, format!("removed {}\n", kept.display()));
    assert!(!kept.exists() && other.exists());
}
