//! What a device is, whether every kernel compiles on it, and how fast it reads: a part of `cargo xtask verify-metal`.
//!
//! `cargo run --release -p lily-gpu --example verify_device -- machine`, `... kernels [WORD]` (only those with that word in
//! their names) or `... bandwidth [MEGABYTES]`, with `LILY_TEST_DEVICE` set.

#![expect(clippy::print_stdout, reason = "what it measures is its output")]

#[path = "../tests/device/mod.rs"]
mod device;
#[path = "../tests/support/mod.rs"]
mod support;

mod choices;

use lily_checkpoint::Checkpoint;
use lily_engine::{SamplingParams, TokenId, TokenMask};
use lily_gpu::{
    Device, Optimisation, Pass, Recorder, Switches,
    check::{AppleFamily, Plans},
    device::DryDevice,
    plan::choice::ChoiceRequest,
};
use lily_kernels::{MetalTier, Platform, Specialisation};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};
use support::FullSize;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of a copy, and of a matrix that is read.
const LARGE: usize = 1 << 30;
/// Rounds of a measurement; the fastest counts, and the slowest is told.
const ROUNDS: usize = 7;
/// Columns of the matrix.
const COLS: usize = 2048;

fn main() -> Outcome<()> {
    let device = device::named().ok_or("LILY_TEST_DEVICE names no device")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["machine"] => {
            println!("device: {}\n{:#?}", device.describe(), device.limits());
            Ok(())
        }
        ["kernels"] => kernels(&*device, ""),
        ["kernels", word] => kernels(&*device, word),
        ["bandwidth"] => bandwidth(&*device, LARGE),
        ["bandwidth", megabytes] => bandwidth(&*device, megabytes.parse::<usize>()?.max(1) << 20),
        _ => Err("usage: verify_device machine | kernels [WORD] | bandwidth [MEGABYTES]".into()),
    }
}

/// Compiles every kernel, with the word in its name, of the plans of nano and of the full-size model; all are under way before
/// the first is waited for.
fn kernels(device: &dyn Device, word: &str) -> Outcome<()> {
    let start = Instant::now();
    let mut wanted = wanted(device)?;
    wanted.retain(|(_, entry), one| one.file().name.contains(word) || entry.contains(word));
    if wanted.is_empty() {
        return Err(format!("no kernel has \"{word}\" in its name").into());
    }
    let started: Vec<_> = wanted
        .iter()
        .map(|((key, entry), one)| {
            // A machine without tensor operations, or with an older system, need not take their kernels; whether it does is told.
            let needed = !one.file().metal_only || device.metal_tier() == MetalTier::Tensor;
            (format!("{key} {entry}"), needed, device.compile(one, entry))
        })
        .collect();
    let (mut failed, mut spare) = (0, 0);
    for (name, needed, kernel) in &started {
        let made = kernel.as_ref().map_err(Clone::clone).and_then(|kernel| device.ready(kernel));
        if let Err(error) = made {
            let (count, use_) = if *needed { (&mut failed, "") } else { (&mut spare, "not used here: ") };
            *count += 1;
            println!("{use_}{name}: {error}");
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} kernels in {seconds:.1} s, {failed} failed, {spare} more that are not used here",
        started.len()
    );
    if failed > 0 { Err("not every kernel compiles".into()) } else { Ok(()) }
}

/// Every entry point in every specialisation, by key and name. On Metal also those of other families' plans: a Mac is rare enough
/// to ask its compiler about all of them.
fn wanted(device: &dyn Device) -> Outcome<BTreeMap<(String, String), Specialisation>> {
    let nano = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/nano");
    let (nano, full) = (Checkpoint::open(nano.as_ref())?, FullSize::new());
    let mut like = vec![DryDevice::like(device)];
    if device.platform() == Platform::Metal {
        like.extend(AppleFamily::ALL.map(|family| DryDevice::apple(family.smallest())));
    }
    let mut wanted = BTreeMap::new();
    for dry in like.into_iter().map(Arc::new) {
        collect(&dry, &nano, 512)?;
        collect(&dry, &full.checkpoint, 4096)?;
        let kernels = dry.kernels().into_iter();
        wanted.extend(kernels.map(|(one, entry)| ((one.key(), entry), one)));
    }
    Ok(wanted)
}

