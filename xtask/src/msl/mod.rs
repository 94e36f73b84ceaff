//! `cargo xtask msl`: every kernel's text for Metal, in every specialisation that plans ask for, checked on any machine.
//!
//! clang compiles it as C++ for OpenCL, whose address spaces are Metal's, against `xtask/msl/shim`; what it generates is read
//! (`ir`) and held against the tables that host code binds by and against Metal's limits (`rules`). What a compiler does not
//! see is looked for in the text (`lexical`). First of all each of the faults in `xtask/msl/planted.k` must be found.

mod clang;
mod ir;
mod lexical;
pub(crate) mod plans;
mod planted;
mod rules;

use anyhow::{Context, Result, bail};
use clang::Clang;
use lily_kernels::{Specialisation, entries};
use std::{
    collections::BTreeSet,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

/// Where the kernels are.
const KERNELS: &str = "crates/lily-kernels/kernels";

/// Checks everything; true if something is wrong. `models` are checkpoints whose plans are collected besides nano's.
pub(crate) fn run(root: &Path, models: &[PathBuf], out: &mut impl Write) -> Result<bool> {
    let started = Instant::now();
    let clang = Clang::find(root)?;
    writeln!(out, "{}", clang.version())?;

    let planted = planted::read(&root.join("xtask/msl/planted.k"))?;
    let missed: Vec<String> = planted.iter().filter_map(|fault| fault.missed(&clang)).collect();
    if !missed.is_empty() {
        bail!("the check itself is broken:\n{}", missed.join("\n"));
    }
    writeln!(out, "{} of {} planted faults found", planted.len() - 1, planted.len() - 1)?;

    let mut problems = lexical::check_folder(&root.join(KERNELS))?;
    let plans = plans::collect(root, models, out)?;
    let kernels: usize = plans.iter().map(|one| entries(one.file()).len()).sum();
    let files: BTreeSet<&str> = plans.iter().map(|one| one.file().name).collect();
    problems.extend(check_all(&clang, &plans));
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    writeln!(
        out,
        "{} specialisations of {} kernel files, {kernels} entry points, {} problems, {} s",
        plans.len(),
        files.len(),
        problems.len(),
        started.elapsed().as_secs()
    )?;
    Ok(!problems.is_empty())
}

/// What is wrong with each, several at a time.
fn check_all(clang: &Clang, all: &[Specialisation]) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let problems = check(clang, one);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.extend(problems.into_iter().map(|problem| format!("{}: {problem}", one.key())));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort();
    found
}

/// What is wrong with one specialisation.
fn check(clang: &Clang, one: &Specialisation) -> Vec<String> {
    match clang.compile(one) {
        Ok(code) => match ir::Module::read(&code) {
            Ok(module) => rules::check(one, &module),
            Err(error) => vec![format!("{error:#}")],
        },
        Err(problems) => problems,
    }
}

/// The text of a file, with its path in the error.
fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::{clang::Clang, planted};
    use std::path::Path;

    /// `cargo xtask msl` does the same before anything else; here it fails beside the other tests.
    #[test]
    fn each_planted_fault_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
        let Ok(clang) = Clang::find(root) else {
            eprintln!("skipped: no clang here, of version 19 or later");
            return;
        };
        let planted = planted::read(&root.join("xtask/msl/planted.k")).expect("faults");
        assert!(planted.len() > 20, "{}", planted.len());
        let missed: Vec<String> = planted.iter().filter_map(|fault| fault.missed(&clang)).collect();
        assert!(missed.is_empty(), "{}", missed.join("\n"));
    }
}
