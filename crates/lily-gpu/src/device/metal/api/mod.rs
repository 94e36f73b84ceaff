//! The calls of Metal: as little as possible, because no test on another system can run it.

mod archive;
mod commands;
mod compiler;
mod memory;
mod named;
mod open;
mod residency;

use super::{
    facts::Facts,
    pages,
    queue::{self, Prepared},
    residency::Residency,
    transfers::Transfer,
};
use crate::device::tensor_probe::probe;
use crate::{
    Buffer, Device, GpuError, Kernel, Limits, Pass, Program, Recording, Ticket, View,
    device::pending::Pending,
};
use commands::MetalCalls;
use compiler::{Compiler, Pipeline};
use lily_checkpoint::Bytes;
use lily_kernels::{MetalTier, Platform, Specialisation, metal_tier::MetalChoice};
use memory::Memory;
use objc2::{rc::Retained, runtime::ProtocolObject};
use objc2_metal::{MTLDevice, MTLSize};
use rayon::prelude::*;
use residency::ResidencySet;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Memory pages of Apple silicon.
const PAGE: usize = 16 << 10;
/// Files are read into a buffer in pieces of so many bytes, several at once.
const PIECE: usize = 8 << 20;

/// How to open the device.
#[derive(Debug, Clone, Default)]
pub struct MetalOptions {
    /// Where compiled kernels are kept; `LILY_CACHE_DIR`/metal, else the user's cache folder, when not given.
    pub cache: Option<PathBuf>,
}

/// The GPU of an Apple silicon machine.
pub struct MetalDevice {
    queue: queue::Queue<MetalCalls>,
    kernels: Mutex<HashMap<String, Pending<Pipeline>>>,
    compiler: Arc<Compiler>,
    residency: Option<Arc<Residency<ResidencySet>>>,
    facts: Arc<Facts>,
    /// The family, as `apple8`.
    architecture: String,
    /// The matrix units that kernels use.
    units: MetalChoice,
    device: Retained<ProtocolObject<dyn MTLDevice>>,
}

/// Nothing is under way: the host may touch the contents of buffers.
type Settled<'a> = queue::Settled<'a, MetalCalls>;

impl MetalDevice {
    /// Opens the system's default device.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`]: no device, one that does not share the CPU's memory, a family or a system that is too old.
    pub fn new(options: &MetalOptions) -> Result<Self, GpuError> {
        let device = open::device()?;
        let facts = Arc::new(open::facts(&device));
        facts.check()?;
        if facts.is_virtual() {
            tracing::warn!(
                "{}: a virtual machine's GPU, which promises nothing that the kernels need",
                facts.name
            );
        }
        let calls = MetalCalls::new(&device)?;
        let residency = calls.residency().cloned();
        let compiler = Arc::new(Compiler::new(device.clone(), facts.clone(), options.cache.clone()));
        let mut machine = facts.machine();
        let mut metal = Self {
            queue: queue::Queue::new(calls),
            kernels: Mutex::default(),
            compiler,
            residency,
            architecture: format!("apple{}", facts.family),
            units: machine.choose(),
            facts,
            device,
        };
        if machine.wants_probe() {
            machine.probe = probe(&metal);
            metal.units = machine.choose();
        }
        tracing::info!("matrix units: {}", metal.units);
        Ok(metal)
    }

    fn prepared(recording: &Recording, pass: Pass) -> Result<Prepared, GpuError> {
        let pace = |dispatch: &crate::Dispatch| Ok(commands::pipeline(&dispatch.kernel)?.pace);
        let paces = recording.dispatches().iter().map(pace).collect::<Result<_, GpuError>>()?;
        Ok(Prepared { recording: recording.clone(), pass, paces })
    }

    fn made(&self, memory: Memory, bytes: usize, label: &str) -> Buffer {
        Buffer::new(bytes, label, memory)
    }
}

impl Device for MetalDevice {
    fn platform(&self) -> Platform {
        Platform::Metal
    }

    fn describe(&self) -> String {
        format!("{}, {}", self.facts, self.units.tier)
    }

    fn architecture(&self) -> &str {
        &self.architecture
    }

    fn metal_tier(&self) -> MetalTier {
        self.units.tier
    }

    fn limits(&self) -> Limits {
        let allocated = self.device.currentAllocatedSize() as u64;
        Facts { allocated, ..(*self.facts).clone() }.limits()
    }

