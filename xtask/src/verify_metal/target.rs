//! What is verified: a Mac's GPU, or what stands in for one.

/// A device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Target {
    /// The GPU of a Mac.
    Metal,
    /// An NVIDIA GPU, to see that the parts themselves work.
    Cuda,
    /// The kernels' emulator (needs a C++ compiler), likewise. Much slower: measures next to nothing, and `--tests` is for it.
    Emulator,
}

/// Words in the names of tests of kernels that are written for CUDA alone.
const CUDA_ALONE: [&str; 3] = ["wgmma", "tensor_cores", "chunked_matrix_form"];
/// The word in the names of tests of kernels that are written with Metal 4's tensor operations.
const TENSOR: &str = "tensor_operations";

impl Target {
    /// As tests and examples call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Emulator => "emulator",
        }
    }

    /// Why this machine cannot have it, if it cannot.
    pub(super) fn missing(self, system: &str, machine: &str) -> Option<String> {
        let here = format!("this is {system} on {machine}");
        match self {
            Self::Metal if (system, machine) != ("macos", "aarch64") => Some(format!(
                "there is no Metal here: it takes a Mac with Apple silicon, and {here}\nhint: with --device cuda or \
                 --device emulator the same parts run on another device, which shows that they work and nothing about \
                 Metal"
            )),
            Self::Cuda | Self::Emulator if system == "macos" => {
                Some(format!("{} is not for Macs, and {here}\nhint: leave out --device", self.name()))
            }
            _ => None,
        }
    }

    /// The emulator is slow enough; its kernels are compiled by themselves, and the tests of the workspace are built so.
    pub(super) fn profile(self) -> &'static [&'static str] {
        if self == Self::Emulator { &[] } else { &["--release"] }
    }

    /// Features of `lily-gpu` that a part needs, beside its own.
    pub(super) fn features(self, own: &[&'static str]) -> String {
        let emulator = (self == Self::Emulator).then_some("emulator");
        emulator.into_iter().chain(own.iter().copied()).collect::<Vec<_>>().join(",")
    }

    /// The backend of the program: it has no emulator.
    pub(super) fn backend(self) -> &'static str {
        if self == Self::Emulator { "cpu" } else { self.name() }
    }

    /// Words in the names of kernel tests to leave out, and why. `tensor`: the device has tensor operations.
    pub(super) fn left_out(self, tensor: bool) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        if self == Self::Metal {
            let why = "kernels that are written for CUDA alone";
            out.extend(CUDA_ALONE.map(|name| (name, why.to_owned())));
        }
        if self == Self::Cuda || (self == Self::Metal && !tensor) {
            let why = "kernels of tensor operations, which this device has not";
            out.push((TENSOR, why.to_owned()));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lily_kernels::KernelFile;
    use std::path::Path;

    #[test]
    fn a_machine_without_metal_is_told_why() {
        let why = Target::Metal.missing("linux", "x86_64").expect("missing");
        assert!(why.contains("this is linux on x86_64") && why.contains("--device emulator"), "{why}");
        assert!(Target::Metal.missing("macos", "x86_64").is_some(), "an Intel Mac");
        assert_eq!(Target::Metal.missing("macos", "aarch64"), None);
        assert_eq!(Target::Emulator.missing("linux", "x86_64"), None);
        assert!(Target::Cuda.missing("macos", "aarch64").is_some());
    }

    #[test]
    fn each_device_leaves_out_what_is_not_for_it() {
        let names = |target: Target, tensor| -> Vec<&str> {
            target.left_out(tensor).iter().map(|(name, _)| *name).collect()
        };
        assert_eq!(names(Target::Metal, true), CUDA_ALONE);
        assert_eq!(names(Target::Metal, false), [&CUDA_ALONE[..], &[TENSOR]].concat());
        assert_eq!(names(Target::Cuda, false), [TENSOR]);
        assert_eq!(names(Target::Emulator, false), [""; 0]);
    }

    /// A test that names such a kernel, but is not called so, would fail on every Mac.
    #[test]
    fn tests_are_called_as_their_kernels_need() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lily-gpu/tests/kernels");
        let main = std::fs::read_to_string(folder.join("main.rs")).expect("the list of tests");
        let mut checked = 0;
        for path in main.split("#[path = \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let text = std::fs::read_to_string(folder.join(path)).expect(path);
            for (name, body) in text.split("#[test]\nfn ").skip(1).filter_map(|rest| rest.split_once("()")) {
                let body = body.split("\n}\n").next().unwrap_or_default();
                let named = |file: &&KernelFile| body.contains(&format!("\"{}\"", file.name));
                for file in lily_kernels::catalog().iter().filter(named) {
                    let words: &[&str] = match (file.cuda_only, file.metal_only) {
                        (true, _) => &CUDA_ALONE,
                        (_, true) => &[TENSOR],
                        _ => continue,
                    };
                    assert!(words.iter().any(|word| name.contains(word)), "{name} runs {}", file.name);
                    checked += 1;
                }
            }
        }
        assert!(checked >= 8, "{checked}");
    }
}
