//! The gated delta rule.

use super::{Noise, assert_close, tiers};
use crate::simd::{GDN_COLUMNS, GdnTokens};
use lily_kernels::reference;

#[test]
fn scans_are_the_references_steps() {
    let mut noise = Noise(20);
    for (dk, dv, count) in
        [(128, 128, 1), (128, 128, 3), (128, 128, 70), (16, 64, 5), (8, 65, 4), (3, 5, 9), (32, 100, 2)]
    {
        let mut q = noise.numbers(count * dk);
        let mut k = noise.numbers(count * dk);
        q.chunks_exact_mut(dk).chain(k.chunks_exact_mut(dk)).for_each(|row| reference::l2_norm(row, 1e-6));
        let v = noise.numbers(count * dv);
        let decay: Vec<f32> = noise.numbers(count).iter().map(|x| x.abs()).collect();
        let beta: Vec<f32> = noise.numbers(count).iter().map(|x| x.abs()).collect();
        let kq: Vec<f32> =
            q.chunks_exact(dk).zip(k.chunks_exact(dk)).map(|(q, k)| reference::dot(q, k)).collect();
        let start = noise.numbers(dk * dv);

        // The reference holds the state `[dv][dk]`.
        let place = |i: usize, j: usize| {
            let block = j / GDN_COLUMNS * GDN_COLUMNS;
            block * dk + i * GDN_COLUMNS.min(dv - block) + j - block
        };
        let mut transposed = vec![0.0; dk * dv];
        for i in 0..dk {
            for j in 0..dv {
                transposed[j * dk + i] = start[place(i, j)];
            }
        }
        let mut expected = vec![0.0; count * dv];
        for t in 0..count {
            let qkv = (&q[t * dk..][..dk], &k[t * dk..][..dk], &v[t * dv..][..dv]);
            reference::gated_delta_rule(
                &mut transposed,
                qkv,
                decay[t],
                beta[t],
                &mut expected[t * dv..][..dv],
            );
        }
        for kernels in tiers() {
            let what = format!("{} {dk} x {dv}, {count} tokens", kernels.tier());
            let mut state = start.clone();
            let stride = dv + 3;
            let mut out = vec![f32::NAN; count * stride];
            let tokens =
                GdnTokens { count, dk, dv, q: &q, k: &k, v: &v, decay: &decay, beta: &beta, kq: &kq };
            kernels.gdn_scan(&mut state, &tokens, &mut out, stride);
            let rows: Vec<f32> = out.chunks(stride).flat_map(|row| row[..dv].to_vec()).collect();
            assert_close(&what, &rows, &expected, 1e-5);
            let end: Vec<f32> = (0..dk * dv).map(|at| state[place(at % dk, at / dk)]).collect();
            assert_close(&what, &end, &transposed, 1e-5);
        }
    }
}
