//! Small buffers that a thread keeps for itself, grown on first use.

/// One thread's buffers. Contents do not survive a task.
#[derive(Default)]
pub(crate) struct Scratch {
    buffers: [Vec<f32>; 8],
}

impl Scratch {
    /// `N` buffers of the given lengths, contents undefined.
    pub(crate) fn take<const N: usize>(&mut self, lengths: [usize; N]) -> [&mut [f32]; N] {
        let mut buffers = self.buffers.iter_mut();
        lengths.map(|length| {
            let buffer = buffers.next().expect("more buffers than a task may take");
            if buffer.len() < length {
                buffer.resize(length, 0.0);
            }
            &mut buffer[..length]
        })
    }
}
