//! `cargo xtask verify-metal`, for whoever has a Mac: everything that no other machine can prove, in one report to attach to
//! an issue. A part that fails is reported and does not keep the others from running. With `--device` the same parts run on
//! another device: that is how they are tested.

mod machine;
mod part;
mod report;
mod target;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail};
use part::{Outcome, Part, Sign};
use report::Report;
use std::{
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};
use target::Target;

/// How a device with tensor operations says so.
const TENSOR_TIER: &str = "metal4-tensor";
/// Validation by the system of every call and every access, for the parts that are not measured.
const VALIDATION: [(&str, &str); 2] = [("MTL_DEBUG_LAYER", "1"), ("MTL_SHADER_VALIDATION", "1")];
/// By this variable tests and examples know the device.
const DEVICE: &str = "LILY_TEST_DEVICE";
/// The golden test that even an emulator gets through.
const SHORTEST: &str = "nano_follows_the_shortest_golden";

/// What to verify.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the report is written.
    #[arg(long, value_name = "FILE", default_value = "verify-metal.txt")]
    out: PathBuf,
    /// A checkpoint to measure besides nano (default: `LILY_MODEL`, if it is set).
    #[arg(long, value_name = "FOLDER", env = "LILY_MODEL")]
    model: Option<PathBuf>,
    /// Leave out what takes long: measurements.
    #[arg(long)]
    quick: bool,
    /// Compile only kernels, and run only kernel tests, with this word in their names.
    #[arg(long, value_name = "WORD")]
    tests: Option<String>,
    /// Run the kernels under the system's validation of calls and accesses (slow).
    #[arg(long)]
    validate: bool,
    /// Minutes after which a part is ended and counts as failed.
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
    /// Another device, to see that the parts themselves work.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Target::Metal)]
    device: Target,
}

pub(crate) fn run(root: &Path, options: &Options, out: &mut impl Write) -> Result<bool> {
    if let Some(why) = options.device.missing(std::env::consts::OS, std::env::consts::ARCH) {
        bail!(why);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let system = machine::describe(root, options.device);
    verify(root, &cargo, options, system, out)
}

/// Runs every part, each whatever came of the others; true if one failed.
fn verify(
    root: &Path,
    cargo: &OsStr,
    options: &Options,
    system: Outcome,
    out: &mut impl Write,
) -> Result<bool> {
    let path = std::path::absolute(&options.out).context("the report's path")?;
    let limit = Duration::from_secs(60 * options.minutes);
    let mut report = Report::new(options.device.name(), &path)?;
    report.push(system, out)?;
    let device = device_part(options, "device", Sign::Line("device: "), &["machine"]);
    let device = part::run(cargo, root, &device, limit);
    let tensor = device.output.contains(TENSOR_TIER);
    report.push(device, out)?;
    for part in parts(root, options, tensor) {
        writeln!(out, "{}: {part}", part.name())?;
        out.flush()?;
        report.push(part::run(cargo, root, &part, limit), out)?;
    }
    let failed = report.failed();
    match failed.as_slice() {
        [] => writeln!(out, "everything passed; the report: {}", path.display())?,
        failed => writeln!(out, "FAILED: {}; the report: {}", failed.join(", "), path.display())?,
    }
    Ok(!failed.is_empty())
}

/// A part of the example `verify_device`.
fn device_part(options: &Options, name: &str, sign: Sign, what: &[&str]) -> Part {
    let mut part = Part::cargo(name, sign, &["run", "-p", "lily-gpu", "--example", "verify_device"]);
    part.args(options.device.profile()).features(&options.device.features(&[])).args(&["--"]).args(what);
    on(options.device, &mut part);
    part
}

/// Names the device; kernels for the emulator are kept where tests keep theirs.
fn on(device: Target, part: &mut Part) {
    part.env(DEVICE, device.name());
    if device == Target::Emulator {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        if let Ok(target) = std::path::absolute(target) {
            part.env("LILY_EMULATOR_CACHE", &target.join("debug/deps/lily-emulator").to_string_lossy());
        }
    }
}

/// A part of the tests of `lily-gpu`.
fn test_part(options: &Options, name: &str, test: &str, features: &[&'static str]) -> Part {
    let mut part = Part::cargo(name, Sign::Tests, &["test", "-p", "lily-gpu", "--test", test]);
    part.args(options.device.profile()).features(&options.device.features(features)).args(&["--"]);
    on(options.device, &mut part);
    if options.validate && options.device == Target::Metal {
        VALIDATION.iter().for_each(|(name, value)| {
            part.env(name, value);
        });
    }
    part
}

/// Everything about a device that is there, in the order in which it is most useful when one fails.
fn parts(root: &Path, options: &Options, tensor: bool) -> Vec<Part> {
    let device = options.device;
    let mut parts = vec![compiled(options), kernel_tests(options, tensor), goldens(options)];
    if options.quick {
        return parts;
    }
    // An emulator reads a megabyte as slowly as a GPU a gigabyte.
    let size: &[&str] = if device == Target::Emulator { &["bandwidth", "1"] } else { &["bandwidth"] };
    parts.push(device_part(options, "bandwidth", Sign::Line("GB/s"), size));
    let mut models = vec![("nano".to_owned(), "nano's speed")];
    models.extend(options.model.iter().map(|folder| {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| root.join(folder));
        (folder.to_string_lossy().into_owned(), "the model's speed")
    }));
    parts.extend(models.into_iter().map(|(model, name)| bench(options, &model, name)));
    parts
}

fn compiled(options: &Options) -> Part {
    let word = options.tests.as_deref().map(|word| vec!["kernels", word]).unwrap_or_else(|| vec!["kernels"]);
    let mut part = device_part(options, "every kernel compiles", Sign::Line("kernels in"), &word);
    if let Some(word) = &options.tests {
        part.skips(format!("kernels without \"{word}\" in their names"));
    }
    part
}

fn kernel_tests(options: &Options, tensor: bool) -> Part {
    let mut part = test_part(options, "kernel tests", "kernels", &["device-tests"]);
    if let Some(word) = &options.tests {
        part.args(&[word]).skips(format!("tests without \"{word}\" in their names"));
    }
    for (name, why) in options.device.left_out(tensor) {
        part.args(&["--skip", name]).skips(format!("{name}: {why}"));
    }
    part
}

fn goldens(options: &Options) -> Part {
    let mut part = test_part(options, "nano's goldens", "parity", &[]);
    if options.device == Target::Emulator {
        part.args(&[SHORTEST]).skips("longer goldens, for which an emulator is too slow".to_owned());
    }
    part.args(&["--nocapture"]);
    part
}

fn bench(options: &Options, model: &str, name: &str) -> Part {
    let device = options.device;
    let mut part = Part::cargo(name, Sign::Line("tok/s"), &["run", "-p", "lily"]);
    part.args(device.profile()).args(&["--", "bench", "--model", model, "--backend", device.backend(), "-v"]);
    if device == Target::Emulator {
        part.args(&["--prefill", "16", "--decode", "16", "--steps", "4", "--rounds", "1", "--no-ceiling"]);
        part.skips("the program has no emulator: this is its CPU backend".to_owned());
    } else {
        part.args(&["--prefill", "128,512,4096", "--decode", "128,512,4096,32768"]);
    }
    part
}
