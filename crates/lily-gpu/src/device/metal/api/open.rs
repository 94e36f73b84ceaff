//! The device, and what it says about itself.

use crate::{
    GpuError,
    device::metal::{
        facts::{Facts, Os},
        numbers,
    },
};
use objc2::{available, rc::Retained, runtime::ProtocolObject};
use objc2_foundation::NSProcessInfo;
use objc2_metal::{MTLCopyAllDevices, MTLCreateSystemDefaultDevice, MTLDevice, MTLGPUFamily};

// Without CoreGraphics there is no default device.
#[link(name = "CoreGraphics", kind = "framework")]
// SAFETY: nothing is declared.
unsafe extern "C" {}

/// The system's default device, else any.
pub(super) fn device() -> Result<Retained<ProtocolObject<dyn MTLDevice>>, GpuError> {
    MTLCreateSystemDefaultDevice().or_else(|| MTLCopyAllDevices().firstObject()).ok_or_else(|| {
        GpuError::Unavailable {
            what: "this process sees no Metal device".to_owned(),
            hint: "virtual machines, sandboxes and remote sessions may have none; use --backend cpu"
                .to_owned(),
        }
    })
}

/// Asks everything that decides something.
pub(super) fn facts(device: &ProtocolObject<dyn MTLDevice>) -> Facts {
    let system = NSProcessInfo::processInfo();
    let version = system.operatingSystemVersion();
    let supports = |family: isize| device.supportsFamily(MTLGPUFamily(family));
    let threads = device.maxThreadsPerThreadgroup().width;
    let word = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Facts {
        name: device.name().to_string(),
        architecture: if available!(macos = 14.0) {
            device.architecture().name().to_string()
        } else {
            String::new()
        },
        family: numbers::newest_family(supports),
        metal3: supports(numbers::METAL_3),
        metal4: supports(numbers::METAL_4),
        os: Os::new(version.majorVersion, version.minorVersion),
        os_text: system.operatingSystemVersionString().to_string(),
        unified: device.hasUnifiedMemory(),
        working_set: device.recommendedMaxWorkingSetSize(),
        allocated: device.currentAllocatedSize() as u64,
        max_buffer: device.maxBufferLength() as u64,
        threadgroup_memory: word(device.maxThreadgroupMemoryLength()),
        threads: word(threads),
    }
}
