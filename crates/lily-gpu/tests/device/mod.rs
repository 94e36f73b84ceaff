//! The device that `LILY_TEST_DEVICE` names.

use lily_gpu::Device;
use std::sync::Arc;

/// The device, if one is named: `cuda`, `metal`, or `emulator` (with the feature; slow).
pub(crate) fn named() -> Option<Arc<dyn Device>> {
    let name = std::env::var("LILY_TEST_DEVICE").unwrap_or_default();
    match name.as_str() {
        "" => None,
        #[cfg(not(target_os = "macos"))]
        "cuda" => {
            let options = lily_gpu::device::CudaOptions::default();
            Some(Arc::new(lily_gpu::device::CudaDevice::new(&options).expect("a CUDA device")))
        }
        #[cfg(target_os = "macos")]
        "metal" => {
            let options = lily_gpu::device::MetalOptions::default();
            Some(Arc::new(lily_gpu::device::MetalDevice::new(&options).expect("a Metal device")))
        }
        #[cfg(feature = "emulator")]
        "emulator" => {
            Some(Arc::new(lily_gpu::device::EmulatorDevice::new(lily_kernels::emulator::Checks::Full)))
        }
        other => panic!(
            "LILY_TEST_DEVICE is {other}: this build knows cuda or metal and (with the feature) emulator"
        ),
    }
}
