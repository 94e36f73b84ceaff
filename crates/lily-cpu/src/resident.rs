//! Weights in memory of this process: aligned, in large pages, each matrix one behind the other.
//!
//! Decoding reads every weight once per token, so it is as fast as memory is read. From a mapped file that is pages of
//! 4 KiB at whatever alignment the file has: the hardware's prefetch ends at each page, and many loads touch two cache
//! lines.

use crate::{CpuError, WeightMemory, bandwidth::available_memory, linear::Linear, model::Model};
use lily_checkpoint::Bytes;
use memmap2::MmapMut;
use std::sync::Mutex;

/// A cache line, and the widest vector.
const ALIGNMENT: usize = 64;
/// The least that a thread takes at a time.
const BLOCK: usize = 32 << 20;

/// Moves the weights to where they are wanted.
///
/// # Errors
/// [`CpuError::Memory`]: no memory, or a file that cannot be read.
pub(crate) fn place(model: &mut Model, wanted: WeightMemory, threads: usize) -> Result<(), CpuError> {
    if wanted == WeightMemory::Mapped {
        return Ok(());
    }
    let bytes: usize = model.linears_mut().map(|linear| linear.bytes()).sum();
    if let Some(free) = available_memory()
        && bytes > free
    {
        let hint = "hint: leave them mapped";
        return Err(CpuError::Memory(format!(
            "{bytes} bytes of weights, {free} bytes of free memory\n{hint}"
        )));
    }
    move_together(model.linears_mut().flat_map(Linear::parts_mut).collect(), threads)
        .map_err(CpuError::Memory)
}

/// Copies all parts into one region and makes them shares of it.
fn move_together(parts: Vec<&mut Bytes>, threads: usize) -> Result<(), String> {
    let padded = |part: &Bytes| part.len().next_multiple_of(ALIGNMENT);
    let total: usize = parts.iter().map(|part| padded(part)).sum();
    if total == 0 {
        return Ok(());
    }
    let no_memory =
        |error| format!("no memory for {total} bytes of weights: {error}\nhint: leave them mapped");
    let mut region = MmapMut::map_anon(total).map_err(no_memory)?;
    // Only advice: without large pages it is as right, and slower.
    #[cfg(target_os = "linux")]
    if let Err(error) = region.advise(memmap2::Advice::HugePage) {
        tracing::debug!(%error, "no large pages for the weights");
    }
    let mut rest = &mut region[..];
    let mut jobs: Vec<Vec<(&Bytes, &mut [u8])>> = vec![Vec::new()];
    let mut in_last = 0;
    for part in &parts {
        let (place, after) = rest.split_at_mut(padded(part));
        rest = after;
        if in_last >= BLOCK {
            jobs.push(Vec::new());
            in_last = 0;
        }
        in_last += place.len();
        if let Some(last) = jobs.last_mut() {
            last.push((part, &mut place[..part.len()]));
        }
    }
    let (jobs, failed) = (Mutex::new(jobs.into_iter()), Mutex::new(None));
    let work = || {
        loop {
            let job = jobs.lock().ok().and_then(|mut jobs| jobs.next());
            let Some(job) = job else { return };
            for (part, place) in job {
                if let Err(error) = part.copy_to(place)
                    && let Ok(mut failed) = failed.lock()
                {
                    *failed = Some(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if let Ok(Some(error)) = failed.into_inner() {
        return Err(format!("a weight file cannot be read: {error}"));
    }
    let region = Bytes::new(region.make_read_only().map_err(no_memory)?);
    let mut start = 0;
    for part in parts {
        let length = part.len();
        let end = start + length.next_multiple_of(ALIGNMENT);
        *part = region.slice(start..start + length);
        start = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ALIGNMENT, move_together};
    use lily_checkpoint::Bytes;

    #[test]
    fn parts_keep_their_bytes_and_are_aligned() {
        for threads in [1, 3] {
            let all = Bytes::new((0..1000u32).map(|i| (i % 251) as u8).collect::<Vec<_>>());
            let wanted: Vec<Bytes> =
                [0..0, 1..2, 2..66, 66..130, 130..195, 195..1000].map(|range| all.slice(range)).to_vec();
            let mut parts = wanted.clone();
            move_together(parts.iter_mut().collect(), threads).expect("memory");
            for (part, wanted) in parts.iter().zip(&wanted) {
                assert_eq!(part[..], wanted[..]);
                assert_eq!(part.as_ptr().addr() % ALIGNMENT, 0);
            }
            assert!(parts.iter().zip(&wanted).all(|(part, wanted)| part.as_ptr() != wanted.as_ptr()));
        }
        move_together(Vec::new(), 2).expect("nothing to do");
    }
}
