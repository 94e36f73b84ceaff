//! How fast this machine reads memory: the floor of decode.

use crate::{
    CpuError, Tier,
    pool::{Chunks, Pool, default_threads},
    simd::Kernels,
};
use std::time::Instant;

/// Bytes read per thread and round: far more than any cache.
const BYTES: usize = 1 << 30;

/// Reads memory with `threads` threads (every core when not given), `rounds` times, and returns the GB/s of each
/// round. Takes 1 GiB per thread while it runs.
///
/// # Errors
/// When that memory cannot be had.
pub fn read_bandwidth(threads: Option<usize>, rounds: usize) -> Result<Vec<f64>, CpuError> {
    let mut pool = Pool::new(threads.unwrap_or_else(default_threads));
    let Some(kernels) = Kernels::for_tier(Tier::detect()) else { return Ok(Vec::new()) };
    let words = BYTES / 8 * pool.threads();
    let mut buffer: Vec<u64> = Vec::new();
    buffer
        .try_reserve_exact(words)
        .map_err(|error| CpuError::Dimensions(format!("no memory for the bandwidth probe: {error}")))?;
    buffer.resize(words, 1);
    // Small enough that threads end together, large enough that the hardware prefetcher settles.
    const CHUNK: usize = 1 << 17;
    let mut sums = vec![0; words.div_ceil(CHUNK)];
    let speeds = (0..rounds).map(|_| {
        let start = Instant::now();
        pool.for_each_part(Chunks::new(&mut sums, 1), |index, sum| {
            let chunk = &buffer[index * CHUNK..words.min((index + 1) * CHUNK)];
            sum[0] = kernels.checksum(chunk);
        });
        (words * 8) as f64 / start.elapsed().as_secs_f64() / 1e9
    });
    Ok(speeds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_every_word() {
        for tier in Tier::available() {
            let kernels = Kernels::for_tier(tier).expect("an available tier");
            for len in [0, 1, 63, 64, 65, 1000] {
                let words: Vec<u64> = (0..len).map(|i| i * i).collect();
                assert_eq!(kernels.checksum(&words), words.iter().sum::<u64>(), "{tier} {len}");
            }
        }
    }
}
