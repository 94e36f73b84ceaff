//! The emulator as a device: every dispatch runs on the CPU, in order, under the emulator's checks, with denormal f32 taken
//! for zero, as GPUs may.

use super::{Device, Limits, Pass, Program, Ticket, host_memory::AlignedBytes};
use crate::{Buffer, Dispatch, GpuError, Kernel, Recording, View};
use lily_checkpoint::Bytes;
use lily_kernels::{
    MetalTier, Platform, Specialisation,
    emulator::{Checks, Memory as Argument, Module},
};
use std::{
    cell::UnsafeCell,
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Threadgroup memory that Metal promises; the emulator holds every kernel to it.
const THREADGROUP_MEMORY: u32 = 32 * 1024;
/// Fresh memory is filled with this: floats read from it are NaN.
const POISON: u8 = 0xff;

/// Runs kernels on the CPU, for tests.
pub struct EmulatorDevice {
    architecture: &'static str,
    tier: MetalTier,
    checks: Checks,
    modules: Mutex<HashMap<String, Arc<Module>>>,
    submitted: AtomicU64,
}

/// A buffer's bytes.
enum Memory {
    /// Whoever touches them holds [`TURN`].
    Own(UnsafeCell<AlignedBytes>),
    /// Of somebody else: never written.
    Others(Bytes),
}

// SAFETY: the bytes are only touched while the one lock is held.
unsafe impl Sync for Memory {}

/// Held by whoever touches any buffer's bytes.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    // A panic while the lock was held leaves bytes, which are always valid.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// The bytes, while the lock is held.
    fn bytes<'a>(&'a self, _turn: &'a mut MutexGuard<'static, ()>) -> Result<&'a mut [u8], GpuError> {
        match self {
            // SAFETY: the lock is held and borrowed exclusively as long as the slice is.
            Self::Own(bytes) => Ok(unsafe { &mut *bytes.get() }.as_mut()),
            Self::Others(_) => Err(GpuError::Device {
                call: "writing a buffer".to_owned(),
                what: "its memory is not the device's".to_owned(),
            }),
        }
    }

    /// Where a range of them begins, for a kernel.
    fn at(
        &self,
        range: std::ops::Range<usize>,
        turn: &mut MutexGuard<'static, ()>,
    ) -> Result<*mut u8, GpuError> {
        match self {
            Self::Own(_) => Ok(self.bytes(turn)?[range].as_mut_ptr()),
            Self::Others(bytes) => Ok(bytes[range].as_ptr().cast_mut()),
        }
    }

    /// A copy of a range of them.
    fn read(&self, range: std::ops::Range<usize>, out: &mut [u8]) -> Result<(), GpuError> {
        match self {
            Self::Own(_) => out.copy_from_slice(&self.bytes(&mut turn())?[range]),
            Self::Others(bytes) => out.copy_from_slice(&bytes[range]),
        }
        Ok(())
    }
}

impl Default for EmulatorDevice {
    fn default() -> Self {
        Self::new(Checks::Full)
    }
}

impl EmulatorDevice {
    /// A device with as much memory as the machine.
    pub fn new(checks: Checks) -> Self {
        Self {
            architecture: "",
            tier: MetalTier::Simdgroup,
            checks,
            modules: Mutex::default(),
            submitted: AtomicU64::new(0),
        }
    }

    /// One that passes for Hopper: plans choose the overrides that are written for it, whose instructions the emulator
    /// emulates too.
    pub fn hopper(checks: Checks) -> Self {
        Self { architecture: "sm_90a", ..Self::new(checks) }
    }

    /// One that passes for an M5: plans choose the overrides on Metal's tensor operations, which the emulator emulates too.
    pub fn tensor(checks: Checks) -> Self {
        Self { tier: MetalTier::Tensor, ..Self::new(checks) }
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.submitted.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn dispatch(dispatch: &Dispatch) -> Result<(), GpuError> {
        let kernel = dispatch.kernel.raw::<Arc<Module>>().ok_or_else(|| foreign(&dispatch.label))?;
        let mut turn = turn();
        let mut arguments = Vec::with_capacity(dispatch.bindings.len());
        for bound in &dispatch.bindings {
            let data = memory(&bound.view)?.at(bound.view.range(), &mut turn)?;
            arguments.push(Argument { data, len: bound.view.bytes() });
        }
        let entry = dispatch.kernel.entry();
        // SAFETY: every pointer is to a range of a buffer that the recording holds; the lock, held through the call, keeps
        // everybody else out; the recorder has refused overlaps of what is written; memory of others is only bound where
        // weights are, which no kernel writes.
        let ran = unsafe { kernel.run_on(entry, dispatch.groups, &arguments, &dispatch.params) };
        ran.map_err(|faults| GpuError::Faults {
            label: format!("{} ({entry})", dispatch.label),
            faults: faults.first.iter().map(|fault| format!("{:?}: {}", fault.kind, fault.message)).collect(),
        })
    }
}

impl Device for EmulatorDevice {
    fn platform(&self) -> Platform {
        Platform::Emulator
    }

