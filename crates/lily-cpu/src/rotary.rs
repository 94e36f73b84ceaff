//! Rotary position embedding: angles in f64, rotation in f32.

/// Cosines and sines of one position.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rotary {
    frequencies: Vec<f64>,
}

impl Rotary {
    /// For `dim` rotated leading elements of a head and base `theta`.
    pub(crate) fn new(dim: usize, theta: f32) -> Self {
        let frequency = |i: usize| f64::from(theta).powf(-2.0 * i as f64 / dim as f64);
        Self { frequencies: (0..dim / 2).map(frequency).collect() }
    }

    /// Floats that [`Rotary::angles`] writes per position.
    pub(crate) fn width(&self) -> usize {
        2 * self.frequencies.len()
    }

    /// Writes the cosines, then the sines, of `position`.
    pub(crate) fn angles(&self, position: usize, out: &mut [f32]) {
        let (cosines, sines) = out.split_at_mut(self.frequencies.len());
        for ((frequency, cosine), sine) in self.frequencies.iter().zip(cosines).zip(sines) {
            let (s, c) = (position as f64 * frequency).sin_cos();
            (*cosine, *sine) = (c as f32, s as f32);
        }
    }
}

/// Rotates the leading elements of a head: element `i` pairs with `i + half`.
pub(crate) fn rotate(angles: &[f32], head: &mut [f32]) {
    let half = angles.len() / 2;
    let (cosines, sines) = angles.split_at(half);
    let (first, rest) = head.split_at_mut(half);
    for (((x, y), cosine), sine) in first.iter_mut().zip(rest).zip(cosines).zip(sines) {
        (*x, *y) = (*x * cosine - *y * sine, *y * cosine + *x * sine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NUM-05: inside the 64 rotated elements, `i` pairs with `i + 32`.
    #[test]
    fn halves_are_paired() {
        let rotary = Rotary::new(64, 1e7);
        let mut angles = vec![0.0; rotary.width()];
        rotary.angles(1, &mut angles);
        let mut head = [0.0; 256];
        head[0] = 1.0;
        rotate(&angles, &mut head);
        let nonzero: Vec<usize> = (0..256).filter(|&i| head[i] != 0.0).collect();
        assert_eq!(nonzero, [0, 32]);
        assert!((head[0] - 1f32.cos()).abs() < 1e-7 && (head[32] - 1f32.sin()).abs() < 1e-7);
    }
}
