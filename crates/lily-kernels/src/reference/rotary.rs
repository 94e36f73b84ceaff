//! Rotary position embedding, half-split pairs ("neox").

/// Rotates the first `dim` elements of a head.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotary {
    /// Elements that are rotated, even.
    pub dim: usize,
    /// Base of the frequencies.
    pub theta: f64,
}

impl Rotary {
    /// Element `i` of the first half pairs with `i + dim / 2`; the pair turns by `position * theta^(-2 i / dim)`.
    /// Angles in f64: at position 262,143 an f32 angle is off by up to 0.016.
    ///
    /// # Panics
    /// If `head` is shorter than `dim`.
    pub fn rotate(&self, head: &mut [f32], position: usize) {
        let half = self.dim / 2;
        let (first, rest) = head.split_at_mut(half);
        for (i, (a, b)) in first.iter_mut().zip(&mut rest[..half]).enumerate() {
            let frequency = self.theta.powf(-2.0 * i as f64 / self.dim as f64);
            let (sin, cos) = (position as f64 * frequency).sin_cos();
            let (sin, cos) = (sin as f32, cos as f32);
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROTARY: Rotary = Rotary { dim: 64, theta: 1e7 };

    fn unit(i: usize, position: usize) -> Vec<f32> {
        let mut head = vec![0.0; 256];
        head[i] = 1.0;
        ROTARY.rotate(&mut head, position);
        head
    }

    fn nonzero(head: &[f32]) -> Vec<usize> {
        (0..head.len()).filter(|&i| head[i] != 0.0).collect()
    }

    /// NUM-05: dim `i` pairs with `i + 32`, not with `i + 1` and not with `i + 128`.
    #[test]
    fn pairs_are_half_split_inside_the_rotary_dims() {
        for i in 0..32 {
            assert_eq!(nonzero(&unit(i, 1)), [i, i + 32]);
            assert_eq!(nonzero(&unit(i + 32, 1)), [i, i + 32]);
        }
        for i in 64..256 {
            assert_eq!(nonzero(&unit(i, 1)), [i], "beyond the rotary dims nothing turns");
        }
    }

    #[test]
    fn angles() {
        let head = unit(0, 1);
        assert_eq!((head[0], head[32]), (1.0_f64.cos() as f32, 1.0_f64.sin() as f32));
        let head = unit(33, 7);
        let angle = 7.0 * 1e7_f64.powf(-2.0 / 64.0);
        assert_eq!((head[1], head[33]), (-angle.sin() as f32, angle.cos() as f32));
        assert_eq!(unit(5, 0)[5], 1.0);
    }

    #[test]
    fn far_positions_keep_their_angle() {
        // Frequency 0 is exactly 1: an f32 product would still be exact; frequency 1 would not.
        let position = 262_143;
        let angle = position as f64 * 1e7_f64.powf(-1.0 / 32.0);
        let head = unit(1, position);
        assert!(
            (f64::from(head[1]) - angle.cos()).abs() < 1e-6
                && (f64::from(head[33]) - angle.sin()).abs() < 1e-6
        );
    }
}
