//! What a compute encoder is told for a run of dispatches: nothing twice, and a barrier where the level changes.

use crate::{Buffer, Dispatch, GpuError, Kernel, device::Pass};
use std::collections::HashMap;

/// Buffer slots of a kernel.
const SLOTS: u32 = 31;
/// The most bytes that can be passed without a buffer.
const MOST_BYTES: usize = 4096;

/// A compute encoder.
pub(super) trait Encoder {
    /// The kernel of the dispatches from here on.
    fn kernel(&mut self, kernel: &Kernel) -> Result<(), GpuError>;

    /// A buffer for a slot, from an offset on.
    fn buffer(&mut self, slot: u32, buffer: &Buffer, offset: usize) -> Result<(), GpuError>;

    /// Another offset into the buffer of a slot.
    fn offset(&mut self, slot: u32, offset: usize);

    /// Bytes for a slot, copied.
    fn bytes(&mut self, slot: u32, bytes: &[u8]);

    /// What comes later sees what was written before, and overwrites nothing that is still read.
    fn barrier(&mut self);

    /// Starts threadgroups.
    fn dispatch(&mut self, groups: [u32; 3], threads: u32);
}

/// What a slot holds.
#[derive(PartialEq, Eq)]
enum Slot<'a> {
    Buffer(u64, usize),
    Bytes(&'a [u8]),
}

/// Tells an encoder a run of dispatches, in the order of their levels. Slots keep what they hold from one dispatch to the
/// next, also when the kernel changes.
pub(super) fn encode(
    dispatches: &[Dispatch],
    pass: Pass,
    encoder: &mut impl Encoder,
) -> Result<(), GpuError> {
    let mut kernel: Option<(&str, &str)> = None;
    let mut slots: HashMap<u32, Slot<'_>> = HashMap::with_capacity(SLOTS as usize);
    let mut level = dispatches.first().map_or(0, |first| first.level);
    for (at, dispatch) in dispatches.iter().enumerate() {
        if (dispatch.level != level || pass == Pass::Serial) && at > 0 {
            encoder.barrier();
        }
        level = dispatch.level;
        let name = (dispatch.kernel.key(), dispatch.kernel.entry());
        if kernel != Some(name) {
            encoder.kernel(&dispatch.kernel)?;
            kernel = Some(name);
        }
        for bound in &dispatch.bindings {
            let (buffer, offset) = (bound.view.buffer(), bound.view.offset());
            within(dispatch, bound.index < SLOTS, || format!("slot {} of {SLOTS}", bound.index))?;
            let slot = Slot::Buffer(buffer.id(), offset);
            match slots.get(&bound.index) {
                Some(held) if *held == slot => continue,
                Some(Slot::Buffer(id, _)) if *id == buffer.id() => encoder.offset(bound.index, offset),
                _ => encoder.buffer(bound.index, buffer, offset)?,
            }
            slots.insert(bound.index, slot);
        }
        if let Some(params) = &dispatch.kernel.signature().params {
            let bytes = dispatch.params.as_slice();
            within(dispatch, params.index < SLOTS, || format!("slot {} of {SLOTS}", params.index))?;
            within(dispatch, bytes.len() <= MOST_BYTES, || {
                format!("{} bytes of parameters, {MOST_BYTES} at most", bytes.len())
            })?;
            if slots.get(&params.index) != Some(&Slot::Bytes(bytes)) {
                encoder.bytes(params.index, bytes);
                slots.insert(params.index, Slot::Bytes(bytes));
            }
        }
        encoder.dispatch(dispatch.groups, dispatch.kernel.signature().threads);
    }
    Ok(())
}

