//! A queue's calls: one for each method of [`Calls`], of the encoders and of the event.

use super::{ResidencySet, compiler::Pipeline, foreign, memory, size};
use crate::{
    Buffer, GpuError, Kernel,
    device::{
        metal::{
            encode::Encoder,
            numbers,
            progress::Signal,
            queue::{Blit, Calls, Ended, Fenced},
            residency::Residency,
        },
        pending::Pending,
    },
};
use block2::RcBlock;
use objc2::{
    rc::{Retained, autoreleasepool},
    runtime::ProtocolObject,
};
use objc2_foundation::NSRange;
use objc2_metal::{
    MTLBarrierScope, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandEncoder, MTLCommandQueue,
    MTLComputeCommandEncoder, MTLDevice, MTLDispatchType, MTLFence, MTLSharedEvent,
};
use std::{ops::Range, ptr::NonNull, sync::Arc, time::Duration};

/// A shared event: command buffers count it up, and threads wait for it.
#[derive(Clone)]
pub(super) struct Event(Retained<ProtocolObject<dyn MTLSharedEvent>>);

impl Signal for Event {
    fn value(&self) -> u64 {
        self.0.signaledValue()
    }

    fn set(&self, value: u64) {
        self.0.setSignaledValue(value);
    }

    fn sleep(&self, value: u64, at_most: Duration) {
        let milliseconds = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX).max(1);
        self.0.waitUntilSignaledValue_timeoutMS(value, milliseconds);
    }
}

/// The system's queue, with the one fence and the one event of it.
pub(super) struct MetalCalls {
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
    fence: Retained<ProtocolObject<dyn MTLFence>>,
    event: Event,
    residency: Option<Arc<Residency<ResidencySet>>>,
}

impl MetalCalls {
    pub(super) fn new(device: &ProtocolObject<dyn MTLDevice>) -> Result<Self, GpuError> {
        let queue = device.newCommandQueue().ok_or_else(|| refused("command queue"))?;
        let residency = ResidencySet::new(device, &queue).map(|set| Arc::new(Residency::new(set)));
        Ok(Self {
            queue,
            fence: device.newFence().ok_or_else(|| refused("fence"))?,
            event: Event(device.newSharedEvent().ok_or_else(|| refused("shared event"))?),
            residency,
        })
    }

    /// What keeps memory wired, where the system can.
    pub(super) fn residency(&self) -> Option<&Arc<Residency<ResidencySet>>> {
        self.residency.as_ref()
    }
}

impl Calls for MetalCalls {
    type Buffer = Retained<ProtocolObject<dyn MTLCommandBuffer>>;
    type Event = Event;
    type Compute = Open<dyn MTLComputeCommandEncoder>;
    type Blit = Open<dyn MTLBlitCommandEncoder>;

    fn pool<T>(work: impl FnOnce() -> T) -> T {
        autoreleasepool(|_| work())
    }

    fn begin(&self) -> Result<Self::Buffer, GpuError> {
        self.queue.commandBufferWithUnretainedReferences().ok_or_else(|| refused("command buffer"))
    }

    fn compute(&self, buffer: &Self::Buffer, dispatch_type: usize) -> Result<Self::Compute, GpuError> {
        let encoder = buffer.computeCommandEncoderWithDispatchType(MTLDispatchType(dispatch_type));
        Ok(Open { encoder: encoder.ok_or_else(|| refused("compute encoder"))?, fence: self.fence.clone() })
    }

    fn blit(&self, buffer: &Self::Buffer) -> Result<Self::Blit, GpuError> {
        let encoder = buffer.blitCommandEncoder();
        Ok(Open { encoder: encoder.ok_or_else(|| refused("blit encoder"))?, fence: self.fence.clone() })
    }

    fn signal(&self, buffer: &Self::Buffer, value: u64) {
        buffer.encodeSignalEvent_value(ProtocolObject::from_ref(&*self.event.0), value);
    }

    fn on_completed(&self, buffer: &Self::Buffer, handler: impl Fn(&Ended) + Send + 'static) {
        let block = RcBlock::new(move |buffer: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
            // SAFETY: Metal hands its handler the command buffer that has ended.
            handler(&ended(unsafe { buffer.as_ref() }));
        });
        // SAFETY: the block takes what a handler is given; everything that it holds may go to Metal's thread.
        unsafe { buffer.addCompletedHandler(RcBlock::as_ptr(&block)) };
    }

    fn commit(&self, buffer: Self::Buffer) {
        buffer.commit();
    }

    fn event(&self) -> &Event {
        &self.event
    }

    fn working(&self) {
        if let Some(residency) = &self.residency {
            residency.worked();
        }
    }
}

