//! A device without a machine: it holds nothing and runs nothing, but takes every plan. For counting launches, levels
//! and bytes, for listing the kernels that a plan needs, and for checking plans ([`crate::check`]), at any model size on
//! any machine.

use super::{Device, Limits, Pass, Program, Ticket};
use crate::{
    Buffer, GpuError, Kernel, Recording, View,
    check::{AppleGpu, Checker, Rules},
};
use lily_kernels::{
    MetalTier, Platform, Specialisation,
    metal_tier::{MetalMachine, TensorProbe},
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Takes every plan, runs none.
pub struct DryDevice {
    platform: Platform,
    architecture: String,
    tier: MetalTier,
    limits: Limits,
    operations: Option<u64>,
    /// What checks every recording that is run or prepared.
    checker: Option<Checker>,
    /// By key and entry point.
    kernels: Mutex<BTreeMap<String, (Specialisation, String)>>,
    allocated: AtomicU64,
    submitted: AtomicU64,
}

impl DryDevice {
    /// One that stands for a device of this platform.
    pub fn new(platform: Platform) -> Self {
        let architecture = if platform == Platform::Cuda { "sm_90a" } else { "" };
        let limits = Limits {
            memory: u64::MAX,
            buffer: u64::MAX,
            threadgroup_memory: 32 * 1024,
            threads: 1024,
            cores: 132,
        };
        Self::with(platform, architecture.to_owned(), limits)
    }

    /// One that stands for an Apple GPU, with a system that has everything for it.
    pub fn apple(gpu: AppleGpu) -> Self {
        let probe = TensorProbe::Passed;
        let machine = MetalMachine { apple_family: gpu.family.number(), macos: (26, 2), probe };
        let rules = Rules::apple(gpu);
        let dry = Self::with(Platform::Metal, gpu.family.to_string(), rules.limits);
        Self { tier: machine.choose().tier, operations: rules.operations, ..dry }
    }

    /// One that stands for a device that is there: plans for it are the same.
    pub fn like(device: &dyn Device) -> Self {
        let limits = Limits { memory: u64::MAX, ..device.limits() };
        let dry = Self::with(device.platform(), device.architecture().to_owned(), limits);
        Self { tier: device.metal_tier(), operations: device.launch_operations(), ..dry }
    }

    /// The same, checking every recording that it is given to run or to prepare.
    #[must_use]
    pub fn with_checker(mut self, checker: Checker) -> Self {
        self.checker = Some(checker);
        self
    }

    fn with(platform: Platform, architecture: String, limits: Limits) -> Self {
        Self {
            platform,
            architecture,
            tier: MetalTier::Simdgroup,
            limits,
            operations: None,
            checker: None,
            kernels: Mutex::default(),
            allocated: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
        }
    }

    /// Every kernel that was asked for, with its entry point.
    pub fn kernels(&self) -> Vec<(Specialisation, String)> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Bytes of all buffers that were asked for, also of those that are gone.
    pub fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    fn check(&self, recording: &Recording) -> Result<(), GpuError> {
        let faults =
            self.checker.as_ref().map(|checker| checker.check_recording(recording)).unwrap_or_default();
        if faults.is_empty() {
            return Ok(());
        }
        let faults = faults.iter().map(ToString::to_string).collect();
        Err(GpuError::Faults { label: "a recorded plan".to_owned(), faults })
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.submitted.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Device for DryDevice {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn describe(&self) -> String {
        format!("no device, plans for {} {}", self.platform.name(), self.architecture).trim_end().to_owned()
    }

    fn architecture(&self) -> &str {
        &self.architecture
    }

    fn metal_tier(&self) -> MetalTier {
        self.tier
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn launch_operations(&self) -> Option<u64> {
        self.operations
    }

    fn allocate(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        self.allocated.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Buffer::new(bytes, label, ()))
    }

    fn allocate_shared(&self, bytes: usize, label: &str) -> Result<Buffer, GpuError> {
        self.allocate(bytes, label)
    }

    fn upload(&self, to: &View, bytes: &[u8]) -> Result<(), GpuError> {
        to.slice(0, bytes.len());
        Ok(())
    }

    fn download(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        from.slice(0, out.len());
        Err(GpuError::Device {
            call: format!("reading {}", from.buffer().label()),
            what: "nothing was computed".to_owned(),
        })
    }

    fn peek(&self, from: &View, out: &mut [u8]) -> Result<(), GpuError> {
        self.download(from, out)
    }

    fn copy(&self, _: &View, _: &View) -> Result<(), GpuError> {
        Ok(())
    }

    fn zero(&self, _: &View) -> Result<(), GpuError> {
        Ok(())
    }

    fn compile(&self, specialisation: &Specialisation, entry: &str) -> Result<Kernel, GpuError> {
        let (key, signature) = (specialisation.key(), super::signature(specialisation, entry)?);
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        kernels.insert(format!("{key} {entry}"), (specialisation.clone(), entry.to_owned()));
        Ok(Kernel::new(key, signature, ()))
    }

    fn run(&self, recording: &Recording, _: Pass) -> Result<Ticket, GpuError> {
        self.check(recording)?;
        Ok(self.ticket())
    }

    fn prepare(&self, recording: &Recording, _: Pass) -> Result<Program, GpuError> {
        self.check(recording)?;
        Ok(Program::new(recording.clone()))
    }

    fn submit(&self, _: &Program) -> Result<Ticket, GpuError> {
        Ok(self.ticket())
    }

    fn wait(&self, _: Ticket) -> Result<(), GpuError> {
        Ok(())
    }

    fn is_done(&self, _: Ticket) -> Result<bool, GpuError> {
        Ok(true)
    }
}
