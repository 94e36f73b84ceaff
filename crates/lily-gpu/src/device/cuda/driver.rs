//! The driver API with errors that say which call failed, and the context.

use crate::GpuError;
use cudarc::driver::{result, sys};
use std::path::PathBuf;

/// Turns a driver's answer into an error that names the call.
pub(super) fn check(call: &str, answer: sys::CUresult) -> Result<(), GpuError> {
    named(call, answer.result())
}

/// The same for answers that carry a value.
pub(super) fn named<T>(call: &str, answer: Result<T, result::DriverError>) -> Result<T, GpuError> {
    answer.map_err(|error| {
        let words = error.error_string().map_or("", |text| text.to_str().unwrap_or(""));
        GpuError::Device { call: call.to_owned(), what: format!("{words} ({:?})", error.0) }
    })
}

/// A device and its primary context.
pub(super) struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a context handle may be used from any thread once it is made current there, which `enter` does.
unsafe impl Send for Context {}
// SAFETY: as above; the driver's calls are safe to make from several threads at once.
unsafe impl Sync for Context {}

impl Context {
    /// The primary context of a device.
    pub(super) fn new(ordinal: usize) -> Result<Self, GpuError> {
        // SAFETY: loading the driver's library runs its constructors and nothing of ours.
        if !unsafe { sys::is_culib_present() } {
            return Err(GpuError::Unavailable {
                what: "no CUDA driver was found (libcuda)".to_owned(),
                hint: "install NVIDIA's driver, or use --backend cpu".to_owned(),
            });
        }
        result::init().map_err(|error| GpuError::Unavailable {
            what: format!("the CUDA driver does not start: {error}"),
            hint: "check that `nvidia-smi` lists a device, or use --backend cpu".to_owned(),
        })?;
        let count = named("cuDeviceGetCount", result::device::get_count())?;
        let device = i32::try_from(ordinal).ok().filter(|&ordinal| ordinal < count).ok_or_else(|| {
            GpuError::Unavailable {
                what: format!("there is no CUDA device {ordinal}: {count} found"),
                hint: "devices are counted from 0; CUDA_VISIBLE_DEVICES hides some".to_owned(),
            }
        })?;
        let device = named("cuDeviceGet", result::device::get(device))?;
        // SAFETY: `device` is what the driver just gave.
        let context = named("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        let context = Self { device, context };
        context.enter()?;
        Ok(context)
    }

    /// Makes the context current on this thread.
    pub(super) fn enter(&self) -> Result<(), GpuError> {
        // SAFETY: the context is retained until `self` is dropped.
        named("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })
    }

    /// An attribute of the device.
    pub(super) fn attribute(&self, which: sys::CUdevice_attribute) -> Result<u32, GpuError> {
        // SAFETY: the device is valid.
        let value =
            named("cuDeviceGetAttribute", unsafe { result::device::get_attribute(self.device, which) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// The device's name.
    pub(super) fn name(&self) -> Result<String, GpuError> {
        named("cuDeviceGetName", result::device::get_name(self.device))
    }

    /// Free and total bytes of device memory.
    pub(super) fn memory(&self) -> Result<(usize, usize), GpuError> {
        self.enter()?;
        named("cuMemGetInfo", result::mem_get_info())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `new`; whatever was made in the context holds a share of `self`.
        let released = unsafe { result::primary_ctx::release(self.device) };
        if let Err(error) = released {
            tracing::debug!("cuDevicePrimaryCtxRelease: {error}");
        }
    }
}

/// Version of the installed driver, as `13.0`.
pub(super) fn driver_version() -> Result<String, GpuError> {
    let mut version = 0;
    // SAFETY: the pointer is to an integer of ours.
    check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) })?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

/// Loads NVRTC from the places where toolkits are installed, so that the linker's own search finds it loaded; nothing
/// happens if it is nowhere.
pub(super) fn preload_nvrtc() {
    // SAFETY: loading the library runs its constructors and nothing of ours.
    if unsafe { cudarc::nvrtc::sys::is_culib_present() } {
        return;
    }
    let named = ["CUDA_HOME", "CUDA_PATH"].iter().filter_map(std::env::var_os).map(PathBuf::from);
    let roots: Vec<PathBuf> =
        named.chain([PathBuf::from("/usr/local/cuda"), PathBuf::from("/opt/cuda")]).collect();
    for folder in
        roots.iter().flat_map(|root| ["lib64", "lib", "targets/x86_64-linux/lib"].map(|sub| root.join(sub)))
    {
        // The builtins first: NVRTC looks for them by name.
        for stem in ["libnvrtc-builtins.so", "libnvrtc.so"] {
            let Ok(entries) = std::fs::read_dir(&folder) else { continue };
            let mut found: Vec<PathBuf> = entries
                .filter_map(|entry| Some(entry.ok()?.path()))
                .filter(|path| {
                    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(stem))
                })
                .collect();
            found.sort();
            if let Some(path) = found.first() {
                // SAFETY: as above. The handle is kept for the life of the process.
                match unsafe { libloading::Library::new(path) } {
                    Ok(library) => std::mem::forget(library),
                    Err(error) => tracing::debug!("{}: {error}", path.display()),
                }
            }
        }
    }
}
