//! The prefill kernels for Hopper on the machine at hand: each against its portable counterpart on the same random numbers
//! at the full model's shapes, with its time.
//!
//! `cargo run --release -p lily-gpu --example prefill_kernels`
//!
//! Expected on an H200: distances of at most 2e-4 (the recurrence 4e-3, which rounds other things in matrix form); at 4096
//! rows dense products at 510 TFLOP/s, the experts' at 380 in and 305 out, attention at 330 and after 28,672 rows at 525, the
//! recurrence 0.4 ms in matrix form against 1.04 ms row by row.

#![cfg_attr(
    not(target_os = "macos"),
    expect(clippy::print_stdout, reason = "what it measures is its output")
)]

#[cfg(target_os = "macos")]
fn main() {}

#[cfg(not(target_os = "macos"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    lab::run()
}

#[cfg(not(target_os = "macos"))]
mod lab {
    use lily_gpu::{
        Device, Kernel, Pass, Recorder, View,
        device::{CudaDevice, CudaOptions},
    };
    use lily_kernels::Specialisation;
    use std::error::Error;

    type Result<T> = std::result::Result<T, Box<dyn Error>>;
    type Buffers<'a> = &'a [(&'a str, &'a View)];
    type Params<'a> = &'a [(&'a str, u32)];

    const ROWS: usize = 4096;

    struct Lab {
        device: CudaDevice,
        random: u64,
    }

    /// A kernel with everything that it is launched with.
    struct Launch<'a> {
        file: &'a str,
        constants: &'a [(&'a str, i64)],
        entry: &'a str,
        groups: [usize; 3],
        buffers: Buffers<'a>,
        params: Params<'a>,
    }

    /// A random 4-bit matrix.
    struct Matrix([View; 3]);

    impl Lab {
        fn word(&mut self) -> u32 {
            self.random =
                self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 32) as u32
        }

        /// In [-1, 1).
        fn float(&mut self) -> f32 {
            (self.word() >> 8) as f32 / (1_u32 << 23) as f32 - 1.0
        }

        fn upload(&self, bytes: &[u8]) -> Result<View> {
            let view = self.device.allocate(bytes.len(), "test data")?.whole();
            self.device.upload(&view, bytes)?;
            Ok(view)
        }

        fn room(&self, bytes: usize) -> Result<View> {
            let view = self.device.allocate(bytes, "test results")?.whole();
            self.device.zero(&view)?;
            Ok(view)
        }

        fn floats(&mut self, count: usize, scale: f32, shift: f32) -> Vec<f32> {
            (0..count).map(|_| shift + scale * self.float()).collect()
        }

        fn bf16(&self, values: &[f32]) -> Result<View> {
            self.upload(
                &values
                    .iter()
                    .flat_map(|&value| half::bf16::from_f32(value).to_le_bytes())
                    .collect::<Vec<u8>>(),
            )
        }

        fn f32(&self, values: &[f32]) -> Result<View> {
            self.upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        }

        fn u32(&self, values: &[u32]) -> Result<View> {
            self.upload(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
        }

        fn matrix(&mut self, rows: usize, cols: usize) -> Result<Matrix> {
            let size = (3.0 / cols as f32).sqrt();
            let codes: Vec<u32> = (0..rows * cols / 8).map(|_| self.word()).collect();
            let scales = self.floats(rows * cols / 64, 0.25 * size / 7.5, 0.75 * size / 7.5);
            let biases = self.floats(rows * cols / 64, 0.2 * size, -size);
            Ok(Matrix([self.u32(&codes)?, self.bf16(&scales)?, self.bf16(&biases)?]))
        }

        fn kernel(&self, launch: &Launch<'_>) -> Result<Kernel> {
            Ok(self.device.compile(&Specialisation::named(launch.file, launch.constants)?, launch.entry)?)
        }

        fn record(&self, recorder: &mut Recorder, launch: &Launch<'_>) -> Result<()> {
            let kernel = self.kernel(launch)?;
            let mut dispatch = recorder.dispatch(&kernel, launch.groups.map(|n| n as u32));
            for (name, view) in launch.buffers {
                dispatch = dispatch.bind(name, view);
            }
            for (name, value) in launch.params {
                // `scale` and `eps` are the float parameters of these kernels.
                dispatch = match *name {
                    "scale" | "eps" => dispatch.param(name, f32::from_bits(*value)),
                    _ => dispatch.param(name, *value),
                };
            }
            drop(dispatch.label(launch.file.to_owned()));
            Ok(())
        }

        /// Runs once, then measures: seconds of each launch.
        fn time(&self, launches: &[Launch<'_>]) -> Result<Vec<f64>> {
            let record = || {
                let mut recorder = Recorder::new();
                launches.iter().try_for_each(|launch| self.record(&mut recorder, launch))?;
                Result::Ok(recorder.finish()?)
            };
            self.device.run(&record()?, Pass::Serial)?;
            let times = self.device.profile(&record()?)?.ok_or("the device tells no times")?;
            Ok(times.iter().map(std::time::Duration::as_secs_f64).collect())
        }

        fn values(&self, view: &View) -> Result<Vec<f32>> {
            let mut bytes = vec![0; view.bytes()];
            self.device.download(view, &mut bytes)?;
            Ok(bytes.chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f32()).collect())
        }
    }

    /// Rows in the order of register operands (`kernels/rows.h`).
    fn permute(values: &[f32], width: usize) -> Vec<f32> {
        let place = |k: usize| {
            let (chunk, e) = (k / 8 % 16, k % 8);
            (k & !127) + (4 * (chunk % 4) + e % 4) * 8 + 2 * (chunk / 4) + e / 4
        };
        let mut out = vec![0.0; values.len()];
        for (out, row) in out.chunks_exact_mut(width).zip(values.chunks_exact(width)) {
            row.iter().enumerate().for_each(|(k, &value)| out[place(k)] = value);
        }
        out
    }

    fn distance(found: &[f32], wanted: &[f32]) -> f64 {
        let (mut off, mut of) = (0.0, 0.0);
        for (found, wanted) in found.iter().zip(wanted) {
            off += f64::from(found - wanted).powi(2);
            of += f64::from(*wanted).powi(2);
        }
        (off / of).sqrt()
    }

    fn tell(what: &str, distance: f64, bound: f64, flop: f64, fast: f64, portable: f64) {
        let verdict = if distance <= bound { "ok" } else { "WRONG" };
        let rate = |seconds: f64| flop / seconds / 1e12;
        println!(
            "{what:<44} distance {distance:.1e} {verdict:<6} {:8.1} us {:6.1} TFLOP/s   (portable {:8.1} us {:6.1})",
            fast * 1e6,
            rate(fast),
            portable * 1e6,
            rate(portable)
        );
    }

    pub(super) fn run() -> Result<()> {
        let mut lab = Lab { device: CudaDevice::new(&CudaOptions::default())?, random: 1 };
        println!("{}", lab.device.describe());
        for (width, outputs) in [(2048, 12_288), (2048, 9216), (4096, 2048)] {
            for rows in [512, ROWS] {
                dense(&mut lab, rows, width, outputs)?;
            }
        }
        for rows in [512, ROWS] {
            experts(&mut lab, rows)?;
        }
        for (rows, position) in [(512, 0), (ROWS, 0), (ROWS, 28_672)] {
            attention(&mut lab, rows, position)?;
        }
        for rows in [512, ROWS] {
            recurrence(&mut lab, rows)?;
        }
        Ok(())
    }

    fn dense(lab: &mut Lab, rows: usize, width: usize, outputs: usize) -> Result<()> {
        let w = lab.matrix(outputs, width)?;
        let plain = lab.floats(rows * width, 1.0, 0.0);
        let (x, permuted) = (lab.bf16(&plain)?, lab.bf16(&permute(&plain, width))?);
        let (y, fast) = (lab.room(2 * rows * outputs)?, lab.room(2 * rows * outputs)?);
        let params = [
            ("rows", rows as u32),
            ("n", outputs as u32),
            ("ldx", width as u32),
            ("ldy", outputs as u32),
            ("ldg", 0),
        ];
        let Matrix([codes, scales, biases]) = &w;
        let launch = |file, x, y, tile: usize, columns: usize| {
            let buffers = vec![("x", x), ("w", codes), ("scales", scales), ("biases", biases), ("y", y)];
            (file, buffers, [outputs.div_ceil(columns), rows.div_ceil(tile), 1])
        };
        let mut times = Vec::new();
        for (file, buffers, groups) in
            [launch("gemm_wgmma", &permuted, &fast, 128, 128), launch("gemm", &x, &y, 64, 64)]
        {
            let constants = [("K", width as i64)];
            let launch = Launch {
                file,
                constants: &constants,
                entry: "gemm",
                groups,
                buffers: &buffers,
                params: &params,
            };
            times.push(lab.time(&[launch])?[0]);
        }
        let flop = 2.0 * (rows * width * outputs) as f64;
        let off = distance(&lab.values(&fast)?, &lab.values(&y)?);
        tell(&format!("gemm {rows} x {width} x {outputs}"), off, 5e-3, flop, times[0], times[1]);
        Ok(())
    }

    fn experts(lab: &mut Lab, rows: usize) -> Result<()> {
        let (experts, hidden, inner, slots) = (256, 2048, 512, 8 * rows);
        let (gate, up) = (lab.matrix(experts * inner, hidden)?, lab.matrix(experts * inner, hidden)?);
        let down = lab.matrix(experts * hidden, inner)?;
        let plain = lab.floats(rows * hidden, 1.0, 0.0);
        let (x, permuted) = (lab.bf16(&plain)?, lab.bf16(&permute(&plain, hidden))?);
        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); experts];
        for slot in 0..slots as u32 {
            let expert = lab.word() as usize % experts;
            lists[expert].push(slot / 8);
        }
        let token = lab.u32(&lists.concat())?;
        let shares = lab.floats(slots, 0.5, 0.5);
        let weight = lab.f32(&shares)?;
        let mut times = Vec::new();
        let mut results = Vec::new();
        for (file, x, tile, columns) in
            [("expert_gemm_wgmma", &permuted, 128, 128), ("expert_gemm", &x, 64, 64)]
        {
            let (mut map, mut first) = (Vec::new(), 0);
            for (expert, list) in lists.iter().enumerate() {
                let least = list.len().div_ceil(tile).max(1);
                let size = list.len().div_ceil(least).next_multiple_of(16).max(16);
                for at in (0..list.len()).step_by(size) {
                    map.extend([expert as u32, (first + at) as u32, (list.len() - at).min(size) as u32, 0]);
                }
                first += list.len();
            }
            let tiles = map.len() / 4;
            let map = lab.u32(&map)?;
            let (h, y) = (lab.room(2 * slots * inner)?, lab.room(2 * slots * hidden)?);
            let Matrix([wg, gs, gb]) = &gate;
            let Matrix([wu, us, ub]) = &up;
            let Matrix([wd, ds, db]) = &down;
            let params = [("rows", rows as u32)];
            let first = [
                ("x", x),
                ("token", &token),
                ("tile_map", &map),
                ("wg", wg),
                ("gate_scales", gs),
                ("gate_biases", gb),
                ("wu", wu),
                ("up_scales", us),
                ("up_biases", ub),
                ("h", &h),
            ];
            let second = [
                ("h", &h),
                ("weight", &weight),
                ("tile_map", &map),
                ("w", wd),
                ("scales", ds),
                ("biases", db),
                ("y", &y),
            ];
            let launches = [
                Launch {
                    file,
                    constants: &[("K", hidden as i64), ("OUTPUTS", inner as i64)],
                    entry: "expert_gate_up",
                    groups: [inner / 64, tiles, 1],
                    buffers: &first,
                    params: &params,
                },
                Launch {
                    file,
                    constants: &[("K", inner as i64), ("OUTPUTS", hidden as i64)],
                    entry: "expert_down",
                    groups: [hidden / columns, tiles, 1],
                    buffers: &second,
                    params: &params,
                },
            ];
            times.push(lab.time(&launches)?);
            results.push(lab.values(&y)?);
        }
        let flop = 2.0 * (slots * hidden * inner) as f64;
        let off = distance(&results[0], &results[1]);
        tell(&format!("experts in, {rows} rows"), off, 8e-3, 2.0 * flop, times[0][0], times[1][0]);
        tell(&format!("experts out, {rows} rows"), off, 8e-3, flop, times[0][1], times[1][1]);
        Ok(())
    }

    fn attention(lab: &mut Lab, rows: usize, position: usize) -> Result<()> {
        let (heads, kv_heads, dim, context) = (16, 2, 256, position + rows);
        let wide = 2 * (heads + kv_heads) * dim;
        let numbers = |lab: &mut Lab, count: usize, scale: f32| {
            let values = lab.floats(count, scale, 0.0);
            lab.bf16(&values)
        };
        let (q, x) = (numbers(lab, rows * heads * dim, 2.0)?, numbers(lab, rows * wide, 2.0)?);
        let (k, v) =
            (numbers(lab, kv_heads * context * dim, 1.0)?, numbers(lab, kv_heads * context * dim, 1.0)?);
        let (y, fast) = (lab.room(2 * rows * heads * dim)?, lab.room(2 * rows * heads * dim)?);
        let params = [
            ("rows", rows as u32),
            ("ldx", wide as u32),
            ("position", position as u32),
            ("kv_head", (context * dim) as u32),
            ("kv_row", dim as u32),
            ("scale", (1.0_f32 / 16.0).to_bits()),
        ];
        let constants = [("HEADS", heads as i64), ("KV_HEADS", kv_heads as i64), ("HEAD", dim as i64)];
        let mut times = Vec::new();
        for (file, y, block) in [("attention_rows_wgmma", &fast, 128), ("attention_rows", &y, 32)] {
            let buffers = [("q", &q), ("keys", &k), ("values", &v), ("x", &x), ("y", y)];
            let groups = [rows.div_ceil(block), heads, 1];
            let launch = Launch {
                file,
                constants: &constants,
                entry: "attention_rows",
                groups,
                buffers: &buffers,
                params: &params,
            };
            times.push(lab.time(&[launch])?[0]);
        }
        let flop = 4.0 * (heads * dim) as f64 * (rows as f64 * (position as f64 + rows as f64 / 2.0));
        let off = distance(&lab.values(&fast)?, &lab.values(&y)?);
        tell(&format!("attention, {rows} rows after {position}"), off, 5e-3, flop, times[0], times[1]);
        Ok(())
    }

    fn recurrence(lab: &mut Lab, rows: usize) -> Result<()> {
        let (key_heads, value_heads, dim) = (16, 32, 128);
        let numbers = |lab: &mut Lab, count: usize, scale: f32| {
            let values = lab.floats(count, scale, 0.0);
            lab.bf16(&values)
        };
        // Of about unit length, q scaled: sqrt(3 / 128), and times 128^-0.5.
        let q = numbers(lab, rows * key_heads * dim, 0.153 * 0.0884)?;
        let k = numbers(lab, rows * key_heads * dim, 0.153)?;
        let v = numbers(lab, rows * value_heads * dim, 1.0)?;
        let gates = lab.floats(rows * 2 * value_heads, 2.0, 0.0);
        let (a_log, dt_bias) = (lab.floats(value_heads, 1.0, 0.0), lab.floats(value_heads, 1.0, 0.0));
        let (gates, a_log, dt_bias) = (lab.f32(&gates)?, lab.f32(&a_log)?, lab.f32(&dt_bias)?);
        let (state, other) = (lab.room(4 * value_heads * dim * dim)?, lab.room(4 * value_heads * dim * dim)?);
        let (o, fast) = (lab.room(2 * rows * value_heads * dim)?, lab.room(2 * rows * value_heads * dim)?);
        let blocks = rows.div_ceil(64);
        let padded = blocks * 64 * value_heads;
        let [w, u, kt] = [(); 3].map(|()| lab.room(2 * padded * dim));
        let (w, u, kt, m, gamma) = (w?, u?, kt?, lab.room(2 * padded * 64)?, lab.room(4 * padded)?);
        let constants = [("KEY_HEADS", key_heads as i64), ("VALUE_HEADS", value_heads as i64)];
        let params = [("rows", rows as u32), ("ldg", 2 * value_heads as u32)];
        let inputs =
            [("q", &q), ("k", &k), ("v", &v), ("gates", &gates), ("a_log", &a_log), ("dt_bias", &dt_bias)];
        let made = [("w", &w), ("u", &u), ("m", &m), ("kt", &kt), ("gamma", &gamma)];
        let prepare = [&inputs[..], &made[..]].concat();
        let scan = [&[("q", &q)][..], &made[..], &[("state", &other), ("o", &fast)][..]].concat();
        let by_row = [&inputs[..], &[("state", &state), ("o", &o)][..]].concat();
        let matrix_form = [
            Launch {
                file: "gdn_chunk_prepare",
                constants: &constants,
                entry: "gdn_chunk_prepare",
                groups: [blocks, value_heads, 1],
                buffers: &prepare,
                params: &params,
            },
            Launch {
                file: "gdn_chunk_scan",
                constants: &constants,
                entry: "gdn_chunk_scan",
                groups: [4, value_heads, 1],
                buffers: &scan,
                params: &params[..1],
            },
        ];
        let registers = [Launch {
            file: "gdn_scan",
            constants: &constants,
            entry: "gdn_scan",
            groups: [4, value_heads, 1],
            buffers: &by_row,
            params: &params,
        }];
        // Both run twice, the second time from the state that the first left.
        let (fast_times, times) = (lab.time(&matrix_form)?, lab.time(&registers)?);
        let off = distance(&lab.values(&fast)?, &lab.values(&o)?);
        println!(
            "gdn, {rows} rows: prepare {:.1} us, scan {:.1} us",
            fast_times[0] * 1e6,
            fast_times[1] * 1e6
        );
        let flop = 7.0 * 2.0 * (rows * value_heads * dim * dim) as f64;
        tell(&format!("gdn, {rows} rows"), off, 2e-2, flop, fast_times.iter().sum(), times[0]);
        Ok(())
    }
}
