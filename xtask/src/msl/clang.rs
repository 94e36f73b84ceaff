//! The compiler: a kernel's text for Metal to generated code.

use anyhow::{Context, Result, bail};
use lily_kernels::{Platform, Specialisation};
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Names under which a clang of version 19 or later may be found; `CLANG` goes first.
const NAMES: &[&str] = &["clang-19", "clang-20", "clang-21", "clang"];

/// Metal's scalar types of which there are vectors.
const SCALARS: &[&str] =
    &["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float"];

/// Every warning counts but these: they are about code that is not called in this specialisation, declarations without
/// bodies (the shim's), comparisons of a signed constant, large whole numbers as floats, constants that make a condition certain.
const WARNINGS: &[&str] = &[
    "-Wall",
    "-Wextra",
    "-Wimplicit-float-conversion",
    "-Wno-unused",
    "-Wno-unused-parameter",
    "-Wno-unknown-pragmas",
    "-Wno-undefined-internal",
    "-Wno-undefined-inline",
    "-Wno-sign-compare",
    "-Wno-implicit-int-float-conversion",
    "-Wno-tautological-compare",
    "-Wno-parentheses",
    "-Wno-dangling-else",
    "-Wno-misleading-indentation",
];

/// A compiler that was found.
pub(super) struct Clang {
    command: PathBuf,
    shim: PathBuf,
    version: String,
}

impl Clang {
    /// The first of `CLANG` and the usual names that is new enough.
    pub(super) fn find(root: &Path) -> Result<Self> {
        let named = std::env::var_os("CLANG").map(PathBuf::from);
        for command in named.into_iter().chain(NAMES.iter().map(PathBuf::from)) {
            let Ok(output) = Command::new(&command).arg("--version").output() else { continue };
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let version = text.lines().next().unwrap_or_default().to_owned();
            let number = version.split("clang version ").nth(1).and_then(|rest| rest.split('.').next());
            if number.and_then(|number| number.parse::<u32>().ok()).is_some_and(|number| number >= 19) {
                return Ok(Self { command, shim: root.join("xtask/msl/shim"), version });
            }
        }
        bail!("no clang of version 19 or later\nhint: apt-get install clang-19, or name it in CLANG")
    }

    /// Its own words.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The code of one specialisation, as LLVM's text; what the compiler said if it said anything.
    pub(super) fn compile(&self, one: &Specialisation) -> Result<String, Vec<String>> {
        let text = with_constructors(&one.source(Platform::Metal));
        self.run(&text, one.file().needs.contains(&"tensor")).map_err(|error| vec![format!("{error:#}")])?
    }

    fn run(&self, text: &str, tensors: bool) -> Result<Result<String, Vec<String>>> {
        let mut command = Command::new(&self.command);
        command
            .args(["-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "--target=x86_64-unknown-linux-gnu"])
            .args([
                "-Xclang",
                "-cl-ext=-all,+cl_khr_fp16,+__opencl_c_generic_address_space",
                "-Xclang",
                "-ffake-address-space-map",
            ])
            .args(["-S", "-emit-llvm", "-O0", "-fno-discard-value-names", "-ffreestanding", "-fno-builtin"])
            .args(["-fno-lax-vector-conversions", "-fno-color-diagnostics", "-fno-caret-diagnostics"])
            .args(["-ferror-limit=20", "-fdiagnostics-show-note-include-stack"])
            .args(WARNINGS)
            // Metal is C++14 up to 3.2 and C++17 from 4.0 on. Tensor operations are used from macOS 26.2 on (MetalTier).
            .args(if tensors {
                &["-DMSL_VERSION=400", "-DMSL_OS=2602"][..]
            } else {
                &["-DMSL_VERSION=310", "-Wpre-c++17-compat"]
            })
            .arg("-isystem")
            .arg(&self.shim)
            .args(["-", "-o", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| self.command.display().to_string())?;
        let mut stdin = child.stdin.take().context("a pipe")?;
        let output = std::thread::scope(|scope| {
            // A compiler that stops reading says why on stderr.
            scope.spawn(move || {
                let _ = stdin.write_all(text.as_bytes());
            });
            child.wait_with_output()
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        let mut problems: Vec<String> = said
            .lines()
            .filter(|line| line.contains("error:") || line.contains("warning:"))
            .map(str::to_owned)
            .collect();
        if !output.status.success() && problems.is_empty() {
            problems.push(format!("clang failed: {}", said.trim()));
        }
        Ok(if problems.is_empty() {
            Ok(String::from_utf8(output.stdout).context("LLVM's text")?)
        } else {
            Err(problems)
        })
    }
}

/// `float4(...)` is a constructor in Metal and nothing in C++ for OpenCL: the shim has a function for it.
fn with_constructors(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut rest = text;
    while let Some(at) = rest.find('(') {
        let (before, from) = rest.split_at(at);
        let name_at = before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
        let name = &before[name_at..];
        let scalar = name.strip_suffix(['2', '3', '4']);
        if scalar.is_some_and(|scalar| SCALARS.contains(&scalar)) {
            out.push_str(&before[..name_at]);
            out.push_str("msl::make<");
            out.push_str(name);
            out.push('>');
        } else {
            out.push_str(before);
        }
        out.push('(');
        rest = &from[1..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::with_constructors;

    #[test]
    fn constructors_are_found_and_nothing_else() {
        let text = "#define make_uint4(...) uint4(__VA_ARGS__)\nx = (float4)(y) + half2(0); vec4(1)";
        let wanted = "#define make_uint4(...) msl::make<uint4>(__VA_ARGS__)\nx = (float4)(y) + msl::make<half2>(0); vec4(1)";
        assert_eq!(with_constructors(text), wanted);
    }
}