    fn launch_operations(&self) -> Option<u64> {
        Some(crate::check::AppleFamily::launch_operations(self.facts.limits().cores))
    }

    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        let memory = Memory::new(&self.device, self.residency.clone(), bytes, label, self.facts.max_buffer)?;
        Ok(self.made(memory, bytes, label))
    }

    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        let memory = Memory::new(&self.device, self.residency.clone(), bytes, label, self.facts.max_buffer)?;
        Ok(self.made(memory.shared(), bytes, label))
    }

    fn wrap(&self, bytes: &Bytes, label: &str) -> Result<Option<Buffer>, GpuError> {
        if !self.facts.may_wrap() {
            tracing::info!(label, "copied: this virtual GPU does not see mapped files");
            return Ok(None);
        }
        match pages::without_copy(bytes.as_ptr() as usize, bytes.len(), PAGE, self.facts.max_buffer) {
            Ok(length) => {
                let memory = Memory::over(&self.device, self.residency.clone(), bytes, length);
                Ok(memory.map(|memory| self.made(memory, bytes.len(), label)))
            }
            Err(reason) => {
                tracing::debug!(label, reason, "copied");
                Ok(None)
            }
        }
    }

    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError> {
        let to = to.slice(0, bytes.len());
        memory(to.buffer())?.write(to.offset(), bytes, &mut self.queue.settled()?);
        Ok(())
    }

    fn load(&self, to: &View, bytes: &Bytes) -> Result<(), GpuError> {
        let to = to.slice(0, bytes.len());
        let memory = memory(to.buffer())?;
        let mut settled = self.queue.settled()?;
        let out = memory.bytes_mut(to.range(), &mut settled);
        out.par_chunks_mut(PIECE).enumerate().try_for_each(|(at, piece)| {
            let from = at * PIECE..at * PIECE + piece.len();
            bytes.slice(from).copy_to(piece).map_err(|error| GpuError::Device {
                call: format!("reading {}", to.buffer().label()),
                what: error.to_string(),
            })
        })
    }

    fn download(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let from = from.slice(0, out.len());
        memory(from.buffer())?.read(from.offset(), out, &mut self.queue.settled()?);
        Ok(())
    }

    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let from = from.slice(0, out.len());
        if !memory(from.buffer())?.peek(from.offset(), out) {
            return Err(GpuError::Device {
                call: format!("reading {}", from.buffer().label()),
                what: "it is not shared with the host".to_owned(),
            });
        }
        Ok(())
    }

    fn copy(&self, from: &View, to: &View) -> Result<(), GpuError> {
        self.queue.transfer(Transfer::Copy { from: from.clone(), to: to.clone() })
    }

    fn zero(&self, view: &View) -> Result<(), GpuError> {
        self.queue.transfer(Transfer::Zero(view.clone()))
    }

    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError> {
        let (key, signature) = (specialisation.key(), crate::device::signature(specialisation, entry)?);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = kernels.entry(format!("{key} {entry}")).or_insert_with(|| {
            let (compiler, wanted) = (self.compiler.clone(), signature.clone());
            let (key, source) = (key.clone(), specialisation.source(Platform::Metal));
            Pending::start(move || compiler.pipeline(&key, &source, &wanted))
        });
        Ok(Kernel::new(key, signature, pending.clone()))
    }

    fn ready(&self, kernel: &Kernel) -> Result<(), GpuError> {
        commands::pipeline(kernel).map(drop)
    }

    fn run(&self, recording: &Recording, pass: Pass) -> Result<Ticket, GpuError> {
        self.queue.run(&Arc::new(Self::prepared(recording, pass)?))
    }

    fn prepare(&self, recording: &Recording, pass: Pass) -> Result<Program, GpuError> {
        Ok(Program::new(Arc::new(Self::prepared(recording, pass)?)))
    }

    fn submit(&self, program: &Program) -> Result<Ticket, GpuError> {
        self.queue.run(program.raw::<Arc<Prepared>>().ok_or_else(|| foreign("a program"))?)
    }

    fn wait(&self, ticket: Ticket) -> Result<(), GpuError> {
        self.queue.wait(ticket)
    }

    fn is_done(&self, ticket: Ticket) -> Result<bool, GpuError> {
        self.queue.is_done(ticket)
    }

    fn busy(&self) -> Option<Duration> {
        Some(self.queue.gpu_time())
    }

    fn profile(&self, recording: &Recording) -> Result<Option<Vec<Duration>>, GpuError> {
        let mut times = Vec::with_capacity(recording.dispatches().len());
        drop(self.queue.settled()?);
        for step in recording.steps() {
            let before = self.queue.gpu_time();
            self.wait(self.run(&step, Pass::Serial)?)?;
            times.push(self.queue.gpu_time().saturating_sub(before));
        }
        Ok(Some(times))
    }
}

impl Drop for MetalDevice {
    fn drop(&mut self) {
        // Buffers and kernels may go next: nothing must still use them.
        if let Err(error) = self.queue.drain() {
            tracing::debug!("{error}");
        }
    }
}

fn memory(buffer: &Buffer) -> Result<&Memory, GpuError> {
    buffer.raw().ok_or_else(|| foreign(buffer.label()))
}

/// Width, height and depth.
const fn size([width, height, depth]: [usize; 3]) -> MTLSize {
    MTLSize { width, height, depth }
}

fn foreign(label: &str) -> GpuError {
    GpuError::Device { call: label.to_owned(), what: "it was made by another device".to_owned() }
}
