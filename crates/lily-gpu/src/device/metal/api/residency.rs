//! Keeps the device's memory wired between tokens, where the system has residency sets (macOS 15).

use super::commands::Queue;
use crate::device::metal::heartbeat::Heartbeat;
use objc2::{
    available,
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_metal::{MTLAllocation, MTLBuffer, MTLDevice, MTLResidencySet, MTLResidencySetDescriptor};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// One set of all buffers, requested again and again while there is work.
pub(super) struct Residency {
    set: Arc<Mutex<Set>>,
    /// Something was added or removed and is not committed.
    changed: Arc<AtomicBool>,
    heartbeat: Option<Heartbeat>,
}

struct Set(Retained<ProtocolObject<dyn MTLResidencySet>>);

// SAFETY: a residency set may be used from any thread, one at a time: it is only reached through the mutex around it.
unsafe impl Send for Set {}

impl Residency {
    /// A set for everything that the queue runs; `None` where the system has none or refuses.
    pub(super) fn new(device: &ProtocolObject<dyn MTLDevice>, queue: &Queue) -> Option<Arc<Self>> {
        if !available!(macos = 15.0) {
            return None;
        }
        let descriptor = MTLResidencySetDescriptor::new();
        let set = match device.newResidencySetWithDescriptor_error(&descriptor) {
            Ok(set) => set,
            Err(error) => {
                tracing::info!("no residency set: {}", error.localizedDescription());
                return None;
            }
        };
        queue.add(&set);
        let set = Arc::new(Mutex::new(Set(set)));
        let changed = Arc::new(AtomicBool::new(false));
        let (beaten, dirty) = (set.clone(), changed.clone());
        // The first time it takes as long as wiring the whole model does.
        let beat = move || {
            let set = beaten.lock().unwrap_or_else(PoisonError::into_inner);
            commit(&set, &dirty);
            autoreleasepool(|_| set.0.requestResidency());
        };
        let heartbeat =
            Heartbeat::start(beat).inspect_err(|error| tracing::warn!("no heartbeat: {error}")).ok();
        Some(Arc::new(Self { set, changed, heartbeat }))
    }

    fn set(&self) -> MutexGuard<'_, Set> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a buffer, from the next work on.
    pub(super) fn add(&self, buffer: &ProtocolObject<dyn MTLBuffer>) {
        self.set().0.addAllocation(allocation(buffer));
        self.changed.store(true, Ordering::Release);
    }

    /// Removes a buffer that is about to go.
    pub(super) fn remove(&self, buffer: &ProtocolObject<dyn MTLBuffer>) {
        self.set().0.removeAllocation(allocation(buffer));
        self.changed.store(true, Ordering::Release);
    }

    /// There is work: what was added takes part from now on, and memory is kept for a while after.
    pub(super) fn worked(&self) {
        // Without a change there is no reason to wait for the thread that may be asking for residency.
        if self.changed.load(Ordering::Acquire) {
            commit(&self.set(), &self.changed);
        }
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.worked();
        }
    }
}

fn commit(set: &Set, changed: &AtomicBool) {
    if changed.swap(false, Ordering::AcqRel) {
        set.0.commit();
    }
}

impl Drop for Residency {
    fn drop(&mut self) {
        self.heartbeat = None;
        let set = self.set();
        set.0.endResidency();
        set.0.removeAllAllocations();
        set.0.commit();
    }
}

fn allocation(buffer: &ProtocolObject<dyn MTLBuffer>) -> &ProtocolObject<dyn MTLAllocation> {
    ProtocolObject::from_ref(buffer)
}
