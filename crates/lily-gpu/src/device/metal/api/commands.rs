//! Command buffers: one encoder each, a fence from one to the next, a value of the shared event at the end.

use super::{Event, Prepared, compiler::Pipeline, foreign, memory};
use crate::{
    Buffer, GpuError, Kernel, Pass, Ticket,
    device::{
        metal::{
            encode::{self, Encoder},
            failure,
            parts::{self, BUDGET, Pace},
            progress::{Progress, Signal},
            transfers::{Transfer, Transfers},
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
    MTLBarrierScope, MTLBlitCommandEncoder, MTLCommandBuffer, MTLCommandBufferStatus, MTLCommandEncoder,
    MTLCommandQueue, MTLComputeCommandEncoder, MTLDevice, MTLDispatchType, MTLFence, MTLResidencySet,
    MTLSharedEvent, MTLSize,
};
use std::{any::Any, ptr::NonNull, sync::Arc, time::Duration};

/// Command buffers that may be under way.
const IN_FLIGHT: u64 = 2;

/// The one queue of a device.
pub(super) struct Queue {
    queue: Retained<ProtocolObject<dyn MTLCommandQueue>>,
    /// Every encoder but the first waits for it first, and updates it last.
    fence: Retained<ProtocolObject<dyn MTLFence>>,
    event: Event,
    progress: Arc<Progress>,
    committed: u64,
    /// Not encoded yet.
    transfers: Transfers,
}

/// What a command buffer leaves for its completion handler.
struct Committed {
    label: String,
    /// Expected GPU time, and what to correct when the true one is known.
    expected: Duration,
    paces: Vec<Arc<Pace>>,
    /// Buffers and pipelines: the command buffer does not hold them itself.
    _used: Box<dyn Any + Send>,
}

impl Queue {
    pub(super) fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        event: Event,
        progress: Arc<Progress>,
    ) -> Result<Self, GpuError> {
        let missing =
            |what: &str| GpuError::Device { call: format!("new {what}"), what: "refused".to_owned() };
        Ok(Self {
            queue: device.newCommandQueue().ok_or_else(|| missing("command queue"))?,
            fence: device.newFence().ok_or_else(|| missing("fence"))?,
            event,
            progress,
            committed: 0,
            transfers: Transfers::default(),
        })
    }

    /// Makes a residency set part of everything that is run. Needs macOS 15, as the set does.
    pub(super) fn add(&self, set: &ProtocolObject<dyn MTLResidencySet>) {
        self.queue.addResidencySet(set);
    }

    /// Command buffers so far.
    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    /// Queues a transfer; those that do not depend on each other go together.
    pub(super) fn transfer(&mut self, transfer: Transfer) -> Result<(), GpuError> {
        if self.transfers.conflict(&transfer) {
            self.flush()?;
        }
        self.transfers.push(transfer);
        Ok(())
    }

    /// Commits the transfers that wait.
    pub(super) fn flush(&mut self) -> Result<(), GpuError> {
        let transfers = self.transfers.take();
        if transfers.is_empty() {
            return Ok(());
        }
        let committed = Committed {
            label: "copies".to_owned(),
            expected: Duration::ZERO,
            paces: Vec::new(),
            _used: Box::new(transfers.clone()),
        };
        let (fence, first) = (self.fence.clone(), self.committed == 0);
        self.commit(committed, |buffer| {
            let encoder = buffer.blitCommandEncoder().ok_or_else(|| refused("blit encoder"))?;
            if !first {
                encoder.waitForFence(&fence);
            }
            let copied = transfers.iter().try_for_each(|transfer| blit(&encoder, transfer));
            encoder.updateFence(&fence);
            encoder.endEncoding();
            copied
        })?;
        Ok(())
    }

    /// Commits a recording in parts.
    pub(super) fn run(&mut self, prepared: &Arc<Prepared>) -> Result<Ticket, GpuError> {
        let dispatches = prepared.recording.dispatches();
        let costs: Vec<f64> = prepared
            .paces
            .iter()
            .zip(dispatches)
            .map(|(pace, dispatch)| pace.nanoseconds(dispatch))
            .collect();
        for part in parts::parts(dispatches, BUDGET, &costs) {
            let mut paces: Vec<Arc<Pace>> = Vec::new();
            for pace in &prepared.paces[part.clone()] {
                if !paces.iter().any(|known| Arc::ptr_eq(known, pace)) {
                    paces.push(pace.clone());
                }
            }
            let nanoseconds: f64 = costs[part.clone()].iter().sum();
            let committed = Committed {
                label: dispatches[part.start].label.to_string(),
                expected: Duration::from_nanos(nanoseconds as u64),
                paces,
                _used: Box::new(prepared.clone()),
            };
            let (fence, first) = (self.fence.clone(), self.committed == 0);
            let pass = prepared.pass;
            self.commit(committed, |buffer| {
                let kind =
                    if pass == Pass::Serial { MTLDispatchType::Serial } else { MTLDispatchType::Concurrent };
                let encoder = buffer
                    .computeCommandEncoderWithDispatchType(kind)
                    .ok_or_else(|| refused("compute encoder"))?;
                if !first {
                    encoder.waitForFence(&fence);
                }
                let encoded = encode::encode(&dispatches[part], pass, &mut Compute(&encoder));
                encoder.updateFence(&fence);
                encoder.endEncoding();
                encoded
            })?;
        }
        Ok(Ticket(self.committed))
    }

    /// Commits one command buffer with what `encode` puts into it.
    fn commit(
        &mut self,
        committed: Committed,
        encode: impl FnOnce(&ProtocolObject<dyn MTLCommandBuffer>) -> Result<(), GpuError>,
    ) -> Result<(), GpuError> {
        let value = self.committed + 1;
        if value > IN_FLIGHT {
            self.progress.wait(&self.event, value - IN_FLIGHT)?;
        }
        autoreleasepool(|_| {
            let buffer = self
                .queue
                .commandBufferWithUnretainedReferences()
                .ok_or_else(|| refused("command buffer"))?;
            encode(&buffer)?;
            buffer.encodeSignalEvent_value(ProtocolObject::from_ref(&*self.event.0), value);
            let (progress, event) = (self.progress.clone(), self.event.clone());
            let handler = RcBlock::new(move |buffer: NonNull<ProtocolObject<dyn MTLCommandBuffer>>| {
                // SAFETY: Metal hands its handler the command buffer that has ended.
                completed(unsafe { buffer.as_ref() }, value, &committed, &progress, &event);
            });
            // SAFETY: the block takes what a handler is given; everything that it holds may go to Metal's thread.
            unsafe { buffer.addCompletedHandler(RcBlock::as_ptr(&handler)) };
            buffer.commit();
            Ok::<(), GpuError>(())
        })?;
        self.committed = value;
        Ok(())
    }
}

/// Takes note of a command buffer that has ended.
fn completed(
    buffer: &ProtocolObject<dyn MTLCommandBuffer>,
    value: u64,
    committed: &Committed,
    progress: &Progress,
    event: &Event,
) {
    let took = Duration::try_from_secs_f64(buffer.GPUEndTime() - buffer.GPUStartTime()).unwrap_or_default();
    let error = (buffer.status() == MTLCommandBufferStatus::Error).then(|| match buffer.error() {
        Some(error) => {
            let text = error.localizedDescription().to_string();
            failure::command_buffer(&committed.label, error.code(), &text)
        }
        None => failure::command_buffer(&committed.label, 0, "nothing"),
    });
    let failed = error.is_some();
    progress.complete(value, took, error);
    if failed && event.value() < value {
        // Its own signal may never come.
        event.0.setSignaledValue(value);
    }
    if !failed && !committed.expected.is_zero() {
        let ratio = took.as_secs_f64() / committed.expected.as_secs_f64();
        committed.paces.iter().for_each(|pace| pace.correct(ratio));
    }
}

/// The pipeline of a kernel of this device, once it is made.
pub(super) fn pipeline(kernel: &Kernel) -> Result<Pipeline, GpuError> {
    kernel.raw::<Pending<Pipeline>>().ok_or_else(|| foreign(kernel.entry()))?.wait()
}

/// A compute encoder that is open.
struct Compute<'a>(&'a ProtocolObject<dyn MTLComputeCommandEncoder>);

