//! Residency sets (macOS 15): one call for each method of [`Set`].

use crate::device::metal::residency::Set;
use objc2::{
    available,
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_metal::{
    MTLAllocation, MTLBuffer, MTLCommandQueue, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor,
};

/// The system's set.
pub(super) struct ResidencySet(Retained<ProtocolObject<dyn MTLResidencySet>>);

// SAFETY: a residency set may be used from any thread, one at a time: whoever owns it reaches it through a mutex.
unsafe impl Send for ResidencySet {}

impl ResidencySet {
    /// A set for everything that the queue runs; `None` where the system has none or refuses.
    pub(super) fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        queue: &ProtocolObject<dyn MTLCommandQueue>,
    ) -> Option<Self> {
        if !available!(macos = 15.0) {
            return None;
        }
        let descriptor = MTLResidencySetDescriptor::new();
        let set = device
            .newResidencySetWithDescriptor_error(&descriptor)
            .inspect_err(|error| tracing::info!("no residency set: {}", error.localizedDescription()))
            .ok()?;
        queue.addResidencySet(&set);
        Some(Self(set))
    }
}

impl Set for ResidencySet {
    type Allocation = ProtocolObject<dyn MTLBuffer>;

    fn add(&self, allocation: &Self::Allocation) {
        self.0.addAllocation(as_allocation(allocation));
    }

    fn remove(&self, allocation: &Self::Allocation) {
        self.0.removeAllocation(as_allocation(allocation));
    }

    fn clear(&self) {
        self.0.removeAllAllocations();
    }

    fn commit(&self) {
        self.0.commit();
    }

    fn request(&self) {
        autoreleasepool(|_| self.0.requestResidency());
    }

    fn end(&self) {
        self.0.endResidency();
    }
}

fn as_allocation(buffer: &ProtocolObject<dyn MTLBuffer>) -> &ProtocolObject<dyn MTLAllocation> {
    ProtocolObject::from_ref(buffer)
}
