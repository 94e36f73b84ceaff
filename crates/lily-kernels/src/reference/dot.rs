//! The sum that everything else is made of.

const LANES: usize = 16;

/// `Σ a[i] b[i]`. Lane `l` of 16 sums the products of elements `l`, `l + 16`, ... in order, each product rounded;
/// then lanes `l` and `l + 8` are added, then `l` and `l + 4`, and so on. A fixed order, and one that an optimiser can
/// turn into vector instructions.
///
/// # Panics
/// If the lengths differ.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "a dot product of vectors of two lengths");
    let mut lanes = [0.0_f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for l in 0..LANES {
            lanes[l] += a[l] * b[l];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(rest) {
        *lane += a * b;
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] += lanes[l + half];
        }
        half /= 2;
    }
    lanes[0]
}
