//! A checkpoint's plans without a device: launches, dependency levels and bytes; and, with an architecture, every kernel of
//! them through NVRTC into the cache of compiled kernels, where a machine with a GPU finds them.
//!
//! `cargo run -p lily-gpu --example plans -- FOLDER [sm_90a]`

#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use lily_checkpoint::Checkpoint;
use lily_gpu::{GpuBackend, GpuOptions, Switches, device::DryDevice};
use lily_kernels::Platform;
use std::{error::Error, sync::Arc};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, rest @ ..] = arguments.as_slice() else {
        return Err("usage: plans FOLDER [ARCHITECTURE]".into());
    };
    let checkpoint = Checkpoint::open(folder.as_ref())?;
    let device = Arc::new(DryDevice::new(Platform::Cuda));
    let options = GpuOptions { switches: Switches::default(), ..GpuOptions::default() };
    let mut backend = GpuBackend::new(device.clone(), &checkpoint, &options)?;
    println!("{}\n", backend.memory_plan());
    for context in [511, 4096, 32_768, 131_072] {
        println!("a token after {context}\n{}\n", backend.explain_decode(context)?);
    }
    for (rows, position) in [(512, 0), (4096, 0), (4096, 28_672)] {
        println!("{rows} tokens after {position}\n{}\n", backend.explain_prefill(rows, position)?);
    }
    for rows in [1, 16, 64, 200, 1024] {
        backend.explain_prefill(rows, 0)?;
    }
    let Some(architecture) = rest.first() else { return Ok(()) };
    for one in lily_gpu::Optimisation::ALL {
        backend.set_switches(Switches::without(&[one]));
        for (name, explained) in [
            ("decode", backend.explain_decode(511).map(drop)),
            ("decode far", backend.explain_decode(32_768).map(drop)),
            ("prefill", backend.explain_prefill(512, 0).map(drop)),
        ] {
            if let Err(error) = explained {
                println!("without {one}, {name}: {error}");
            }
        }
    }
    compile(architecture, &device)
}

#[cfg(not(target_os = "macos"))]
fn compile(architecture: &str, device: &DryDevice) -> Result<(), Box<dyn Error>> {
    let kernels = device.kernels();
    let compiled = lily_gpu::device::cuda::compile_offline(architecture, &kernels, None)?;
    let mut failed = 0;
    for (name, code) in &compiled {
        match code {
            Ok(bytes) => println!("{name}: {bytes} bytes"),
            Err(error) => {
                failed += 1;
                println!("{error}");
            }
        }
    }
    println!("{} kernels, {failed} failed", compiled.len());
    if failed > 0 { Err("not every kernel compiles".into()) } else { Ok(()) }
}

#[cfg(target_os = "macos")]
fn compile(_: &str, _: &DryDevice) -> Result<(), Box<dyn Error>> {
    Err("there is no NVRTC on macOS".into())
}
