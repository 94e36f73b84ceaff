//! The machine, as its own tools describe it.

use super::{part::Outcome, target::Target};
use std::{path::Path, process::Command};

/// A tool and its arguments.
type Question = (&'static str, &'static [&'static str]);

/// What to ask everywhere; what is not there says nothing.
const EVERYWHERE: &[Question] = &[
    ("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
    ("git", &["describe", "--always", "--dirty"]),
    ("rustc", &["--version"]),
    ("uname", &["-srm"]),
    ("uptime", &[]),
];
/// What only a Mac answers: model, chip, memory, GPU cores, what may have slowed it down.
const MAC: &[Question] = &[
    ("sw_vers", &[]),
    ("sysctl", &["hw.model", "machdep.cpu.brand_string", "hw.memsize", "hw.ncpu"]),
    ("sysctl", &["iogpu.wired_limit_mb"]),
    ("system_profiler", &["SPDisplaysDataType"]),
    ("pmset", &["-g", "batt"]),
    ("pmset", &["-g", "therm"]),
];
/// The same of a machine that stands in for one.
const LINUX: &[Question] = &[("lscpu", &[]), ("free", &["-m"])];
const CUDA: &[Question] = &[(
    "nvidia-smi",
    &["--query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu", "--format=csv"],
)];

/// The first part of a report.
pub(super) fn describe(root: &Path, target: Target) -> Outcome {
    let system = if cfg!(target_os = "macos") { MAC } else { LINUX };
    let device = if target == Target::Cuda { CUDA } else { &[] };
    let questions = || EVERYWHERE.iter().chain(system).chain(device);
    let mut answers: Vec<String> = questions().filter_map(|question| ask(root, question)).collect();
    answers.extend(variables(std::env::vars()));
    Outcome {
        name: "system".to_owned(),
        command: questions().map(|(tool, _)| *tool).collect::<Vec<_>>().join(", "),
        failure: answers.is_empty().then(|| "nothing answers".to_owned()),
        output: answers.join("\n"),
        ..Outcome::default()
    }
}

fn ask(root: &Path, (tool, arguments): &Question) -> Option<String> {
    let output = Command::new(tool).args(*arguments).current_dir(root).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = text.lines().filter(|line| told(tool, line)).collect();
    (!lines.is_empty()).then(|| format!("$ {tool} {}\n{}", arguments.join(" "), lines.join("\n")))
}

/// Tools that say a hundred things, serial numbers of displays among them: what is wanted of them.
fn told(tool: &str, line: &str) -> bool {
    let wanted: &[&str] = match tool {
        "lscpu" => &["Architecture", "CPU(s):", "Model name"],
        "system_profiler" => &["Chipset Model", "Total Number of Cores", "Vendor", "Metal"],
        _ => &[""],
    };
    !line.trim().is_empty() && wanted.iter().any(|start| line.trim_start().starts_with(start))
}

/// Variables that change what runs.
fn variables(all: impl Iterator<Item = (String, String)>) -> Option<String> {
    let known = |name: &str| ["LILY_", "MTL_", "METAL_"].iter().any(|start| name.starts_with(start));
    let mut set: Vec<String> =
        all.filter(|(name, _)| known(name)).map(|(name, value)| format!("{name}={value}")).collect();
    set.sort();
    (!set.is_empty()).then(|| format!("variables that are set:\n{}", set.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_says_what_it_is_and_what_runs() {
        let outcome = describe(Path::new("."), Target::Metal);
        assert_eq!(outcome.failure, None);
        assert!(outcome.output.contains("$ uname -srm\n"), "{}", outcome.output);
        assert!(outcome.output.contains("$ rustc --version\nrustc 1."), "{}", outcome.output);
        assert_eq!(ask(Path::new("."), &("no-such-tool", &[])), None);
    }

    #[test]
    fn a_display_is_not_told() {
        let text = "Graphics/Displays:\n\n    Apple M4:\n\n      Chipset Model: Apple M4\n      Total Number of Cores: 10\n      \
                    Metal Support: Metal 4\n      Displays:\n        Color LCD:\n          Display Serial Number: 1\n";
        let told: Vec<&str> =
            text.lines().filter(|line| told("system_profiler", line)).map(str::trim).collect();
        assert_eq!(told, ["Chipset Model: Apple M4", "Total Number of Cores: 10", "Metal Support: Metal 4"]);
        assert!(super::told("uname", "Darwin") && !super::told("uname", " "));
    }

    #[test]
    fn variables_are_told() {
        let pair = |name: &str| (name.to_owned(), "1".to_owned());
        let set = variables(["MTL_DEBUG_LAYER", "HOME", "METAL_CAPTURE_ENABLED"].map(pair).into_iter());
        let told = "variables that are set:\nMETAL_CAPTURE_ENABLED=1\nMTL_DEBUG_LAYER=1";
        assert_eq!(set.as_deref(), Some(told));
        assert_eq!(variables([pair("HOME")].into_iter()), None);
    }
}