fn within(dispatch: &Dispatch, fine: bool, what: impl FnOnce() -> String) -> Result<(), GpuError> {
    if fine {
        return Ok(());
    }
    Err(GpuError::Kernel {
        kernel: format!("{} ({})", dispatch.kernel.entry(), dispatch.label),
        what: what(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, Recorder, Recording, device::DryDevice};
    use lily_kernels::{Platform, Specialisation};

    /// What each slot holds: a buffer from an offset on, or bytes.
    type Slots = HashMap<u32, (Option<(u64, usize)>, Vec<u8>)>;

    /// What a GPU would see: the slots at each dispatch, with the calls that it took.
    #[derive(Default)]
    struct Machine {
        kernel: String,
        slots: Slots,
        launches: Vec<Launch>,
        calls: usize,
        barriers: Vec<usize>,
    }

    struct Launch {
        entry: String,
        slots: Slots,
        groups: [u32; 3],
        threads: u32,
    }

    impl Encoder for Machine {
        fn kernel(&mut self, kernel: &Kernel) -> Result<(), GpuError> {
            self.calls += 1;
            kernel.entry().clone_into(&mut self.kernel);
            Ok(())
        }

        fn buffer(&mut self, slot: u32, buffer: &Buffer, offset: usize) -> Result<(), GpuError> {
            self.calls += 1;
            self.slots.insert(slot, (Some((buffer.id(), offset)), Vec::new()));
            Ok(())
        }

        fn offset(&mut self, slot: u32, offset: usize) {
            self.calls += 1;
            let (held, _) = self.slots.get_mut(&slot).expect("Metal wants a buffer in the slot first");
            held.as_mut().expect("Metal wants a buffer in the slot first").1 = offset;
        }

        fn bytes(&mut self, slot: u32, bytes: &[u8]) {
            self.calls += 1;
            self.slots.insert(slot, (None, bytes.to_vec()));
        }

        fn barrier(&mut self) {
            self.barriers.push(self.launches.len());
        }

        fn dispatch(&mut self, groups: [u32; 3], threads: u32) {
            let (entry, slots) = (self.kernel.clone(), self.slots.clone());
            self.launches.push(Launch { entry, slots, groups, threads });
        }
    }

    /// A chain of products with a second, independent chain beside it.
    fn recording() -> Recording {
        let device = DryDevice::new(Platform::Metal);
        let gemv = Specialisation::named("gemv", &[("K", 64)]).expect("complete");
        let (plain, add) = (
            device.compile(&gemv, "gemv").expect("an entry"),
            device.compile(&gemv, "gemv_add").expect("an entry"),
        );
        let weights = device.allocate(1 << 16, "weights").expect("room");
        let x = device.allocate(1 << 12, "x").expect("room");
        let mut recorder = Recorder::new();
        for (at, rows) in [64_u32, 64, 32, 64].into_iter().enumerate() {
            for chain in 0..2 {
                let view = |at: usize| x.view(256 * (2 * at + chain), 256);
                let dispatch = recorder.dispatch(if at == 2 { &add } else { &plain }, [rows / 16, 1, 1]);
                let dispatch = dispatch
                    .bind("w", &weights.view(512 * at, 512))
                    .bind("scales", &weights.view(1 << 14, 512))
                    .bind("biases", &weights.view(1 << 15, 512))
                    .bind("x", &view(at))
                    .bind("y", &view(at + 1))
                    .param("rows", rows)
                    .param("stride", 0_u32);
                if at == 2 {
                    dispatch.bind("next", &weights.view(0, 4)).param("ahead", 0_u32).param("groups", 1_u32);
                }
            }
        }
        recorder.finish().expect("complete")
    }

    #[test]
    fn a_gpu_sees_what_was_recorded() {
        let recording = recording();
        for pass in [Pass::Concurrent, Pass::Early, Pass::Serial] {
            let mut machine = Machine::default();
            encode(recording.dispatches(), pass, &mut machine).expect("fits");
            assert_eq!(machine.launches.len(), recording.dispatches().len());
            for (launch, dispatch) in machine.launches.iter().zip(recording.dispatches()) {
                assert_eq!(launch.entry, dispatch.kernel.entry());
                assert_eq!(
                    (launch.groups, launch.threads),
                    (dispatch.groups, dispatch.kernel.signature().threads)
                );
                for bound in &dispatch.bindings {
                    let wanted = (bound.view.buffer().id(), bound.view.offset());
                    assert_eq!(launch.slots[&bound.index].0, Some(wanted), "{}", dispatch.kernel.entry());
                }
                let params = dispatch.kernel.signature().params.as_ref().expect("parameters");
                assert_eq!(launch.slots[&params.index], (None, dispatch.params.clone()));
            }
        }
    }

    #[test]
    fn a_barrier_where_the_level_changes_and_nowhere_else() {
        let recording = recording();
        assert_eq!(recording.levels(), 4);
        let barriers = |pass: Pass| {
            let mut machine = Machine::default();
            encode(recording.dispatches(), pass, &mut machine).expect("fits");
            machine.barriers
        };
        assert_eq!(barriers(Pass::Concurrent), [2, 4, 6], "two dispatches per level");
        assert_eq!(barriers(Pass::Serial), [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn nothing_is_said_twice() {
        let recording = recording();
        let mut machine = Machine::default();
        encode(recording.dispatches(), Pass::Concurrent, &mut machine).expect("fits");
        // Each of the two chains moves x and y, and each step w; two kernels and back, five slots at first.
        let said: usize = recording.dispatches().iter().map(|dispatch| dispatch.bindings.len() + 2).sum();
        assert!(machine.calls < said * 2 / 3, "{} calls of {said}", machine.calls);
    }
}
