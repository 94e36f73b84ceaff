//! Whether a device's tensor operations compute what they are described to: small products of whole numbers, run once.

use super::{Device, Pass};
use crate::{GpuError, Recorder};
use lily_kernels::{
    Specialisation,
    metal_tier::{PROBE_RESULTS, TensorProbe, probe_operands, probe_verdict},
};

/// Runs the test; what keeps it from running is a failure too.
pub(crate) fn probe(device: &dyn Device) -> TensorProbe {
    match results(device) {
        Ok(found) => probe_verdict(&found),
        Err(error) => TensorProbe::Failed(error.to_string()),
    }
}

fn results(device: &dyn Device) -> Result<Vec<f32>, GpuError> {
    let unknown = |error: lily_kernels::KernelError| GpuError::Kernel {
        kernel: "tensor_probe".to_owned(),
        what: error.to_string(),
    };
    let kernel =
        device.compile(&Specialisation::named("tensor_probe", &[]).map_err(unknown)?, "tensor_probe")?;
    let (a, b) = probe_operands();
    let label = "a test of tensor operations";
    let [left, right] = [&a, &b].map(|bytes| device.allocate(bytes.len(), label));
    let (left, right) = (left?.whole(), right?.whole());
    let result = device.allocate(4 * PROBE_RESULTS, label)?.whole();
    device.upload(&left, &a)?;
    device.upload(&right, &b)?;
    let mut recorder = Recorder::new();
    recorder
        .dispatch(&kernel, [1, 1, 1])
        .bind("a", &left)
        .bind("b", &right)
        .bind("y", &result)
        .label("tensor.probe");
    let ticket = device.run(&recorder.finish()?, Pass::Serial)?;
    device.wait(ticket)?;
    let mut bytes = vec![0; 4 * PROBE_RESULTS];
    device.download(&result, &mut bytes)?;
    Ok(bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

#[cfg(test)]
mod tests {
    use super::probe;
    use crate::device::DryDevice;
    use lily_kernels::{Platform, metal_tier::TensorProbe};

    #[test]
    fn what_computes_nothing_does_not_pass() {
        let TensorProbe::Failed(why) = probe(&DryDevice::new(Platform::Metal)) else {
            panic!("nothing was computed")
        };
        assert!(why.contains("nothing was computed"), "{why}");
    }

    #[cfg(feature = "emulator")]
    #[test]
    fn the_emulator_passes() {
        let device = crate::device::EmulatorDevice::tensor(lily_kernels::emulator::Checks::Full);
        assert_eq!(probe(&device), TensorProbe::Passed);
    }
}
