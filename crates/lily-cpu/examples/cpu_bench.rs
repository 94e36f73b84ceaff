//! Decode and prefill speed of a checkpoint, with the read bandwidth measured in the same run.
//!
//! `cpu_bench FOLDER [--threads N] [--precision P] [--simd T] [--prefill N]... [--decode CONTEXT]... [--rounds N]
//! [--steps N] [--chunk N] [--ops]`
#![allow(clippy::print_stdout, reason = "a program")]

use lily_checkpoint::Checkpoint;
use lily_cpu::{CpuBackend, CpuOptions, Profile, read_bandwidth};
use lily_engine::{Backend, DecodeStep, LogitsWanted, TokenId};
use std::{error::Error, path::PathBuf, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = CpuOptions::default();
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    let (mut rounds, mut steps, mut ops) = (3, 32, false);
    let mut folder = PathBuf::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--threads" => options.threads = Some(value()?.parse()?),
            "--precision" => options.precision = value()?.parse()?,
            "--simd" => options.simd = Some(value()?.parse()?),
            "--chunk" => options.prefill_chunk = Some(value()?.parse()?),
            "--prefill" => prefill.push(value()?.parse()?),
            "--decode" => decode.push(value()?.parse()?),
            "--rounds" => rounds = value()?.parse()?,
            "--steps" => steps = value()?.parse()?,
            "--ops" => ops = true,
            _ => folder = arg.into(),
        }
    }
    let start = Instant::now();
    let checkpoint = Checkpoint::open(&folder)?;
    let mut backend = CpuBackend::new(&checkpoint, &options)?;
    println!("{}; opened in {:.3} s", backend.describe(), start.elapsed().as_secs_f64());
    let bandwidth = || -> Result<(), Box<dyn Error>> {
        let speeds = read_bandwidth(options.threads, 3)?;
        println!("read bandwidth, GB/s: {speeds:.1?}");
        Ok(())
    };
    bandwidth()?;
    let vocab = backend.vocab_size();
    let token = |i: usize| TokenId((i as u32).wrapping_mul(2_654_435_761) % vocab as u32);
    let mut logits = Vec::new();
    for length in prefill {
        for round in 0..=rounds {
            let tokens: Vec<TokenId> = (0..length).map(token).collect();
            let mut state = backend.new_state()?;
            if ops && round == rounds {
                backend.start_profile();
            }
            let start = Instant::now();
            let chunks = tokens.chunks(backend.prefill_chunk());
            let last = chunks.len() - 1;
            for (index, chunk) in chunks.enumerate() {
                let wanted = if index == last { LogitsWanted::Last(&mut logits) } else { LogitsWanted::None };
                backend.prefill(&mut state, chunk, wanted)?;
            }
            let time = start.elapsed().as_secs_f64();
            println!("prefill {length}, round {round}: {:.1} tok/s ({time:.3} s)", length as f64 / time);
        }
        print_profile(backend.take_profile(), 1);
    }
    for context in decode {
        let mut state = backend.new_state()?;
        let tokens: Vec<TokenId> = (0..context).map(token).collect();
        for chunk in tokens.chunks(backend.prefill_chunk()) {
            backend.prefill(&mut state, chunk, LogitsWanted::Last(&mut logits))?;
        }
        let frozen = backend.snapshot(&state)?;
        for round in 0..=rounds {
            let mut state = backend.restore(&frozen)?;
            let mut seen = std::collections::BTreeSet::new();
            if ops && round == rounds {
                backend.start_profile();
            }
            let start = Instant::now();
            for _ in 0..steps {
                let best = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i);
                seen.insert(best);
                let token = TokenId(best as u32);
                backend.decode(&mut [DecodeStep { state: &mut state, token, logits: &mut logits }])?;
            }
            let time = start.elapsed().as_secs_f64();
            println!(
                "decode @{context}, round {round}: {:.2} tok/s ({:.2} ms, {} distinct ids)",
                steps as f64 / time,
                time * 1e3 / steps as f64,
                seen.len()
            );
        }
        print_profile(backend.take_profile(), steps);
    }
    bandwidth()
}

fn print_profile(profile: Option<Profile>, per: usize) {
    let Some(profile) = profile else { return };
    let total: f64 = profile.iter().map(|(_, stats)| stats.time.as_secs_f64()).sum();
    for (op, stats) in profile.iter() {
        let time = stats.time.as_secs_f64();
        println!(
            "  {:>14} {:>6} calls {:>10.1} us {:>5.1} % {:>10.3} MB {:>7.1} GB/s {:>7.1} GOP/s",
            op.name(),
            stats.calls / per as u64,
            time * 1e6 / per as f64,
            time / total * 100.0,
            stats.bytes as f64 / 1e6 / per as f64,
            stats.bytes as f64 / time / 1e9,
            stats.operations as f64 / time / 1e9,
        );
    }
}