/// Records every plan of a checkpoint, with and without each optimisation and with every way to choose a token.
fn collect(dry: &Arc<DryDevice>, checkpoint: &Checkpoint, rows: usize) -> Outcome<()> {
    let mut plans = Plans::new(dry.clone(), checkpoint, Switches::default(), rows)?;
    let each = Optimisation::ALL.into_iter().map(|one| Switches::without(&[one]));
    for switches in [Switches::default(), Switches::all()].into_iter().chain(each) {
        plans.set_switches(switches);
        plans.all()?;
    }
    let vocab = checkpoint.config.vocab_size;
    let tokens = TokenMask::all(vocab);
    for params in choices::requests() {
        for (bias, logprobs) in [(vec![], 0), (vec![(TokenId(1), 1.0)], 20)] {
            let params = SamplingParams { logit_bias: bias, ..params.clone() };
            let request = ChoiceRequest {
                params: &params,
                seed: 1,
                prompt: &[],
                answer: &[],
                tokens: &tokens,
                logprobs,
            };
            plans.choice.set(&**dry, &request)?;
            plans.step(1)?;
        }
    }
    Ok(())
}

/// A copy inside the device's memory, and a matrix product with one row, which reads and hardly writes.
fn bandwidth(device: &dyn Device, most: usize) -> Outcome<()> {
    let limits = device.limits();
    let room = usize::try_from(limits.buffer.min(limits.memory / 8)).unwrap_or(usize::MAX);
    let bytes = most.min(room) >> 20 << 20;
    if bytes == 0 {
        return Err(format!("there is no room: {limits:?}").into());
    }
    let from = device.allocate(bytes, "bandwidth, from")?.whole();
    let to = device.allocate(bytes, "bandwidth, to")?.whole();
    device.zero(&from)?;
    let settle = || device.download(&to.slice(0, 4), &mut [0; 4]);
    let copy = rounds(device, || {
        device.copy(&from, &to)?;
        Ok(settle()?)
    })?;
    tell("a copy, read and written", 2 * bytes, &copy);

    let rows = bytes / (2 * COLS);
    let plain = Specialisation::named("gemv", &[("K", COLS as i64), ("BITS", 16)])?;
    let kernel = device.compile(&plain, "gemv")?;
    let mut recorder = Recorder::new();
    recorder
        .dispatch(&kernel, [rows.div_ceil(16) as u32, 1, 1])
        .bind("w", &from)
        .bind("scales", &from.slice(0, 16))
        .bind("biases", &from.slice(0, 16))
        .bind("x", &device.allocate(4 * COLS, "x")?.whole())
        .bind("y", &to.slice(0, 4 * rows))
        .param("rows", rows)
        .param("stride", 0_u32)
        .label("bandwidth");
    let program = device.prepare(&recorder.finish()?, Pass::Serial)?;
    let read = rounds(device, || Ok(device.wait(device.submit(&program)?)?))?;
    tell("a product with one row, read", bytes, &read);
    Ok(())
}

/// Times after one round that does not count, sorted, and the device's own time of all of them, if it tells.
fn rounds(
    device: &dyn Device,
    mut run: impl FnMut() -> Outcome<()>,
) -> Outcome<(Vec<Duration>, Option<Duration>)> {
    run()?;
    let mut times = Vec::with_capacity(ROUNDS);
    let before = device.busy();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed());
    }
    let busy = device.busy().zip(before).map(|(after, before)| after - before);
    times.sort_unstable();
    Ok((times, busy))
}

fn tell(what: &str, bytes: usize, (times, busy): &(Vec<Duration>, Option<Duration>)) {
    let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    if let (Some(&best), Some(&worst)) = (times.first(), times.last()) {
        println!(
            "{what}: {:.1} GB/s, {:.1} in the slowest of {} rounds ({} MB)",
            speed(best),
            speed(worst),
            times.len(),
            bytes >> 20
        );
    }
    if let Some(busy) = busy {
        println!("  by the device's own clock: {:.1} GB/s", speed(*busy / ROUNDS as u32));
    }
}
