//! One dispatch as the driver takes it.

use super::{driver::check, function::Function, memory::Memory};
use crate::{Dispatch, GpuError, Recording, device::pending::Pending};
use cudarc::driver::sys;
use std::{ffi::c_void, ptr};

/// A dispatch with its addresses looked up.
pub(super) struct Launch {
    pub(super) function: Function,
    groups: [u32; 3],
    threads: u32,
    /// One word per buffer argument, then the parameter block.
    addresses: Vec<u64>,
    params: Vec<u8>,
    /// Where the parameter block stands among the arguments.
    params_at: Option<usize>,
    /// May start before the launch ahead has ended.
    early: bool,
    label: String,
}

impl Launch {
    /// Looks up what a dispatch names; waits for its kernel to be compiled.
    pub(super) fn new(dispatch: &Dispatch) -> Result<Self, GpuError> {
        let foreign = || GpuError::Device {
            call: dispatch.label.to_string(),
            what: "it was made by another device".to_owned(),
        };
        let function = dispatch.kernel.raw::<Pending<Function>>().ok_or_else(foreign)?.wait()?;
        let mut bindings: Vec<_> = dispatch.bindings.iter().collect();
        bindings.sort_by_key(|bound| bound.index);
        let mut addresses = Vec::with_capacity(bindings.len());
        for bound in &bindings {
            let memory = bound.view.buffer().raw::<Memory>().ok_or_else(foreign)?;
            addresses.push(memory.address + bound.view.offset() as u64);
        }
        let signature = dispatch.kernel.signature();
        let params_at = signature
            .params
            .as_ref()
            .map(|params| bindings.iter().filter(|bound| bound.index < params.index).count());
        Ok(Self {
            groups: dispatch.groups,
            threads: signature.threads,
            addresses,
            params: dispatch.params.clone(),
            params_at,
            early: function.waits && dispatch.early,
            function,
            label: format!("{} ({})", dispatch.label, dispatch.kernel.entry()),
        })
    }

    /// All dispatches of a recording.
    pub(super) fn all(recording: &Recording) -> Result<Vec<Self>, GpuError> {
        recording.dispatches().iter().map(Self::new).collect()
    }

    /// Pointers to the arguments, in the order of the kernel's. Valid while `self` is neither moved from nor changed.
    fn arguments(&self) -> Vec<*mut c_void> {
        let mut pointers: Vec<*mut c_void> =
            self.addresses.iter().map(|address| ptr::from_ref(address).cast_mut().cast()).collect();
        if let Some(at) = self.params_at {
            pointers.insert(at, self.params.as_ptr().cast_mut().cast());
        }
        pointers
    }

    /// Puts the launch on a stream. With `early`, it may start before the launch before it has ended, if it waits for that
    /// by itself.
    pub(super) fn on(&self, stream: sys::CUstream, early: bool) -> Result<(), GpuError> {
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let early = early && self.early;
        let config = sys::CUlaunchConfig {
            gridDimX: self.groups[0],
            gridDimY: self.groups[1],
            gridDimZ: self.groups[2],
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.function.shared,
            hStream: stream,
            attrs: if early { &mut attribute } else { ptr::null_mut() },
            numAttrs: u32::from(early),
        };
        let mut arguments = self.arguments();
        // SAFETY: the function is loaded; the arguments are as many and of the sizes that its signature, parsed from
        // its own text, has; the addresses are of buffers that the recording holds; the driver copies all of it before
        // it returns.
        let answer = unsafe {
            sys::cuLaunchKernelEx(&config, self.function.handle, arguments.as_mut_ptr(), ptr::null_mut())
        };
        check(&format!("launch of {}", self.label), answer)
    }

    /// Adds the launch to a graph behind `after`.
    pub(super) fn add_to(
        &self,
        graph: sys::CUgraph,
        after: &[sys::CUgraphNode],
    ) -> Result<sys::CUgraphNode, GpuError> {
        let mut arguments = self.arguments();
        let params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.function.handle,
            gridDimX: self.groups[0],
            gridDimY: self.groups[1],
            gridDimZ: self.groups[2],
            blockDimX: self.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: self.function.shared,
            kernelParams: arguments.as_mut_ptr(),
            extra: ptr::null_mut(),
            kern: ptr::null_mut(),
            ctx: ptr::null_mut(),
        };
        let mut node = ptr::null_mut();
        // SAFETY: as in `on`; the nodes are of the same graph.
        let answer =
            unsafe { sys::cuGraphAddKernelNode_v2(&mut node, graph, after.as_ptr(), after.len(), &params) };
        check(&format!("graph node of {}", self.label), answer)?;
        Ok(node)
    }
}
