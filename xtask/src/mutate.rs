//! `cargo xtask mutate-kernels`: takes each barrier out of the kernels in turn and expects the emulator to object. A barrier
//! that nothing objects to is either not tested or not needed.

use anyhow::{Context, Result, bail};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// Exit status of a test process in which the emulator objected (`tests/support/mutation.rs`).
const CAUGHT: i32 = 42;
const BARRIERS: [&str; 4] = ["tg_barrier();", "tg_barrier_device();", "sg_barrier();", "tile_barrier();"];

/// Barriers that may be taken out unnoticed: file, index, why.
const DEAD: &[(&str, usize, &str)] =
    &[("route.k", 4, "after its last barrier a thread of the scan reads only what it wrote itself")];

/// Folders of kernels, with the test binaries that run them. Headers and overrides are tried in both.
const FOLDERS: &[(&str, &[&str])] = &[
    ("", &["decode", "prefill"]),
    ("decode", &["decode"]),
    ("sample", &["sample"]),
    ("prefill", &["prefill"]),
    ("cuda", &["decode", "prefill"]),
    ("metal", &["prefill"]),
];

struct Site {
    file: String,
    index: usize,
    line: usize,
    tests: &'static [&'static str],
}

pub(crate) fn run(root: &Path, only: &[String], out: &mut impl Write) -> Result<bool> {
    let sites = sites(&root.join("crates/lily-kernels/kernels"), only)?;
    if sites.is_empty() {
        bail!("no barriers to take out");
    }
    let binaries = binaries(root)?;
    let (mut alive, mut caught) = (0, 0);
    for site in &sites {
        let Site { file, index, line, tests } = site;
        let mut found = false;
        for test in *tests {
            let binary = binaries.iter().find(|(name, _)| name == test);
            let (_, binary) = binary.with_context(|| format!("no test binary `{test}`"))?;
            let output = Command::new(binary)
                .current_dir(root.join("crates/lily-kernels"))
                .env("LILY_MUTATE_KERNEL", format!("{file}:{index}"))
                .output()?;
            found |= output.status.code() == Some(CAUGHT);
            if found {
                break;
            }
        }
        let dead = DEAD.iter().find(|(name, at, _)| name == file && at == index);
        let verdict = match (found, dead) {
            (true, None) => {
                caught += 1;
                "caught".to_owned()
            }
            (false, Some((_, _, why))) => format!("not caught, as expected: {why}"),
            (true, Some(_)) => {
                alive += 1;
                "CAUGHT, but listed as dead".to_owned()
            }
            (false, None) => {
                alive += 1;
                "NOT CAUGHT".to_owned()
            }
        };
        writeln!(out, "{file}:{line} barrier {index}: {verdict}")?;
        out.flush()?;
    }
    writeln!(out, "{caught} of {} caught, {} listed as dead, {alive} unexpected", sites.len(), DEAD.len())?;
    Ok(alive > 0)
}

/// Every barrier of every kernel file and shared header.
fn sites(kernels: &Path, only: &[String]) -> Result<Vec<Site>> {
    let mut sites = Vec::new();
    for &(folder, tests) in FOLDERS {
        let mut files: Vec<PathBuf> = std::fs::read_dir(kernels.join(folder))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "k" || extension == "h"))
            .collect();
        files.sort();
        for path in files {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !only.is_empty() && !only.contains(&file) {
                continue;
            }
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let lines = barriers(&text).into_iter().enumerate();
            sites.extend(lines.map(|(index, line)| Site { file: file.clone(), index, line, tests }));
        }
    }
    Ok(sites)
}

/// Lines of the barriers, in order.
fn barriers(text: &str) -> Vec<usize> {
    let mut places: Vec<usize> =
        BARRIERS.iter().flat_map(|barrier| text.match_indices(barrier)).map(|(at, _)| at).collect();
    places.retain(|&at| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    places.sort_unstable();
    places.iter().map(|&at| text[..at].matches('\n').count() + 1).collect()
}

/// Builds the test binaries of lily-kernels and finds them: name and path.
fn binaries(root: &Path) -> Result<Vec<(String, PathBuf)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["test", "-p", "lily-kernels", "--features", "emulator", "--no-run", "--message-format=json"])
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("the tests of lily-kernels do not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let found = messages.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = message.get("executable")?.as_str()?;
        Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(path)))
    });
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use super::barriers;

    #[test]
    fn calls_are_found_and_definitions_are_not() {
        let text =
            "FN void my_tg_barrier();\nx; tg_barrier();\n\nfor (;;) { sg_barrier(); tg_barrier_device(); }\n";
        assert_eq!(barriers(text), [2, 4, 4]);
    }
}
