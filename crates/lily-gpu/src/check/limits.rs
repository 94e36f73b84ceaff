//! What a launch asks of its target.

use super::{AppleFamily, AppleGpu, Fault, FaultKind};
use crate::{Device, Dispatch, Limits};
use lily_kernels::Platform;

/// What a target allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whose kernels.
    pub platform: Platform,
    /// Threads, threadgroup memory and buffer length.
    pub limits: Limits,
    /// Places for buffers and parameters of a kernel.
    pub arguments: u32,
    /// Bytes of parameters that travel with a launch.
    pub parameters: usize,
    /// Floating-point operations of a launch, where there is a bound.
    pub operations: Option<u64>,
}

impl Rules {
    /// Of an Apple GPU: the limits of its family.
    pub fn apple(gpu: AppleGpu) -> Self {
        let family = gpu.family;
        Self {
            platform: Platform::Metal,
            limits: Limits {
                memory: gpu.working_set,
                buffer: gpu.buffer,
                threadgroup_memory: family.threadgroup_memory(),
                threads: family.threads(),
                cores: gpu.cores,
            },
            arguments: family.arguments(),
            parameters: family.parameters(),
            operations: Some(AppleFamily::launch_operations(gpu.cores)),
        }
    }

    /// Of a device: what it says of itself; a kernel's parameters are at most 4 KiB on all of them.
    pub fn of(device: &dyn Device) -> Self {
        let platform = device.platform();
        let arguments = if platform == Platform::Metal { 31 } else { u32::MAX };
        let operations = device.launch_operations();
        Self { platform, limits: device.limits(), arguments, parameters: 4096, operations }
    }
}

pub(super) fn check(dispatch: &Dispatch, rules: &Rules, faults: &mut Vec<Fault>) {
    let signature = dispatch.kernel.signature();
    let mut fault = |kind, what: String| {
        faults.push(Fault { kind, what: format!("{} ({}): {what}", dispatch.name(), signature.entry) });
    };
    let limits = &rules.limits;
    if signature.threads == 0 || signature.threads > limits.threads || !signature.threads.is_multiple_of(32) {
        let what = format!("{} threads in a threadgroup, at most {}", signature.threads, limits.threads);
        fault(FaultKind::Threads, what);
    }
    if dispatch.groups.contains(&0) {
        fault(FaultKind::Threads, format!("a grid of {:?} threadgroups", dispatch.groups));
    }
    let file = dispatch.kernel.key().split('[').next().and_then(lily_kernels::find);
    if rules.platform == Platform::Metal {
        match signature.threadgroup_memory {
            Some(bytes) if bytes <= limits.threadgroup_memory => {}
            Some(bytes) => {
                let what =
                    format!("{bytes} bytes of threadgroup memory, at most {}", limits.threadgroup_memory);
                fault(FaultKind::ThreadgroupMemory, what);
            }
            None => fault(
                FaultKind::ThreadgroupMemory,
                "its text does not say how much threadgroup memory it takes".to_owned(),
            ),
        }
    }
    // The emulator runs overrides of either language.
    let written_for = file.and_then(|file| match (file.cuda_only, file.metal_only) {
        (true, _) => Some(Platform::Cuda),
        (_, true) => Some(Platform::Metal),
        _ => None,
    });
    let foreign =
        written_for.filter(|&other| other != rules.platform && rules.platform != Platform::Emulator);
    if file.is_none() || foreign.is_some() {
        let language = foreign.map_or("nothing known", Platform::name);
        fault(FaultKind::Foreign, format!("{} is written for {language}", dispatch.kernel.key()));
    }
    if rules.operations.is_some_and(|most| dispatch.operations > most) {
        let what = format!("{} operations, at most {}", dispatch.operations, rules.operations.unwrap_or(0));
        fault(FaultKind::Operations, what);
    }
    if dispatch.params.len() > rules.parameters {
        let what = format!("{} bytes of parameters, at most {}", dispatch.params.len(), rules.parameters);
        fault(FaultKind::Parameters, what);
    }
    let params = signature.params.as_ref();
    if params.map_or(0, |params| params.size) != dispatch.params.len() {
        fault(FaultKind::Parameters, format!("{} bytes of parameters, not its own", dispatch.params.len()));
    }
    let highest =
        dispatch.bindings.iter().map(|bound| bound.index).chain(params.map(|params| params.index)).max();
    if highest.is_some_and(|highest| highest >= rules.arguments) {
        let what = format!("an argument at {}, of {} places", highest.unwrap_or(0), rules.arguments);
        fault(FaultKind::Arguments, what);
    }
    for bound in &dispatch.bindings {
        let buffer = bound.view.buffer();
        if buffer.bytes() as u64 > limits.buffer {
            let what = format!("{buffer:?}, at most {} bytes are allowed", limits.buffer);
            fault(FaultKind::BufferLength, what);
        }
    }
}
