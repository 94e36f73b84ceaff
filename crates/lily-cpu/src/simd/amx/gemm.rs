//! Packed rows times many 8-bit vectors, with tiles.
//!
//! Weights are unpacked as for `vpdpbusd` (`avx512/gemm.rs`): sixteen rows of four columns are just the lines of a
//! tile. One unit of columns is one tile deep, since after each unit the integer sums must meet their scales: tiles
//! of sums go through memory, double-buffered, so that vectors scale one unit while tiles multiply the next.

use crate::{
    activations::QuantMatrix,
    linear::AffineView,
    simd::{
        GEMM_ROWS,
        avx512::{STRIP, Strip},
    },
};
use core::arch::{asm, x86_64::*};
use std::ops::Range;

/// Vectors at a time: two tiles.
const BLOCK: usize = 32;

/// Integer sums of a block, `[BLOCK][GEMM_ROWS]`.
#[repr(C, align(64))]
struct Sums([i32; BLOCK * GEMM_ROWS]);

/// The tile shapes, as `ldtilecfg` reads them.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    bytes_per_row: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    /// Tiles 0 to 3: sums of the first and second sixteen vectors, by first and second sixteen rows. 4 and 5: the
    /// vectors. 6 and 7: the weights.
    fn new(vectors: usize, unit: usize) -> Self {
        let (first, second) = (vectors.min(16), vectors.saturating_sub(16));
        let tiles = [first, first, second, second, first, second, unit / 4, unit / 4];
        let widths = [64, 64, 64, 64, unit, unit, 64, 64];
        let mut config =
            Self { palette: 1, start_row: 0, reserved: [0; 14], bytes_per_row: [0; 16], rows: [0; 16] };
        for (tile, (&rows, width)) in tiles.iter().zip(widths).enumerate() {
            if rows > 0 {
                config.rows[tile] = rows as u8;
                config.bytes_per_row[tile] = width as u16;
            }
        }
        config
    }
}

/// # Safety
/// As [`crate::simd::Simd::gemm_i8`]; AMX is available.
#[inline(always)]
pub(super) unsafe fn gemm<const UNIT: usize>(
    w: &AffineView<'_>,
    block: (usize, usize),
    x: &QuantMatrix<'_>,
    rows: Range<usize>,
    out: &mut [f32],
) {
    let mut strip = Strip::new();
    let mut configured = 0;
    for begin in (0..w.cols).step_by(STRIP) {
        let end = w.cols.min(begin + STRIP);
        // SAFETY: the same contract; tiles are configured before they are used and released at the end.
        unsafe {
            strip.unpack::<UNIT>(w, block, begin, end);
            for (index, out) in out.chunks_mut(BLOCK * GEMM_ROWS).enumerate() {
                let first = rows.start + index * BLOCK;
                let count = (rows.end - first).min(BLOCK);
                if configured != count {
                    let config = TileConfig::new(count, UNIT);
                    asm!("ldtilecfg [{}]", in(reg) &config, options(nostack, readonly, preserves_flags));
                    configured = count;
                }
                vectors::<UNIT>(&strip, x, (first, count), begin..end, out);
            }
        }
    }
    // SAFETY: AMX is available.
    unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
}

