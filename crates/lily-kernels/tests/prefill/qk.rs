//! q/k norm, rotary position and KV write over rows.

use crate::rows::{bf16_results, bf16_rows, values};
use crate::support::{Buffer, Kernel, Random, Value, assert_close};
use lily_kernels::reference::{Rotary, rms_norm};
use lily_kernels::rotary_table;

const D: usize = 256;
const ROTARY: Rotary = Rotary { dim: 64, theta: 1e7 };

/// `cache`: positions that the cache holds. 0 lets all positions share one place, so that a far one needs no large cache.
fn check((heads, kv_heads): (usize, usize), rows: usize, position: usize, cache: usize) {
    let ldx = (2 * heads + 2 * kv_heads) * D + 8;
    let mut r = Random::new(position as u64);
    let (mut x, plain) = bf16_rows(&mut r, rows * ldx, 1.0);
    let (q_gain, k_gain) = (r.gain(D), r.gain(D));
    let mut q = bf16_results(rows * heads * D);
    let (mut keys, mut vals) =
        (bf16_results(kv_heads * cache.max(1) * D), bf16_results(kv_heads * cache.max(1) * D));
    let constants =
        [("HEADS", heads as i64), ("KV_HEADS", kv_heads as i64), ("HEAD", D as i64), ("ROTARY", 64)];
    Kernel::new("qk_rows", &constants).run(
        "qk_rows",
        [((heads + 2 * kv_heads) * rows).div_ceil(4), 1, 1],
        &mut [
            ("x", &mut x),
            ("q_gain", &mut Buffer::f32(&q_gain)),
            ("k_gain", &mut Buffer::f32(&k_gain)),
            ("turns", &mut Buffer::u32(&rotary_table(ROTARY.dim, ROTARY.theta))),
            ("q", &mut q),
            ("keys", &mut keys),
            ("values", &mut vals),
        ],
        &[
            ("rows", Value::U(rows)),
            ("ldx", Value::U(ldx)),
            ("position", Value::U(position)),
            ("kv_head", Value::U(cache.max(1) * D)),
            ("kv_row", Value::U(if cache == 0 { 0 } else { D })),
            ("eps", Value::F(1e-6)),
        ],
    );
    let (found_q, found_k, found_v) = (values(&q), values(&keys), values(&vals));
    for row in 0..rows {
        let here = &plain[row * ldx..(row + 1) * ldx];
        let turned = |from: usize, gain: &[f32]| {
            let mut head = here[from..from + D].to_vec();
            rms_norm(&mut head, gain, 1e-6);
            ROTARY.rotate(&mut head, position + row);
            head
        };
        let what = format!("position {}", position + row);
        for h in 0..heads {
            let found = &found_q[(row * heads + h) * D..][..D];
            assert_close(found, &turned(h * 2 * D, &q_gain), 3e-3, &format!("q, {what}"));
        }
        for h in 0..kv_heads {
            let at = if cache == 0 { h * D } else { (h * cache + position + row) * D };
            let from = (2 * heads + h) * D;
            assert_close(&found_k[at..at + D], &turned(from, &k_gain), 3e-3, &format!("k, {what}"));
            assert_eq!(found_v[at..at + D], here[from + kv_heads * D..][..D], "v, {what}");
        }
    }
    let written = found_k.iter().filter(|key| !key.is_nan()).count();
    assert_eq!(written, kv_heads * rows * D, "keys of other positions stay as they were");
}

#[test]
fn queries_and_keys_are_normed_and_turned_values_copied() {
    check((8, 1), 3, 0, 8);
    check((16, 2), 5, 31, 40);
    check((8, 1), 1, 262_143, 0);
    check((16, 2), 1, 131_071, 0);
}
