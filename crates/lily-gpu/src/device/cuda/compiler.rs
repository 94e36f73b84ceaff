//! NVRTC: a specialisation's text to machine code for the device at hand.

use super::driver;
use crate::{
    GpuError,
    device::cache::{self, Cache},
};
use cudarc::nvrtc::{result, sys};
use lily_kernels::{Platform, Specialisation};
use rayon::prelude::*;
use std::{
    ffi::{CStr, CString, c_char, c_int},
    path::PathBuf,
};

/// Compiles, or finds what was compiled before.
pub(super) struct Compiler {
    cache: Cache,
    /// As `sm_90a`.
    pub(super) architecture: String,
    /// As `13.0`.
    pub(super) version: String,
}

impl Compiler {
    /// For a device of this compute capability. Nothing but Hopper's own instructions needs the `a` targets.
    pub(super) fn new(cache: Cache, (major, minor): (u32, u32)) -> Result<Self, GpuError> {
        let suffix = if (major, minor) == (9, 0) { "a" } else { "" };
        Self::for_architecture(cache, format!("sm_{major}{minor}{suffix}"))
    }

    /// For a named architecture.
    pub(super) fn for_architecture(cache: Cache, architecture: String) -> Result<Self, GpuError> {
        driver::preload_nvrtc();
        // SAFETY: loading the library runs its constructors and nothing of ours.
        if !unsafe { sys::is_culib_present() } {
            return Err(GpuError::Unavailable {
                what: "NVRTC was not found (libnvrtc)".to_owned(),
                hint: "install the CUDA toolkit's NVRTC and put its folder on LD_LIBRARY_PATH, or name the toolkit's \
                       folder in CUDA_HOME"
                    .to_owned(),
            });
        }
        let (mut nvrtc_major, mut nvrtc_minor) = (0, 0);
        // SAFETY: both pointers are to integers of ours.
        unsafe { sys::nvrtcVersion(&mut nvrtc_major, &mut nvrtc_minor) }
            .result()
            .map_err(|error| GpuError::Device { call: "nvrtcVersion".to_owned(), what: error.to_string() })?;
        Ok(Self { cache, architecture, version: format!("{nvrtc_major}.{nvrtc_minor}") })
    }

    /// Machine code of a whole text.
    pub(super) fn compile(&self, name: &str, source: &str) -> Result<Vec<u8>, GpuError> {
        let architecture = format!("--gpu-architecture={}", self.architecture);
        let options = [architecture.as_str(), "--std=c++17", "--device-as-default-execution-space"];
        let hash = cache::hash(&[source, &options.join(" "), &self.version]);
        if let Some(code) = self.cache.get(&hash) {
            return Ok(code);
        }
        let start = std::time::Instant::now();
        let code =
            compile(source, &options).map_err(|what| GpuError::Kernel { kernel: name.to_owned(), what })?;
        tracing::debug!(kernel = name, took = ?start.elapsed(), bytes = code.len(), "compiled");
        self.cache.put(&hash, &code);
        Ok(code)
    }
}

/// A kernel's name with the bytes of its machine code, or what the compiler said.
pub type Compiled = (String, Result<usize, GpuError>);

/// Compiles kernels for an architecture (as `sm_90a`) without a device, into the cache where a machine that has one finds
/// them. Answers the bytes of each one's machine code, or what the compiler said.
///
/// # Errors
/// [`GpuError::Unavailable`] without NVRTC.
pub fn compile_offline(
    architecture: &str,
    kernels: &[(Specialisation, String)],
    cache: Option<PathBuf>,
) -> Result<Vec<Compiled>, GpuError> {
    let compiler = Compiler::for_architecture(
        Cache::new(cache, super::KIND, super::EXTENSION),
        architecture.to_owned(),
    )?;
    let one = |(specialisation, entry): &(Specialisation, String)| {
        let name = specialisation.key();
        let code = compiler.compile(&name, &specialisation.source(Platform::Cuda));
        (format!("{name} {entry}"), code.map(|code| code.len()))
    };
    Ok(kernels.par_iter().map(one).collect())
}

/// A program, destroyed when dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by `create_program`, destroyed once.
        if let Err(error) = unsafe { result::destroy_program(self.0) } {
            tracing::debug!("nvrtcDestroyProgram: {error}");
        }
    }
}

fn compile(source: &str, options: &[&str]) -> Result<Vec<u8>, String> {
    let source = CString::new(source).map_err(|_| "its text holds a zero byte".to_owned())?;
    let program = result::create_program(&source, Some(c"kernel.cu"))
        .map_err(|error| format!("nvrtcCreateProgram: {error}"))?;
    let program = Program(program);
    let options: Vec<CString> = options.iter().filter_map(|option| CString::new(*option).ok()).collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program lives, the pointers are to as many strings as said, which outlive the call.
    let answer = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as c_int, pointers.as_ptr()) };
    if let Err(error) = answer.result() {
        // SAFETY: the program lives.
        let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
        let log: Vec<u8> = log.iter().map(|&byte| byte as u8).collect();
        let text = CStr::from_bytes_until_nul(&log)
            .map_or_else(|_| String::new(), |text| text.to_string_lossy().into_owned());
        return Err(format!("{error}\n{}", text.trim_end()));
    }
    let mut bytes = 0;
    // SAFETY: the program lives and is compiled; the pointer is to an integer of ours.
    let answer = unsafe { sys::nvrtcGetCUBINSize(program.0, &mut bytes) };
    answer.result().map_err(|error| format!("nvrtcGetCUBINSize: {error}"))?;
    let mut code = vec![0_u8; bytes];
    // SAFETY: as above, and the buffer has the length that was asked for.
    let answer = unsafe { sys::nvrtcGetCUBIN(program.0, code.as_mut_ptr().cast()) };
    answer.result().map_err(|error| format!("nvrtcGetCUBIN: {error}"))?;
    Ok(code)
}