/// `count` vectors from `first` on against a strip; sums go on from what `out` holds, unless the strip is the first.
///
/// # Safety
/// AMX configured for `count` and `UNIT`; vectors and columns inside `x`, `count * GEMM_ROWS` outputs.
#[inline(always)]
unsafe fn vectors<const UNIT: usize>(
    strip: &Strip,
    x: &QuantMatrix<'_>,
    (first, count): (usize, usize),
    columns: Range<usize>,
    out: &mut [f32],
) {
    let units = columns.len() / UNIT;
    let mut sums = [const { Sums([0; BLOCK * GEMM_ROWS]) }; 2];
    // SAFETY: the same contract.
    unsafe {
        let codes = x.codes.as_ptr().add(first * x.code_stride + columns.start);
        let unit_start = first * x.unit_stride + columns.start / UNIT;
        let (scales, unit_sums) = (x.scales.as_ptr().add(unit_start), x.sums.as_ptr().add(unit_start));
        if columns.start == 0 {
            out.fill(0.0);
        }
        let out = out.as_mut_ptr();
        multiply::<UNIT>(strip, codes, x.code_stride, count, 0, &mut sums[0]);
        for unit in 0..units {
            if unit + 1 < units {
                multiply::<UNIT>(strip, codes, x.code_stride, count, unit + 1, &mut sums[(unit + 1) % 2]);
            }
            let at = unit * GEMM_ROWS;
            let (weight_scale, weight_bias) = (strip.scales.as_ptr().add(at), strip.biases.as_ptr().add(at));
            let weight_scale = [_mm512_load_ps(weight_scale), _mm512_load_ps(weight_scale.add(16))];
            let weight_bias = [_mm512_load_ps(weight_bias), _mm512_load_ps(weight_bias.add(16))];
            let dots = sums[unit % 2].0.as_ptr();
            for vector in 0..count {
                let scale = _mm512_set1_ps(*scales.add(vector * x.unit_stride + unit));
                let sum = _mm512_set1_ps(*unit_sums.add(vector * x.unit_stride + unit));
                for half in 0..2 {
                    let at = vector * GEMM_ROWS + half * 16;
                    let dot = _mm512_cvtepi32_ps(_mm512_load_si512(dots.add(at).cast()));
                    let total = _mm512_loadu_ps(out.add(at));
                    let total = _mm512_fmadd_ps(weight_bias[half], sum, total);
                    let total = _mm512_fmadd_ps(_mm512_mul_ps(dot, scale), weight_scale[half], total);
                    _mm512_storeu_ps(out.add(at), total);
                }
            }
        }
    }
}

/// Integer sums of one unit of columns.
///
/// # Safety
/// AMX configured for `count` and `UNIT`; `count` vectors of `stride` bytes at `codes`, `unit` inside the strip.
#[inline(always)]
unsafe fn multiply<const UNIT: usize>(
    strip: &Strip,
    codes: *const i8,
    stride: usize,
    count: usize,
    unit: usize,
    sums: &mut Sums,
) {
    // SAFETY: tiles read and write `count` lines of the vectors and the sums, and the unit's lines of the strip.
    unsafe {
        let weights = strip.codes.as_ptr().add(unit * UNIT * GEMM_ROWS);
        let vectors = codes.add(unit * UNIT);
        if count > 16 {
            asm!(
                "tilezero tmm0",
                "tileloadd tmm6, [{w} + {ws}]",
                "tileloadd tmm4, [{x} + {xs}]",
                "tilezero tmm1",
                "tdpbsud tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws} + 64]",
                "tilezero tmm2",
                "tdpbsud tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{y} + {xs}]",
                "tilezero tmm3",
                "tdpbsud tmm2, tmm5, tmm6",
                "tdpbsud tmm3, tmm5, tmm7",
                "tilestored [{s} + {ws}], tmm0",
                "tilestored [{s} + {ws} + 64], tmm1",
                "tilestored [{s} + {ws} + 2048], tmm2",
                "tilestored [{s} + {ws} + 2112], tmm3",
                w = in(reg) weights,
                ws = in(reg) 4 * GEMM_ROWS,
                x = in(reg) vectors,
                y = in(reg) vectors.add(16 * stride),
                xs = in(reg) stride,
                s = in(reg) sums.0.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        } else {
            asm!(
                "tilezero tmm0",
                "tileloadd tmm6, [{w} + {ws}]",
                "tileloadd tmm4, [{x} + {xs}]",
                "tilezero tmm1",
                "tdpbsud tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{w} + {ws} + 64]",
                "tdpbsud tmm1, tmm4, tmm7",
                "tilestored [{s} + {ws}], tmm0",
                "tilestored [{s} + {ws} + 64], tmm1",
                w = in(reg) weights,
                ws = in(reg) 4 * GEMM_ROWS,
                x = in(reg) vectors,
                xs = in(reg) stride,
                s = in(reg) sums.0.as_mut_ptr(),
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags),
            );
        }
    }
}
