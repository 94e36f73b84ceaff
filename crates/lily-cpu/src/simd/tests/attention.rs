//! Attention over pages with online softmax.

use super::{Noise, assert_close, tiers};
use crate::simd::{AttentionAccumulator, KvElement, KvPage};
use half::f16;
use lily_kernels::reference::{KvRows, attend};

#[test]
fn pages_add_up_to_the_references_attention() {
    let mut noise = Noise(30);
    for dim in [256, 64, 40, 7] {
        for heads in [8, 5, 4, 1] {
            // Pages of every remainder, one of them alone.
            for pages in [vec![1], vec![64], vec![64, 3], vec![5, 17, 1, 33]] {
                let tokens: usize = pages.iter().sum();
                let half = |values: Vec<f32>| -> Vec<u16> {
                    values.iter().map(|&v| f16::from_f32(v * 3.0).to_bits()).collect()
                };
                let (keys, values) = (half(noise.numbers(tokens * dim)), half(noise.numbers(tokens * dim)));
                let widen = |halves: &[u16]| -> Vec<f32> {
                    halves.iter().map(|&h| f16::from_bits(h).to_f32()).collect()
                };
                let kv = KvRows { keys: widen(&keys), values: widen(&values) };
                let query = noise.numbers(heads * dim);
                let scaled: Vec<f32> = query.iter().map(|q| q * (dim as f32).powf(-0.5)).collect();
                let mut expected = vec![0.0; heads * dim];
                for (query, out) in query.chunks_exact(dim).zip(expected.chunks_exact_mut(dim)) {
                    attend(query, &kv, 1, 0, tokens, out);
                }
                for kernels in tiers() {
                    for wide in [false, true] {
                        let (mut max, mut sum) = (vec![f32::NEG_INFINITY; heads], vec![0.0; heads]);
                        let mut out = vec![0.0; heads * dim];
                        let mut first = 0;
                        for &tokens in &pages {
                            // Keys transposed, with room for more rows than there are.
                            let stride = tokens + [0, 5, 64 - tokens][first % 3];
                            let mut half_keys = vec![f16::NAN.to_bits(); stride * dim];
                            for (t, row) in keys[first * dim..].chunks_exact(dim).take(tokens).enumerate() {
                                row.iter().enumerate().for_each(|(i, key)| half_keys[i * stride + t] = *key);
                            }
                            let wide_keys = widen(&half_keys);
                            let range = first * dim..(first + tokens) * dim;
                            let (keys, values) = if wide {
                                (KvElement::F32(&wide_keys), KvElement::F32(&kv.values[range]))
                            } else {
                                (KvElement::F16(&half_keys), KvElement::F16(&values[range]))
                            };
                            let page = KvPage { tokens, stride, dim, keys, values };
                            let mut into =
                                AttentionAccumulator { max: &mut max, sum: &mut sum, values: &mut out };
                            kernels.attend_page(&scaled, &page, &mut vec![0.0; heads * stride], &mut into);
                            first += tokens;
                        }
                        for (out, sum) in out.chunks_exact_mut(dim).zip(&sum) {
                            out.iter_mut().for_each(|out| *out /= sum);
                        }
                        let what =
                            format!("{} dim {dim}, {heads} heads, {pages:?}, wide {wide}", kernels.tier());
                        assert_close(&what, &out, &expected, 1e-5);
                    }
                }
            }
        }
    }
}
