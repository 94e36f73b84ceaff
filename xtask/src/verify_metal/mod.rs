//! `cargo xtask verify-metal`, for whoever has a Mac: everything that no other machine can prove, in one report to attach to
//! an issue. A part that fails is reported and does not keep the others from running.

mod machine;
mod part;
mod report;

use anyhow::{Context, Result};
use part::Part;
use report::Report;
use std::{
    io::Write,
    path::{Path, PathBuf},
};

/// Tests of kernels that are written for CUDA alone.
const CUDA_ALONE: [&str; 4] = ["wgmma", "tensor_cores", "chunked_matrix_form", "one_expert_for_all_rows"];
/// Tests of kernels that are written with Metal 4's tensor operations.
const TENSOR: &str = "tensor_operations";
/// How a device that has them says so.
const TENSOR_TIER: &str = "metal4-tensor";
/// Validation by the system of every call and every access, for the parts that are not measured.
const VALIDATION: [(&str, &str); 2] = [("MTL_DEBUG_LAYER", "1"), ("MTL_SHADER_VALIDATION", "1")];

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
    /// Run the kernels under the system's validation of calls and accesses (slow).
    #[arg(long)]
    validate: bool,
    /// Another device than `metal`, to see that the parts themselves work.
    #[arg(long, value_name = "NAME", default_value = "metal")]
    device: String,
}

pub(crate) fn run(root: &Path, options: &Options, out: &mut impl Write) -> Result<bool> {
    let mut report = Report::new(&options.device);
    report.push(machine::describe(), out)?;
    let device = part::run(root, &device_part(options, "device", "machine"));
    let tensor = device.output.contains(TENSOR_TIER);
    report.push(device, out)?;
    for part in parts(options, tensor) {
        report.push(part::run(root, &part), out)?;
    }
    let path = root.join(&options.out);
    std::fs::write(&path, report.to_string()).with_context(|| path.display().to_string())?;
    writeln!(out, "the report: {}", path.display())?;
    Ok(report.failed())
}

/// A part of the example `verify_device`.
fn device_part(options: &Options, name: &str, what: &str) -> Part {
    let mut part = Part::cargo(name, &["run", "--release", "-p", "lily-gpu", "--example", "verify_device"]);
    part.features(&options.device).args(&["--", what]);
    part.env("LILY_TEST_DEVICE", &options.device);
    part
}

/// Everything about a device that is there, in the order in which it is most useful when one fails.
fn parts(options: &Options, tensor: bool) -> Vec<Part> {
    let mut parts = vec![device_part(options, "every kernel compiles", "kernels")];
    let mut kernels =
        Part::cargo("kernel tests", &["test", "--release", "-p", "lily-gpu", "--test", "kernels"]);
    kernels.features(&format!("{},device-tests", options.device)).args(&["--"]);
    if options.device == "metal" {
        CUDA_ALONE.iter().for_each(|name| {
            kernels.args(&["--skip", name]);
        });
        kernels.skips(format!("kernels that are written for CUDA alone: {}", CUDA_ALONE.join(", ")));
        if !tensor {
            kernels.args(&["--skip", TENSOR]);
            kernels.skips(format!("tensor operations, which this machine has not: {TENSOR}"));
        }
    }
    let mut goldens =
        Part::cargo("nano's goldens", &["test", "--release", "-p", "lily-gpu", "--test", "parity"]);
    goldens.features(&options.device).args(&["--", "--nocapture"]);
    for mut part in [kernels, goldens] {
        part.env("LILY_TEST_DEVICE", &options.device);
        if options.validate {
            VALIDATION.iter().for_each(|(name, value)| {
                part.env(name, value);
            });
        }
        parts.push(part);
    }
    if options.quick {
        return parts;
    }
    parts.push(device_part(options, "bandwidth", "bandwidth"));
    let mut models = vec![("nano".to_owned(), "nano's speed")];
    models.extend(
        options.model.iter().map(|folder| (folder.to_string_lossy().into_owned(), "the model's speed")),
    );
    for (model, name) in models {
        let mut bench = Part::cargo(name, &["run", "--release", "-p", "lily", "--", "bench"]);
        bench.args(&["--model", &model, "--backend", &options.device, "-v"]);
        bench.args(&["--prefill", "128,512,4096", "--decode", "128,512,4096,32768"]);
        parts.push(bench);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{part::Outcome, *};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        let line = std::iter::once("x").chain(arguments.iter().copied());
        <Line as clap::Parser>::parse_from(line).options
    }

    #[test]
    fn every_part_names_the_device() {
        for part in parts(&options(&["--model", "folder", "--validate"]), true) {
            let command = part.to_string();
            assert!(
                command.contains("LILY_TEST_DEVICE=metal") || command.contains("--backend metal"),
                "{command}"
            );
            let tested = command.contains("cargo test ");
            assert_eq!(command.contains("MTL_SHADER_VALIDATION=1"), tested, "{command}");
        }
    }

    #[test]
    fn what_is_measured_can_be_left_out() {
        let names = |options: &Options| -> Vec<String> {
            parts(options, false).iter().map(|part| part.name().to_owned()).collect()
        };
        assert_eq!(
            names(&options(&["--quick"])),
            ["every kernel compiles", "kernel tests", "nano's goldens"]
        );
        assert!(names(&options(&["--model", "x"])).contains(&"the model's speed".to_owned()));
    }

    #[test]
    fn tensor_operations_are_tested_where_they_are() {
        let kernels = |tensor| parts(&options(&[]), tensor)[1].to_string();
        assert!(!kernels(true).contains(TENSOR) && kernels(false).contains("--skip tensor_operations"));
    }

    #[test]
    fn a_part_that_fails_is_reported_and_the_others_run() {
        let mut report = Report::new("metal");
        let mut out = Vec::new();
        for (name, fine) in [("first", false), ("second", true)] {
            let outcome = Outcome { name: name.to_owned(), passed: fine, ..Outcome::default() };
            report.push(outcome, &mut out).unwrap();
        }
        assert!(report.failed());
        let text = report.to_string();
        assert!(text.contains("| first | FAILED |") && text.contains("| second | ok |"), "{text}");
    }
}