    fn describe(&self) -> String {
        "emulator on the CPU, every access checked".to_owned()
    }

    fn architecture(&self) -> &str {
        self.architecture
    }

    fn metal_tier(&self) -> MetalTier {
        self.tier
    }

    fn limits(&self) -> Limits {
        Limits {
            memory: u64::MAX,
            buffer: u64::MAX,
            threadgroup_memory: THREADGROUP_MEMORY,
            threads: 1024,
            cores: 2,
        }
    }

    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        let memory = AlignedBytes::filled(bytes, POISON).ok_or_else(|| out_of_memory(bytes, label))?;
        Ok(Buffer::new(bytes, label, Memory::Own(UnsafeCell::new(memory))))
    }

    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        let memory = AlignedBytes::filled(bytes, 0).ok_or_else(|| out_of_memory(bytes, label))?;
        Ok(Buffer::new(bytes, label, Memory::Own(UnsafeCell::new(memory))))
    }

    fn wrap(&self, bytes: &Bytes, label: &str) -> Result<Option<Buffer>, GpuError> {
        let aligned = (bytes.as_ptr() as usize).is_multiple_of(4096);
        Ok(aligned.then(|| Buffer::new(bytes.len(), label, Memory::Others(bytes.clone()))))
    }

    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError> {
        let to = to.slice(0, bytes.len());
        memory(&to)?.bytes(&mut turn())?[to.range()].copy_from_slice(bytes);
        Ok(())
    }

    fn download(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        let from = from.slice(0, out.len());
        memory(&from)?.read(from.range(), out)
    }

    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        self.download(from, out)
    }

    fn copy(&self, from: &View, to: &View) -> Result<(), GpuError> {
        let bytes = from.bytes().min(to.bytes());
        let (from, to) = (from.slice(0, bytes), to.slice(0, bytes));
        let mut copy = vec![0; bytes];
        memory(&from)?.read(from.range(), &mut copy)?;
        memory(&to)?.bytes(&mut turn())?[to.range()].copy_from_slice(&copy);
        Ok(())
    }

    fn zero(&self, view: &View) -> Result<(), GpuError> {
        memory(view)?.bytes(&mut turn())?[view.range()].fill(0);
        Ok(())
    }

    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError> {
        let (key, signature) = (specialisation.key(), super::signature(specialisation, entry)?);
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&key) {
            return Ok(Kernel::new(key, signature, module.clone()));
        }
        let module = Module::compile_checked(specialisation, self.checks)
            .map_err(|error| GpuError::Kernel { kernel: key.clone(), what: error.to_string() })?;
        let module = modules.entry(key.clone()).or_insert(Arc::new(module.with_denormals_flushed()));
        Ok(Kernel::new(key, signature, module.clone()))
    }

    fn run(&self, recording: &Recording, _: Pass) -> Result<Ticket, GpuError> {
        recording.dispatches().iter().try_for_each(Self::dispatch)?;
        Ok(self.ticket())
    }

    fn prepare(&self, recording: &Recording, _: Pass) -> Result<Program, GpuError> {
        Ok(Program::new(recording.clone()))
    }

    fn submit(&self, program: &Program) -> Result<Ticket, GpuError> {
        self.run(program.raw::<Recording>().ok_or_else(|| foreign("a program"))?, Pass::Serial)
    }

    fn wait(&self, _: Ticket) -> Result<(), GpuError> {
        Ok(())
    }

    fn is_done(&self, _: Ticket) -> Result<bool, GpuError> {
        Ok(true)
    }
}

fn memory(view: &View) -> Result<&Memory, GpuError> {
    view.buffer().raw().ok_or_else(|| foreign(view.buffer().label()))
}

fn foreign(label: &str) -> GpuError {
    GpuError::Device { call: label.to_owned(), what: "it was made by another device".to_owned() }
}

fn out_of_memory(bytes: usize, label: &str) -> GpuError {
    GpuError::OutOfMemory { bytes, label: label.to_owned(), detail: String::new() }
}
