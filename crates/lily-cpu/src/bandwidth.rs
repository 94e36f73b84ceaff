//! How fast this machine reads memory: the floor of decode.

use crate::{
    CpuError, Tier,
    pool::{Chunks, Pool, default_threads},
    simd::Kernels,
};
use std::time::Instant;

/// Bytes read per thread and round where there is room: far more than any cache.
const BYTES: usize = 1 << 30;
/// Less than this per thread would measure a cache.
const LEAST_BYTES: usize = 64 << 20;
/// The share of the free memory that a measurement takes at most, since the model is in memory as well.
const SHARE: usize = 4;

/// Reads memory with `threads` threads (every core when not given), `rounds` times, and returns the GB/s of each
/// round. Takes 1 GiB per thread while it runs, and no more than a quarter of the memory that is free; where the system
/// does not tell how much that is, 64 MiB per thread.
///
/// # Errors
/// When that memory cannot be had, or less than 64 MiB per thread would be left.
pub fn read_bandwidth(threads: Option<usize>, rounds: usize) -> Result<Vec<f64>, CpuError> {
    let mut pool = Pool::new(threads.unwrap_or_else(default_threads));
    let Some(kernels) = Kernels::for_tier(Tier::detect()) else { return Ok(Vec::new()) };
    let words = bytes_per_thread(available_memory(), pool.threads())? / 8 * pool.threads();
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

/// What each thread reads.
fn bytes_per_thread(available: Option<usize>, threads: usize) -> Result<usize, CpuError> {
    let Some(available) = available else { return Ok(LEAST_BYTES) };
    let bytes = BYTES.min(available / SHARE / threads.max(1));
    if bytes < LEAST_BYTES {
        return Err(CpuError::Dimensions(format!(
            "no memory for the bandwidth probe: {} MiB are free, {} needed",
            available >> 20,
            (LEAST_BYTES * SHARE * threads.max(1)) >> 20
        )));
    }
    Ok(bytes)
}

/// Bytes that can be had without pushing anything out: of the machine, and of the control group that this process is in.
/// Only Linux tells.
pub(crate) fn available_memory() -> Option<usize> {
    let machine = free_memory(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let number = |name: &str| -> Option<usize> {
        std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
    };
    // `memory.max` is the word `max` where there is no limit.
    let group =
        number("memory.max").zip(number("memory.current")).map(|(most, used)| most.saturating_sub(used));
    Some(group.map_or(machine, |group| machine.min(group)))
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn free_memory(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_leaves_most_of_the_memory_to_others() {
        let bytes = |available, threads| bytes_per_thread(available, threads).ok();
        assert_eq!(bytes(Some(64 << 30), 8), Some(1 << 30));
        assert_eq!(bytes(Some(16 << 30), 16), Some(256 << 20));
        assert_eq!(bytes(Some(8 << 30), 192), None);
        assert_eq!(bytes(None, 192), Some(64 << 20));
        let meminfo = "MemTotal:       24000000 kB\nMemAvailable:   12000000 kB\n";
        assert_eq!(free_memory(meminfo), Some(12_000_000 * 1024));
        assert_eq!(free_memory("MemTotal: 1 kB"), None);
    }

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