/// What a command buffer says when it has ended.
fn ended(buffer: &ProtocolObject<dyn MTLCommandBuffer>) -> Ended {
    Ended {
        status: buffer.status().0,
        error: buffer.error().map(|error| (error.code(), error.localizedDescription().to_string())),
        seconds: (buffer.GPUStartTime(), buffer.GPUEndTime()),
    }
}

/// The pipeline of a kernel of this device, once it is made.
pub(super) fn pipeline(kernel: &Kernel) -> Result<Pipeline, GpuError> {
    kernel.raw::<Pending<Pipeline>>().ok_or_else(|| foreign(kernel.entry()))?.wait()
}

/// An encoder that is open.
pub(super) struct Open<E: ?Sized> {
    encoder: Retained<ProtocolObject<E>>,
    fence: Retained<ProtocolObject<dyn MTLFence>>,
}

impl Fenced for Open<dyn MTLComputeCommandEncoder> {
    fn wait(&mut self) {
        self.encoder.waitForFence(&self.fence);
    }

    fn update(&mut self) {
        self.encoder.updateFence(&self.fence);
    }

    fn end(self) {
        self.encoder.endEncoding();
    }
}

impl Fenced for Open<dyn MTLBlitCommandEncoder> {
    fn wait(&mut self) {
        self.encoder.waitForFence(&self.fence);
    }

    fn update(&mut self) {
        self.encoder.updateFence(&self.fence);
    }

    fn end(self) {
        self.encoder.endEncoding();
    }
}

impl Encoder for Open<dyn MTLComputeCommandEncoder> {
    fn kernel(&mut self, kernel: &Kernel) -> Result<(), GpuError> {
        self.encoder.setComputePipelineState(&pipeline(kernel)?.state);
        Ok(())
    }

    fn buffer(&mut self, slot: u32, buffer: &Buffer, offset: usize) -> Result<(), GpuError> {
        let handle = memory(buffer)?.handle();
        // SAFETY: the slot is below 31 and the offset inside the buffer; whoever encodes holds the buffer until the command
        // buffer has ended.
        unsafe { self.encoder.setBuffer_offset_atIndex(Some(handle), offset, slot as usize) };
        Ok(())
    }

    fn offset(&mut self, slot: u32, offset: usize) {
        // SAFETY: the slot holds a buffer, and the offset is inside it.
        unsafe { self.encoder.setBufferOffset_atIndex(offset, slot as usize) };
    }

    fn bytes(&mut self, slot: u32, bytes: &[u8]) {
        let (start, slot) = (NonNull::from(bytes).cast(), slot as usize);
        // SAFETY: the bytes are copied before the call returns; they are not more than Metal takes.
        unsafe { self.encoder.setBytes_length_atIndex(start, bytes.len(), slot) };
    }

    fn barrier(&mut self) {
        self.encoder.memoryBarrierWithScope(MTLBarrierScope(numbers::BARRIER));
    }

    fn dispatch(&mut self, groups: [u32; 3], threads: u32) {
        self.encoder.dispatchThreadgroups_threadsPerThreadgroup(
            size(numbers::grid(groups)),
            size(numbers::threadgroup(threads)),
        );
    }
}

impl Blit for Open<dyn MTLBlitCommandEncoder> {
    fn copy(&mut self, from: (&Buffer, usize), to: (&Buffer, usize), bytes: usize) -> Result<(), GpuError> {
        // SAFETY: both ranges lie inside their buffers; the command buffer's handler holds them.
        unsafe {
            self.encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                memory(from.0)?.handle(),
                from.1,
                memory(to.0)?.handle(),
                to.1,
                bytes,
            );
        }
        Ok(())
    }

    fn zero(&mut self, buffer: &Buffer, range: Range<usize>) -> Result<(), GpuError> {
        let handle = memory(buffer)?.handle();
        self.encoder.fillBuffer_range_value(handle, NSRange::new(range.start, range.len()), 0);
        Ok(())
    }
}

fn refused(what: &str) -> GpuError {
    GpuError::Device { call: format!("new {what}"), what: "refused".to_owned() }
}
