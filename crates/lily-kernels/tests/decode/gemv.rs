//! Quantised matrix times one row, and what is folded into it.

use crate::support::{Buffer, Kernel, Quantised, Random, Value, assert_close, bf16, from_bf16};
use lily_kernels::reference::{gated_norm, linear, rms_norm};

const BOUND: f64 = 2e-5;

struct Shape {
    bits: usize,
    group: usize,
    k: usize,
    rows: usize,
    tile: [usize; 3],
    sweeps: usize,
}

/// `tile`: rows in flight, simdgroups, split.
fn shape(bits: usize, group: usize, k: usize, rows: usize, tile: [usize; 3], sweeps: usize) -> Shape {
    Shape { bits, group, k, rows, tile, sweeps }
}

impl Shape {
    fn kernel(&self) -> Kernel {
        let [rows, simdgroups, split] = self.tile.map(|n| n as i64);
        Kernel::new(
            "gemv",
            &[
                ("K", self.k as i64),
                ("BITS", self.bits as i64),
                ("GROUP", self.group as i64),
                ("ROWS", rows),
                ("SIMDGROUPS", simdgroups),
                ("SPLIT", split),
                ("SWEEPS", i64::from(self.sweeps > 1)),
            ],
        )
    }

    /// Threadgroups and stride.
    fn grid(&self) -> (usize, usize) {
        let side = 32 / (self.k / 32).next_power_of_two().min(32);
        let tile = self.tile[0] * side * self.tile[1] / self.tile[2];
        let groups = self.rows.div_ceil(tile).div_ceil(self.sweeps);
        (groups, if self.sweeps == 1 { 0 } else { groups * tile })
    }

    fn name(&self) -> String {
        format!(
            "{} bits, group {}, K {}, {} rows, tile {:?}",
            self.bits, self.group, self.k, self.rows, self.tile
        )
    }
}

fn shapes() -> Vec<Shape> {
    vec![
        shape(4, 64, 64, 1, [4, 4, 1], 1),
        shape(4, 64, 64, 70, [4, 2, 1], 2),
        shape(4, 64, 320, 37, [4, 4, 1], 1),
        shape(4, 64, 320, 50, [2, 4, 2], 2),
        shape(4, 64, 512, 19, [4, 4, 1], 1),
        shape(4, 64, 2048, 33, [4, 4, 1], 1),
        shape(4, 64, 2048, 63, [4, 4, 2], 3),
        shape(4, 64, 4096, 17, [4, 8, 4], 1),
        shape(4, 32, 320, 9, [4, 2, 1], 1),
        shape(4, 128, 2048, 5, [2, 2, 1], 1),
        shape(8, 64, 320, 33, [2, 4, 1], 1),
        shape(8, 64, 2048, 257, [2, 4, 2], 2),
        shape(2, 64, 512, 11, [4, 2, 1], 1),
        shape(3, 64, 320, 11, [4, 2, 1], 1),
        shape(5, 32, 2048, 6, [4, 2, 1], 1),
        shape(6, 64, 64, 21, [4, 2, 1], 1),
        shape(16, 64, 320, 13, [2, 2, 1], 1),
        shape(16, 64, 2048, 6, [2, 2, 2], 1),
    ]
}

#[test]
fn every_width_group_and_shape() {
    for shape in shapes() {
        let mut r = Random::new(shape.k as u64 + shape.bits as u64);
        let mut w = Quantised::new(&mut r, shape.rows, shape.k, shape.bits, shape.group);
        let x = r.vec(shape.k, 2.0);
        let gain = r.gain(shape.k);
        let dense = w.dense();
        let kernel = shape.kernel();
        let (groups, stride) = shape.grid();
        let params = [("rows", Value::U(shape.rows)), ("stride", Value::U(stride))];

        let wanted = linear(&dense, &x);
        let mut y = Buffer::floats(shape.rows);
        kernel.run(
            "gemv",
            [groups, 1, 1],
            &mut [
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut Buffer::f32(&x)),
                ("y", &mut y),
            ],
            &params,
        );
        // Of one row alone the terms may cancel, and a GPU's own square root and division show.
        let bound = if shape.rows == 1 { 5.0 * BOUND } else { BOUND };
        assert_close(&y.to_f32(), &wanted, bound, &shape.name());

        let residual = r.vec(shape.rows, 1.0);
        let mut y = Buffer::f32(&residual);
        kernel.run(
            "gemv_add",
            [groups, 1, 1],
            &mut [
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut Buffer::f32(&x)),
                ("next", &mut Buffer::u32(&[0; 100])),
                ("y", &mut y),
            ],
            &[params[0], params[1], ("ahead", Value::U(100)), ("groups", Value::U(groups))],
        );
        let added: Vec<f32> = wanted.iter().zip(&residual).map(|(y, r)| y + r).collect();
        assert_close(&y.to_f32(), &added, bound, &format!("added, {}", shape.name()));

        let eps = 1e-6;
        let mut normed = x.clone();
        rms_norm(&mut normed, &gain, eps);
        let mut y = Buffer::floats(shape.rows);
        kernel.run(
            "gemv_norm",
            [groups, 1, 1],
            &mut [
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut Buffer::f32(&x)),
                ("gain", &mut Buffer::f32(&gain)),
                ("y", &mut y),
            ],
            &[params[0], params[1], ("eps", Value::F(eps))],
        );
        assert_close(&y.to_f32(), &linear(&dense, &normed), bound, &format!("normed, {}", shape.name()));
    }
}

