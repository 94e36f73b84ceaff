//! Which specialisations plans ask for.

use anyhow::{Context, Result, bail};
use lily_kernels::{Specialisation, catalog};
use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Width of codes, group, type of scales: each that a checkpoint may have at least once, as the README promises them.
const FORMATS: [[i64; 3]; 7] =
    [[2, 32, 0], [3, 64, 1], [4, 128, 2], [5, 32, 1], [6, 64, 2], [8, 128, 0], [16, 64, 0]];

/// What the plans of nano, of a model of the full shapes and of `models` ask for, each file's defaults, and each file of quantised
/// weights in every format, once each.
pub(crate) fn collect(root: &Path, models: &[PathBuf], out: &mut impl Write) -> Result<Vec<Specialisation>> {
    let scratch = std::env::temp_dir().join(format!("lily-msl-{}", std::process::id()));
    let found = full_size(root, &scratch).and_then(|full_size| {
        let mut folders = vec![root.join("models/nano"), full_size];
        folders.extend_from_slice(models);
        let mut found = BTreeMap::new();
        for folder in &folders {
            let before = found.len();
            for key in keys(root, folder)? {
                let one = Specialisation::from_key(&key)?;
                found.insert(one.key(), one);
            }
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            writeln!(out, "{name}: {} more specialisations", found.len() - before)?;
        }
        Ok(found)
    });
    if scratch.exists() {
        std::fs::remove_dir_all(&scratch)?;
    }
    let mut found = found?;
    let before = found.len();
    defaults(&mut found)?;
    writeln!(out, "defaults: {} more specialisations", found.len() - before)?;
    let before = found.len();
    formats(&mut found)?;
    writeln!(out, "formats: {} more specialisations", found.len() - before)?;
    Ok(found.into_values().collect())
}

/// Four layers of the full shapes, all weights holes: it takes no room.
fn full_size(root: &Path, scratch: &Path) -> Result<PathBuf> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let folder = scratch.join("full-size");
    let output = Command::new(&python)
        .arg(root.join("tools/gen_synthetic.py"))
        .args(["--layers", "4", "--sparse", "--out"])
        .arg(&folder)
        .output()
        .with_context(|| format!("{}", python.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("no shapes of the full-size model: {}\nhint: PYTHON names a python with numpy", said.trim());
    }
    Ok(folder)
}

/// Keys of what a checkpoint's plans ask for, as the example lists them.
pub(crate) fn keys(root: &Path, folder: &Path) -> Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["run", "--quiet", "--package", "lily-gpu", "--example", "metal_kernels", "--"])
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        bail!("{}: its plans cannot be made", folder.display());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Adds each file with its defaults; what has none is as some plan wants it.
fn defaults(found: &mut BTreeMap<String, Specialisation>) -> Result<()> {
    for file in catalog().iter().filter(|file| !file.cuda_only) {
        let asked = found.values().find(|one| one.file().name == file.name);
        let asked = asked.with_context(|| format!("no plan asks for {}", file.name))?;
        let given: Vec<(&str, i64)> = file
            .constants
            .iter()
            .filter(|constant| constant.default.is_none())
            .filter_map(|constant| Some((constant.name, asked.value(constant.name)?)))
            .collect();
        let one = Specialisation::new(file, &given)?;
        found.insert(one.key(), one);
    }
    Ok(())
}

/// Adds each file of quantised weights in each of [`FORMATS`], otherwise as some plan wants it.
fn formats(found: &mut BTreeMap<String, Specialisation>) -> Result<()> {
    for file in catalog().iter().filter(|file| !file.cuda_only) {
        let has = |name: &str| file.constants.iter().any(|constant| constant.name == name);
        if !has("BITS") {
            continue;
        }
        // The widest, into which every group goes.
        let width =
            |one: &&Specialisation| ["K", "DIM", "INNER"].iter().filter_map(|name| one.value(name)).min();
        let asked = found.values().filter(|one| one.file().name == file.name).max_by_key(width);
        let asked = asked.with_context(|| format!("no plan asks for {}", file.name))?.values().to_vec();
        for [bits, group, scale] in FORMATS {
            // Weights that are not quantised have nothing to be dequantised.
            if bits == 16 && file.name == "dequantise" {
                continue;
            }
            let values = asked.iter().map(|&(name, value)| match name {
                "BITS" | "ROUTER_BITS" | "SHARED_BITS" => (name, bits),
                "GROUP" | "ROUTER_GROUP" | "SHARED_GROUP" => (name, group),
                "SCALE" => (name, scale),
                _ => (name, value),
            });
            let one = Specialisation::new(file, &values.collect::<Vec<_>>())?;
            found.insert(one.key(), one);
        }
    }
    Ok(())
}
