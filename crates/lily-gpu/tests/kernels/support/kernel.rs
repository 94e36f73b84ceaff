//! A kernel on the device that `LILY_TEST_DEVICE` names.

use super::{Buffer, Value, data};
use lily_gpu::{Device, GpuError, Pass, Recorder};
use lily_kernels::{Platform, Specialisation};
use std::sync::{Arc, OnceLock};

#[path = "../../device/mod.rs"]
mod device;

/// A kernel file with values for its constants.
pub(crate) struct Kernel(Specialisation);

/// One device for all tests.
fn device() -> &'static Arc<dyn Device> {
    static DEVICE: OnceLock<Arc<dyn Device>> = OnceLock::new();
    DEVICE
        .get_or_init(|| device::named().expect("LILY_TEST_DEVICE names the device that these tests are for"))
}

impl Kernel {
    pub(crate) fn new(file: &str, constants: &[(&str, i64)]) -> Self {
        let specialisation = Specialisation::named(file, constants).unwrap_or_else(|error| panic!("{error}"));
        let (file, platform) = (specialisation.file(), device().platform());
        let elsewhere = (file.cuda_only && platform == Platform::Metal)
            || (file.metal_only && platform == Platform::Cuda);
        assert!(!elsewhere, "{} is written for another platform: --skip this test", file.name);
        Self(specialisation)
    }

    /// Runs an entry point; every buffer and every parameter is given by its name.
    pub(crate) fn run(
        &self,
        entry: &str,
        groups: [usize; 3],
        buffers: &mut [(&str, &mut Buffer)],
        params: &[(&str, Value)],
    ) {
        self.try_run(entry, groups, buffers, params)
            .unwrap_or_else(|error| panic!("{} {entry}: {error}", self.0.key()));
    }

    fn try_run(
        &self,
        entry: &str,
        groups: [usize; 3],
        buffers: &mut [(&str, &mut Buffer)],
        params: &[(&str, Value)],
    ) -> Result<(), GpuError> {
        let device = &**device();
        let kernel = device.compile(&self.0, entry)?;
        let signature = kernel.signature().clone();
        let params = data::param_bytes(&signature, params);
        let bytes = data::in_order(&signature, buffers);
        data::check_grid(&signature, groups.map(|n| n as u32), &params, &bytes);
        let mut views = Vec::with_capacity(bytes.len());
        for (bytes, binding) in bytes.iter().zip(&signature.bindings) {
            let view = device.allocate(bytes.len(), &binding.name)?.whole();
            device.upload(&view, bytes)?;
            views.push(view);
        }
        let mut recorder = Recorder::new();
        let mut dispatch = recorder.dispatch(&kernel, groups.map(|n| n as u32)).label("test");
        for (binding, view) in signature.bindings.iter().zip(&views) {
            dispatch = dispatch.bind(&binding.name, view);
        }
        if !params.is_empty() {
            dispatch = dispatch.params(&params);
        }
        drop(dispatch);
        device.run(&recorder.finish()?, Pass::Serial)?;
        bytes.into_iter().zip(&views).try_for_each(|(bytes, view)| device.download(view, bytes))
    }
}