impl Encoder for Compute<'_> {
    fn kernel(&mut self, kernel: &Kernel) -> Result<(), GpuError> {
        self.0.setComputePipelineState(&pipeline(kernel)?.state);
        Ok(())
    }

    fn buffer(&mut self, slot: u32, buffer: &Buffer, offset: usize) -> Result<(), GpuError> {
        let whole = buffer.whole();
        let handle = memory(&whole)?.handle();
        // SAFETY: the slot is below 31 and the offset inside the buffer; whoever encodes holds the buffer until the command
        // buffer has ended.
        unsafe { self.0.setBuffer_offset_atIndex(Some(handle), offset, slot as usize) };
        Ok(())
    }

    fn offset(&mut self, slot: u32, offset: usize) {
        // SAFETY: the slot holds a buffer, and the offset is inside it.
        unsafe { self.0.setBufferOffset_atIndex(offset, slot as usize) };
    }

    fn bytes(&mut self, slot: u32, bytes: &[u8]) {
        // SAFETY: the bytes are copied before the call returns; they are not more than Metal takes.
        unsafe { self.0.setBytes_length_atIndex(NonNull::from(bytes).cast(), bytes.len(), slot as usize) };
    }

    fn barrier(&mut self) {
        self.0.memoryBarrierWithScope(MTLBarrierScope::Buffers);
    }

    fn dispatch(&mut self, groups: [u32; 3], threads: u32) {
        let [width, height, depth] = groups.map(|n| n as usize);
        let threads = MTLSize { width: threads as usize, height: 1, depth: 1 };
        self.0.dispatchThreadgroups_threadsPerThreadgroup(MTLSize { width, height, depth }, threads);
    }
}

/// Encodes one transfer.
fn blit(encoder: &ProtocolObject<dyn MTLBlitCommandEncoder>, transfer: &Transfer) -> Result<(), GpuError> {
    match transfer {
        Transfer::Copy { from, to } => {
            let bytes = from.bytes().min(to.bytes());
            let (source, destination) = (memory(from)?.handle(), memory(to)?.handle());
            // SAFETY: both views lie inside their buffers and have that many bytes; the command buffer's handler holds them.
            unsafe {
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size(
                    source,
                    from.offset(),
                    destination,
                    to.offset(),
                    bytes,
                );
            }
        }
        Transfer::Zero(view) => {
            encoder.fillBuffer_range_value(
                memory(view)?.handle(),
                NSRange::new(view.offset(), view.bytes()),
                0,
            );
        }
    }
    Ok(())
}

fn refused(what: &str) -> GpuError {
    GpuError::Device { call: format!("new {what}"), what: "refused".to_owned() }
}
