//! CUDA through the driver API and NVRTC, both found when the device is opened: a binary with this in it starts on a
//! machine without either.
//!
//! Kernels are compiled in the background from the moment they are asked for; the first launch waits for what is not
//! there yet. Machine code is kept on disk ([`CudaOptions::cache`]).
//!
//! A kernel file's constant `SHARED`, if it has one, is the dynamic shared memory of its launches in bytes.

mod compiler;
mod driver;
mod function;
mod graph;
mod launch;
mod memory;
mod queue;

pub use compiler::{Compiled, compile_offline};

use super::{Device, Limits, Pass, Program, Ticket, cache::Cache, pending::Pending};
use crate::{Buffer, GpuError, Kernel, Recording, View};
use compiler::Compiler;
use cudarc::driver::{result, sys};
use driver::{Context, named};
use function::{Function, Request};
use graph::Graph;
use launch::Launch;
use lily_kernels::{Platform, Specialisation};
use memory::{Memory, Pinned};
use queue::{Event, Moments, Stream};
use rayon::prelude::*;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Folder and suffix of what is kept on disk.
const KIND: &str = "cuda";
const EXTENSION: &str = "cubin";
/// Bytes of each of the two buffers through which large uploads go.
const STAGING: usize = 32 << 20;
/// Uploads of up to so many bytes (token ids, step words) do not wait for what is under way.
const SMALL: usize = 64 << 10;
/// So many of them may be under way.
const SMALL_SLOTS: usize = 16;
/// Downloads of up to so many bytes (logits) go through pinned memory.
const DOWNLOAD: usize = 4 << 20;
/// Memory that is left alone: the driver's own needs, kernels' local memory, other programs.
const RESERVE: usize = 512 << 20;

/// How to open a device.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// Which device, from 0.
    pub ordinal: usize,
    /// Where compiled kernels are kept; `LILY_CACHE_DIR`/cuda, else the user's cache folder, when not given.
    pub cache: Option<PathBuf>,
}

/// An NVIDIA GPU.
pub struct CudaDevice {
    context: Arc<Context>,
    compiler: Arc<Compiler>,
    kernels: Mutex<HashMap<String, Pending<Function>>>,
    /// Nothing is compiled any more.
    closing: Arc<AtomicBool>,
    queue: Mutex<Queue>,
    description: String,
    limits: Limits,
}

struct Queue {
    moments: Moments,
    staging: Option<[Staging; 2]>,
    small: Vec<Staging>,
    small_used: usize,
    download: Option<Pinned>,
    stream: Stream,
}

/// Pinned memory on its way to the device.
struct Staging {
    pinned: Pinned,
    /// The copy from it.
    copied: Event,
}

