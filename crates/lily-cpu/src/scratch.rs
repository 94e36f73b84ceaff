//! Small buffers that a thread keeps for itself, grown on first use.

use crate::activations::QuantRows;

/// One thread's buffers. Contents do not survive a task.
#[derive(Default)]
pub(crate) struct Scratch {
    buffers: [Vec<f32>; 8],
    gathered: Option<QuantRows>,
}

impl Scratch {
    /// `N` buffers of the given lengths, contents undefined.
    pub(crate) fn take<const N: usize>(&mut self, lengths: [usize; N]) -> [&mut [f32]; N] {
        let mut buffers = self.buffers.iter_mut();
        lengths.map(|length| grown(buffers.next(), length))
    }

    /// Copies of `rows` of `from`, one after the other, beside `N` buffers as from [`Scratch::take`].
    pub(crate) fn gather<const N: usize>(
        &mut self,
        from: &QuantRows,
        rows: &[u32],
        lengths: [usize; N],
    ) -> (&QuantRows, [&mut [f32]; N]) {
        let gathered = self.gathered.get_or_insert_with(|| from.like(rows.len()));
        gathered.copy_rows(from, rows);
        let mut buffers = self.buffers.iter_mut();
        (gathered, lengths.map(|length| grown(buffers.next(), length)))
    }
}

fn grown(buffer: Option<&mut Vec<f32>>, length: usize) -> &mut [f32] {
    let buffer = buffer.expect("a task takes no more buffers than there are");
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}
