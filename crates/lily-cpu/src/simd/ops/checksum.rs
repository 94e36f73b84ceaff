//! Reading memory as fast as it comes.

/// Adds up all words, wrapping. Sixty-four sums at a time: eight vectors of eight where vectors are widest.
#[inline(always)]
pub(in crate::simd) unsafe fn checksum(words: &[u64], sum: &mut u64) {
    let mut sums = [0u64; 64];
    let blocks = words.chunks_exact(64);
    let rest = blocks.remainder().iter();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block) {
            *sum = sum.wrapping_add(*word);
        }
    }
    *sum = sums.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word));
}