impl CudaDevice {
    /// Opens a device.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] without a driver, a device or NVRTC.
    pub fn new(options: &CudaOptions) -> Result<Self, GpuError> {
        let context = Arc::new(Context::new(options.ordinal)?);
        use sys::CUdevice_attribute as Attribute;
        let capability = (
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        if capability < (8, 0) {
            return Err(GpuError::Unavailable {
                what: format!("{} has compute capability {}.{}", context.name()?, capability.0, capability.1),
                hint: "bf16 matrix products need 8.0 (Ampere) or newer; use --backend cpu".to_owned(),
            });
        }
        let compiler = Compiler::new(Cache::new(options.cache.clone(), KIND, EXTENSION), capability)?;
        let (free, _) = context.memory()?;
        let limits = Limits {
            memory: free.saturating_sub(RESERVE) as u64,
            buffer: free.saturating_sub(RESERVE) as u64,
            threadgroup_memory: context
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            threads: 1024,
            cores: context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        };
        let description = format!(
            "{} ({}), driver CUDA {}, NVRTC {}",
            context.name()?,
            compiler.architecture,
            driver::driver_version()?,
            compiler.version
        );
        let queue = Queue {
            moments: Moments::new(&context)?,
            staging: None,
            small: Vec::new(),
            small_used: 0,
            download: None,
            stream: Stream::new(&context)?,
        };
        Ok(Self {
            compiler: Arc::new(compiler),
            kernels: Mutex::default(),
            closing: Arc::default(),
            queue: Mutex::new(queue),
            description,
            limits,
            context,
        })
    }

    /// The queue, with the context current on this thread.
    fn queue(&self) -> Result<MutexGuard<'_, Queue>, GpuError> {
        self.context.enter()?;
        Ok(self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn allocated(&self, memory: Memory, bytes: usize, label: &str) -> Buffer {
        Buffer::new(bytes, label, memory)
    }
}

impl Staging {
    fn new(context: &Arc<Context>, bytes: usize) -> Result<Self, GpuError> {
        Ok(Self { pinned: Pinned::new(context, bytes)?, copied: Event::new(context, false)? })
    }
}

impl Queue {
    /// Copies a few bytes in the order of the stream, without waiting for what is ahead.
    fn upload_small(&mut self, context: &Arc<Context>, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        if self.small.len() < SMALL_SLOTS {
            self.small.push(Staging::new(context, SMALL)?);
            self.small_used = self.small.len() - 1;
        } else {
            self.small_used = (self.small_used + 1) % SMALL_SLOTS;
        }
        let Staging { pinned, copied } = &mut self.small[self.small_used];
        copied.wait()?;
        pinned.as_mut()[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the destination has room for all bytes, the source is pinned and stays until the event after the copy
        // was waited for.
        let copy = unsafe {
            result::memcpy_htod_async(address, &pinned.as_mut()[..bytes.len()], self.stream.handle())
        };
        named("cuMemcpyHtoDAsync", copy)?;
        copied.record(&self.stream)
    }

    /// Copies through pinned memory, filling one buffer while the other is under way.
    fn upload(&mut self, context: &Arc<Context>, address: u64, bytes: &[u8]) -> Result<(), GpuError> {
        if self.staging.is_none() {
            self.staging = Some([Staging::new(context, STAGING)?, Staging::new(context, STAGING)?]);
        }
        let Self { staging: Some(staging), stream, .. } = self else { return Ok(()) };
        for (at, piece) in bytes.chunks(STAGING).enumerate() {
            let Staging { pinned, copied } = &mut staging[at % 2];
            copied.wait()?;
            let to = &mut pinned.as_mut()[..piece.len()];
            // Reading a mapped file is page faults and disk: several threads hide them behind each other.
            to.par_chunks_mut(1 << 20)
                .zip(piece.par_chunks(1 << 20))
                .for_each(|(to, from)| to.copy_from_slice(from));
            let to = address + (at * STAGING) as u64;
            // SAFETY: the destination was allocated with room for all bytes (the view was sliced to them), the source
            // is pinned and stays until the event after the copy was waited for.
            let copy =
                unsafe { result::memcpy_htod_async(to, &pinned.as_mut()[..piece.len()], stream.handle()) };
            named("cuMemcpyHtoDAsync", copy)?;
            copied.record(stream)?;
        }
        // The next upload may use the buffers in another order.
        staging.iter().try_for_each(|staging| staging.copied.wait())
    }

    fn run(&mut self, launches: &[Launch], early: bool) -> Result<Ticket, GpuError> {
        // The first waits for all of the submission before: a kernel may look early at what only its own submission does
        // not write.
        for (at, launch) in launches.iter().enumerate() {
            launch.on(self.stream.handle(), early && at > 0)?;
        }
        self.moments.mark(&self.stream)
    }
}

impl Device for CudaDevice {
    fn platform(&self) -> Platform {
        Platform::Cuda
    }

    fn describe(&self) -> String {
        self.description.clone()
    }

    fn architecture(&self) -> &str {
        &self.compiler.architecture
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        Ok(self.allocated(Memory::device(&self.context, bytes, label)?, bytes, label))
    }

    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        Ok(self.allocated(Memory::shared(&self.context, bytes)?, bytes, label))
    }

    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError> {
        let to = to.slice(0, bytes.len());
        let address = address(&to)?;
        let mut queue = self.queue()?;
        if bytes.len() <= SMALL {
            queue.upload_small(&self.context, address, bytes)
        } else {
            queue.upload(&self.context, address, bytes)
        }
    }

    fn download(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let from = from.slice(0, out.len());
        let address = address(&from)?;
        let mut queue = self.queue()?;
        if out.len() <= DOWNLOAD {
            let Queue { download, stream, .. } = &mut *queue;
            let pinned = match download {
                Some(pinned) => pinned,
                None => download.insert(Pinned::new(&self.context, DOWNLOAD)?),
            };
            let to = &mut pinned.as_mut()[..out.len()];
            // SAFETY: the source has that many bytes; the destination is pinned, and waited for before it is read.
            named("cuMemcpyDtoHAsync", unsafe { result::memcpy_dtoh_async(to, address, stream.handle()) })?;
            stream.wait()?;
            out.copy_from_slice(to);
            return Ok(());
        }
        // SAFETY: the source has that many bytes; the destination is waited for before it is used.
        named("cuMemcpyDtoHAsync", unsafe {
            result::memcpy_dtoh_async(out, address, queue.stream.handle())
        })?;
        queue.stream.wait()
    }

    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let from = from.slice(0, out.len());
        let pinned = memory(&from)?.host.as_ref().ok_or_else(|| GpuError::Device {
            call: format!("reading {}", from.buffer().label()),
            what: "it is not shared with the host".to_owned(),
        })?;
        pinned.peek(from.offset(), out);
        Ok(())
    }

    fn copy(&self, from: &View, to: &View) -> Result<(), GpuError> {
        let bytes = from.bytes().min(to.bytes());
        let (from, to) = (address(from)?, address(to)?);
        let queue = self.queue()?;
        // SAFETY: both have that many bytes.
        named("cuMemcpyDtoDAsync", unsafe {
            result::memcpy_dtod_async(to, from, bytes, queue.stream.handle())
        })
    }

    fn zero(&self, view: &View) -> Result<(), GpuError> {
        let at = address(view)?;
        let queue = self.queue()?;
        // SAFETY: the view has that many bytes.
        named("cuMemsetD8Async", unsafe {
            result::memset_d8_async(at, 0, view.bytes(), queue.stream.handle())
        })
    }

    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError> {
        let (key, signature) = (specialisation.key(), super::signature(specialisation, entry)?);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = kernels.entry(format!("{key} {entry}")).or_insert_with(|| {
            let source = specialisation.source(Platform::Cuda);
            let shared =
                specialisation.value("SHARED").and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
            let request = Request { name: key.clone(), entry: entry.to_owned(), source, shared };
            let (context, compiler, closing) =
                (self.context.clone(), self.compiler.clone(), self.closing.clone());
            Pending::start(move || {
                if closing.load(Ordering::Relaxed) {
                    return Err(foreign("a kernel of a device that is closed"));
                }
                function::make(&context, &compiler, &request)
            })
        });
        Ok(Kernel::new(key, signature, pending.clone()))
    }

    fn ready(&self, kernel: &Kernel) -> Result<(), GpuError> {
        kernel.raw::<Pending<Function>>().ok_or_else(|| foreign(kernel.entry()))?.wait().map(drop)
    }

    fn run(&self, recording: &Recording, pass: Pass) -> Result<Ticket, GpuError> {
        let launches = Launch::all(recording)?;
        self.queue()?.run(&launches, pass != Pass::Serial)
    }

    fn prepare(&self, recording: &Recording, pass: Pass) -> Result<Program, GpuError> {
        let queue = self.queue()?;
        Ok(Program::new(Graph::new(&self.context, &queue.stream, recording, pass)?))
    }

    fn submit(&self, program: &Program) -> Result<Ticket, GpuError> {
        let graph = program.raw::<Graph>().ok_or_else(|| foreign("a program"))?;
        let mut queue = self.queue()?;
        let Queue { moments, stream, .. } = &mut *queue;
        graph.launch(stream)?;
        moments.mark(stream)
    }

    fn wait(&self, ticket: Ticket) -> Result<(), GpuError> {
        let queue = self.queue()?;
        queue.moments.event(ticket).map_or(Ok(()), Event::wait)
    }

    fn is_done(&self, ticket: Ticket) -> Result<bool, GpuError> {
        let queue = self.queue()?;
        queue.moments.event(ticket).map_or(Ok(true), Event::has_happened)
    }

    fn profile(&self, recording: &Recording) -> Result<Option<Vec<Duration>>, GpuError> {
        let launches = Launch::all(recording)?;
        let queue = self.queue()?;
        let events =
            (0..=launches.len()).map(|_| Event::new(&self.context, true)).collect::<Result<Vec<_>, _>>()?;
        events[0].record(&queue.stream)?;
        for (launch, event) in launches.iter().zip(&events[1..]) {
            launch.on(queue.stream.handle(), false)?;
            event.record(&queue.stream)?;
        }
        queue.stream.wait()?;
        let times = events.windows(2).map(|pair| {
            let milliseconds = pair[1].since(&pair[0])?;
            Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
        });
        times.collect::<Result<_, GpuError>>().map(Some)
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Kernels that nobody waited for may still be in the compiler: it must not outlive its library's last moment, which
        // comes with the end of `main`.
        self.closing.store(true, Ordering::Relaxed);
        let kernels = self.kernels.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (name, kernel) in kernels.drain() {
            if let Err(error) = kernel.wait() {
                tracing::debug!("{name}: {error}");
            }
        }
        // Buffers and kernels may go next: nothing must still use them.
        let idle = self.queue().and_then(|queue| queue.stream.wait());
        if let Err(error) = idle {
            tracing::debug!("{error}");
        }
    }
}

fn memory(view: &View) -> Result<&Memory, GpuError> {
    view.buffer().raw().ok_or_else(|| foreign(view.buffer().label()))
}

fn address(view: &View) -> Result<u64, GpuError> {
    Ok(memory(view)?.address + view.offset() as u64)
}

fn foreign(label: &str) -> GpuError {
    GpuError::Device { call: label.to_owned(), what: "it was made by another device".to_owned() }
}
