//! A device without a machine: it holds nothing and runs nothing, but takes every plan. For counting launches, levels
//! and bytes, and for listing the kernels that a plan needs, at any model size on any machine.

use super::{Device, Limits, Pass, Program, Ticket};
use crate::{Buffer, GpuError, Kernel, Recording, View};
use lily_kernels::{Platform, Specialisation};
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
    /// By key and entry point.
    kernels: Mutex<BTreeMap<String, (Specialisation, String)>>,
    allocated: AtomicU64,
    submitted: AtomicU64,
}

impl DryDevice {
    /// One that stands for a device of this platform.
    pub fn new(platform: Platform) -> Self {
        Self {
            platform,
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

    fn ticket(&self) -> Ticket {
        Ticket(self.submitted.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Device for DryDevice {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn describe(&self) -> String {
        format!("no device, plans for {:?}", self.platform)
    }

    fn architecture(&self) -> &str {
        if self.platform == Platform::Cuda { "sm_90a" } else { "" }
    }

    fn limits(&self) -> Limits {
        Limits {
            memory: u64::MAX,
            buffer: u64::MAX,
            threadgroup_memory: 32 * 1024,
            threads: 1024,
            cores: 132,
        }
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

    fn run(&self, _: &Recording, _: Pass) -> Result<Ticket, GpuError> {
        Ok(self.ticket())
    }

    fn prepare(&self, recording: &Recording, _: Pass) -> Result<Program, GpuError> {
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