#[test]
fn a_gated_norm_per_head_before_the_product() {
    for shape in [
        shape(4, 64, 512, 21, [4, 4, 1], 1),
        shape(4, 64, 4096, 40, [4, 8, 4], 2),
        shape(8, 64, 256, 9, [4, 4, 1], 1),
    ] {
        let mut r = Random::new(77);
        let mut w = Quantised::new(&mut r, shape.rows, shape.k, shape.bits, shape.group);
        let (o, z, gain) = (r.vec(shape.k, 0.5), r.vec(shape.k, 3.0), r.gain(128));
        let residual = r.vec(shape.rows, 1.0);
        let mut gated = o.clone();
        for (o, z) in gated.chunks_exact_mut(128).zip(z.chunks_exact(128)) {
            gated_norm(o, &gain, z, 1e-6);
        }
        let wanted: Vec<f32> = linear(&w.dense(), &gated).iter().zip(&residual).map(|(y, r)| y + r).collect();
        let (groups, stride) = shape.grid();
        let mut y = Buffer::f32(&residual);
        shape.kernel().run(
            "gemv_gated",
            [groups, 1, 1],
            &mut [
                ("w", &mut w.codes),
                ("scales", &mut w.scales),
                ("biases", &mut w.biases),
                ("x", &mut Buffer::f32(&o)),
                ("z", &mut Buffer::f32(&z)),
                ("gain", &mut Buffer::f32(&gain)),
                ("next", &mut Buffer::u32(&[0; 3])),
                ("y", &mut y),
            ],
            &[
                ("rows", Value::U(shape.rows)),
                ("stride", Value::U(stride)),
                ("eps", Value::F(1e-6)),
                ("ahead", Value::U(3)),
                ("groups", Value::U(groups)),
            ],
        );
        assert_close(&y.to_f32(), &wanted, BOUND, &shape.name());
    }
}

/// The override on tensor cores, its warp instructions emulated. It rounds x to bf16, so an x of bf16 numbers loses nothing.
#[test]
fn tensor_cores() {
    for (k, rows, tiles, groups) in [(512, 37, 1, 2), (2048, 100, 1, 3), (2048, 96, 2, 3), (4096, 16, 1, 1)] {
        let mut r = Random::new(k as u64);
        let mut w = Quantised::new(&mut r, rows, k, 4, 64);
        let round = |x: &f32| from_bf16(bf16(*x));
        let x: Vec<f32> = r.vec(k, 2.0).iter().map(round).collect();
        let (gain, z, head_gain) = (r.gain(k), r.vec(k, 3.0), r.gain(128));
        let residual = r.vec(rows, 1.0);
        let kernel = Kernel::new("gemv_tensor", &[("K", k as i64), ("TILES", tiles as i64)]);
        let stride = groups * 16 * tiles;
        let size = [("rows", Value::U(rows)), ("stride", Value::U(stride))];
        let ahead = [("ahead", Value::U(50)), ("groups", Value::U(groups))];
        let eps = ("eps", Value::F(1e-6));
        let name = format!("K {k}, {rows} rows, {tiles} tiles");
        let mut run =
            |entry: &str, extra: Vec<(&str, &mut Buffer)>, y: &mut Buffer, params: &[(&str, Value)]| {
                let mut x = Buffer::f32(&x);
                let mut buffers: Vec<(&str, &mut Buffer)> = vec![
                    ("w", &mut w.codes),
                    ("scales", &mut w.scales),
                    ("biases", &mut w.biases),
                    ("x", &mut x),
                    ("y", y),
                ];
                for (name, buffer) in extra {
                    buffers.push((name, buffer));
                }
                kernel.run(entry, [groups, 1, 1], &mut buffers, params);
                y.to_f32()
            };
        let mut next = Buffer::u32(&[0; 50]);
        let plain = run("gemv", vec![], &mut Buffer::floats(rows), &size);
        let mut y = Buffer::f32(&residual);
        let added =
            run("gemv_add", vec![("next", &mut next)], &mut y, &[size[0], size[1], ahead[0], ahead[1]]);
        let mut gains = Buffer::f32(&gain);
        let normed =
            run("gemv_norm", vec![("gain", &mut gains)], &mut Buffer::floats(rows), &[size[0], size[1], eps]);
        let (mut z_row, mut gains) = (Buffer::f32(&z), Buffer::f32(&head_gain));
        let mut y = Buffer::f32(&residual);
        let extra = vec![("z", &mut z_row), ("gain", &mut gains), ("next", &mut next)];
        let gated = run("gemv_gated", extra, &mut y, &[size[0], size[1], eps, ahead[0], ahead[1]]);

        let dense = w.dense();
        let plus = |y: Vec<f32>| -> Vec<f32> { y.iter().zip(&residual).map(|(y, r)| y + r).collect() };
        let wanted = linear(&dense, &x);
        assert_close(&plain, &wanted, BOUND, &name);
        assert_close(&added, &plus(wanted), BOUND, &format!("{name}, added"));
        let mut row = x.clone();
        rms_norm(&mut row, &gain, 1e-6);
        assert_close(&normed, &linear(&dense, &row), 3e-3, &format!("{name}, normed"));
        let mut row = x.clone();
        for (x, z) in row.chunks_exact_mut(128).zip(z.chunks_exact(128)) {
            gated_norm(x, &head_gain, z, 1e-6);
        }
        assert_close(&gated, &plus(linear(&dense, &row)), 3e-3, &format!("{name}, gated"));
    }
}
