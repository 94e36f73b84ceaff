//! A checkpoint on a CUDA device, measured: prefill and decode at given lengths, ablations, where the time goes. The same
//! measurements as `lily bench --backend cuda`, in a program that builds in a minute.
//!
//! `cargo run --release -p lily-gpu --example gpu_bench -- FOLDER [decode=512,4096] [prefill=512,4096] [rounds=3] [steps=64]
//! [eval=GOLDEN] [ablate] [ops] [explain] [sampled] [without=NAME] [context=N]`

#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use lily_checkpoint::Checkpoint;
use lily_engine::{
    Backend, DecodeStep, LogitsWanted, SamplingParams, TokenId, TokenMask,
    evaluation::{Feed, ReferenceFile, evaluate},
};
use lily_gpu::{Device, GpuBackend, GpuOptions, Optimisation, Phase, Switches};
use std::{error::Error, sync::Arc, time::Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Run {
    backend: GpuBackend,
    rounds: usize,
    steps: usize,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("usage: gpu_bench FOLDER [key=value ...]")?;
    let value = |key: &str| {
        arguments.iter().find_map(|argument| argument.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    };
    let flag = |key: &str| arguments.iter().any(|argument| argument == key);
    let lengths = |key: &str| -> Outcome<Vec<usize>> {
        Ok(value(key)
            .iter()
            .flat_map(|list| list.split(',').map(str::parse).collect::<Vec<_>>())
            .collect::<Result<_, _>>()?)
    };
    let number = |key: &str, default: usize| value(key).map_or(Ok(default), |value| value.parse());
    let start = Instant::now();
    let checkpoint = Checkpoint::open(folder.as_ref())?;
    let off: Vec<Optimisation> = value("without")
        .iter()
        .flat_map(|names| names.split(',').map(str::parse))
        .collect::<Result<_, _>>()?;
    let options = GpuOptions {
        max_context: value("context").map(|value| value.parse()).transpose()?,
        switches: Switches::without(&off),
        ..GpuOptions::default()
    };
    let backend = GpuBackend::new(device()?, &checkpoint, &options)?;
    println!(
        "{}\nloaded in {:.1} s\n{}",
        backend.describe(),
        start.elapsed().as_secs_f64(),
        backend.memory_plan()
    );
    let mut run = Run { backend, rounds: number("rounds", 3)?, steps: number("steps", 64)? };
    if let Some(golden) = value("eval") {
        let file = ReferenceFile::read(golden.as_ref())?;
        let phase = [
            Optimisation::RegisterScan,
            Optimisation::FusedDequant,
            Optimisation::GpuRouting,
            Optimisation::ConcurrentPass,
        ];
        let cases = std::iter::once(vec![]).chain(phase.map(|one| vec![one]));
        for off in cases {
            run.backend.set_switches(Switches::without(&off));
            let report = evaluate(&mut run.backend, &file, Feed::Prefill(usize::MAX), |_, _| {})?;
            println!("prefill without {off:?}\n{}\n", report.all);
        }
        run.backend.set_switches(options.switches);
        let report = evaluate(&mut run.backend, &file, Feed::Decode, |_, _| {})?;
        println!("decode\n{report}\n");
    }
    run.copy()?;
    let (prefill, decode) = (lengths("prefill")?, lengths("decode")?);
    for &tokens in &prefill {
        run.prefill(tokens, "")?;
    }
    for &context in &decode {
        run.decode(context, "")?;
    }
    if flag("sampled") {
        let vocab = checkpoint.config.vocab_size;
        let params = SamplingParams { temperature: 1.0, top_k: 20, top_p: 0.95, ..SamplingParams::default() };
        run.backend.choose_by(&params, 1, &TokenMask::all(vocab))?;
        for &context in &decode {
            run.decode(context, " sampled (temperature 1, top-k 20, top-p 0.95)")?;
        }
        run.backend.choose_by(&SamplingParams::default(), 1, &TokenMask::all(vocab))?;
    }
    if flag("ablate") {
        for one in Optimisation::ALL {
            run.backend.set_switches(Switches::without(&[one]));
            let note = format!(" without {one}");
            let lengths = if one.phase() == Phase::Prefill { &prefill } else { &decode };
            for &length in lengths {
                let measured = if one.phase() == Phase::Prefill {
                    run.prefill(length, &note)
                } else {
                    run.decode(length, &note)
                };
                if let Err(error) = measured {
                    println!("@{length}{note}: {error}");
                }
            }
        }
        run.backend.set_switches(options.switches);
    }
    for &tokens in &prefill {
        let rows = (tokens - 1) % run.backend.prefill_chunk() + 1;
        if flag("explain") {
            println!(
                "\nprefill of {rows} after {}\n{}",
                tokens - rows,
                run.backend.explain_prefill(rows, tokens - rows)?
            );
        }
        if flag("ops") {
            ops(
                &format!("prefill of {rows} after {}", tokens - rows),
                run.backend.profile_prefill(rows, tokens - rows)?,
            );
        }
    }
    for &context in &decode {
        if flag("explain") {
            println!("\na token after {context}\n{}", run.backend.explain_decode(context)?);
        }
        if flag("ops") {
            ops(&format!("a token after {context}"), run.backend.profile_decode(context)?);
        }
    }
    run.copy()
}

#[cfg(not(target_os = "macos"))]
fn device() -> Outcome<Arc<dyn Device>> {
    use lily_gpu::device::{CudaDevice, CudaOptions};
    Ok(Arc::new(CudaDevice::new(&CudaOptions::default())?))
}

#[cfg(target_os = "macos")]
fn device() -> Outcome<Arc<dyn Device>> {
    Err("there is no CUDA on macOS".into())
}

fn prompt(tokens: usize, vocab: usize) -> Vec<TokenId> {
    let spread = |index: usize| (index as u32).wrapping_mul(2_654_435_761);
    (0..tokens).map(|index| TokenId((spread(index) as usize % vocab) as u32)).collect()
}

fn told(name: &str, note: &str, rates: &[f64], extra: &str) {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rounds: Vec<String> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
    println!(
        "{name}{note}: median {:.1} tok/s, rounds {}{extra}",
        sorted[sorted.len() / 2],
        rounds.join(" ")
    );
}

fn ops(name: &str, times: Option<Vec<lily_gpu::OpTime>>) {
    let times = times.unwrap_or_default();
    let sum: f64 = times.iter().map(|op| op.time.as_secs_f64()).sum();
    println!("\n{name}, each launch alone: {:.1} us in all", sum * 1e6);
    for op in times {
        let seconds = op.time.as_secs_f64().max(1e-12);
        println!(
            "  {:<26}{:>5} x {:>8.2} us = {:>9.1} us {:>5.1}% {:>9.2} MB {:>7.0} GB/s",
            op.label,
            op.launches,
            seconds * 1e6 / op.launches as f64,
            seconds * 1e6,
            seconds / sum * 100.0,
            op.bytes as f64 / 1e6,
            op.bytes as f64 / 1e9 / seconds
        );
    }
}

impl Run {
    fn copy(&mut self) -> Outcome<()> {
        let rounds: Vec<String> =
            self.backend.copy_bandwidth(3)?.iter().map(|bytes| format!("{:.0}", bytes / 1e9)).collect();
        println!("copy inside the device's memory, read and written: {} GB/s", rounds.join(" "));
        Ok(())
    }

    fn read(&mut self, state: &mut <GpuBackend as Backend>::State, prompt: &[TokenId]) -> Outcome<Vec<f32>> {
        let (chunk, mut logits) = (self.backend.prefill_chunk(), Vec::new());
        let last = (prompt.len() - 1) / chunk;
        for (index, part) in prompt.chunks(chunk).enumerate() {
            let wanted = if index == last { LogitsWanted::Last(&mut logits) } else { LogitsWanted::None };
            self.backend.prefill(state, part, wanted)?;
        }
        Ok(logits)
    }

    fn prefill(&mut self, tokens: usize, note: &str) -> Outcome<()> {
        let prompt = prompt(tokens, self.backend.vocab_size());
        let mut rates = Vec::new();
        for round in 0..2 + self.rounds {
            let mut state = self.backend.new_state()?;
            self.backend.settle()?;
            let start = Instant::now();
            self.read(&mut state, &prompt)?;
            if round >= 2 {
                rates.push(tokens as f64 / start.elapsed().as_secs_f64());
            }
        }
        told(&format!("prefill {tokens}"), note, &rates, "");
        Ok(())
    }

    fn decode(&mut self, context: usize, note: &str) -> Outcome<()> {
        let prompt = prompt(context, self.backend.vocab_size());
        let mut state = self.backend.new_state()?;
        let first = best(&self.read(&mut state, &prompt)?);
        let snapshot = self.backend.snapshot(&state)?;
        drop(state);
        let (mut rates, mut distinct) = (Vec::new(), 0);
        for round in 0..2 + self.rounds {
            let mut state = self.backend.restore(&snapshot)?;
            self.backend.settle()?;
            let start = Instant::now();
            let chosen = if self.backend.has_device_loop() {
                self.backend.generate(&mut state, first, self.steps)?
            } else {
                let (mut token, mut chosen, mut logits) = (first, Vec::new(), Vec::new());
                for _ in 0..self.steps {
                    self.backend.decode(&mut [DecodeStep {
                        state: &mut state,
                        token,
                        logits: &mut logits,
                    }])?;
                    token = best(&logits);
                    chosen.push(token);
                }
                chosen
            };
            let time = start.elapsed().as_secs_f64();
            distinct = chosen.iter().collect::<std::collections::HashSet<_>>().len();
            if round >= 2 {
                rates.push(self.steps as f64 / time);
            }
        }
        told(
            &format!("decode @{context}"),
            note,
            &rates,
            &format!(", {distinct} distinct tokens of {}", self.steps),
        );
        Ok(())
    }
}

fn best(logits: &[f32]) -> TokenId {
    let best = (0..logits.len()).fold(0, |best, id| if logits[id] > logits[best] { id } else { best });
    TokenId(best as u32)
}
