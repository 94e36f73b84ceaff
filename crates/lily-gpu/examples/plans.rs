//! Plans without a device: launches, dependency levels, bytes and faults.
//!
//! ```text
//! cargo run -p lily-gpu --example plans                       the full-size model on Metal, as docs/plans.md tells it
//! cargo run -p lily-gpu --example plans -- --write            the same into docs/plans.md
//! cargo run -p lily-gpu --example plans -- FOLDER             a checkpoint's plans for Hopper
//! cargo run -p lily-gpu --example plans -- FOLDER apple8      for a family of Apple's GPUs
//! cargo run -p lily-gpu --example plans -- FOLDER sm_90a      also every kernel of them through NVRTC, into the cache of
//!                                                             compiled kernels, where a machine with a GPU finds them
//! ```

#![expect(clippy::print_stdout, reason = "what it measures is its output")]

#[path = "../tests/support/mod.rs"]
mod support;

use lily_checkpoint::Checkpoint;
use lily_gpu::{
    Optimisation, Switches,
    check::{AppleFamily, Checker, Plans, Rules},
    device::DryDevice,
};
use lily_kernels::Platform;
use std::{error::Error, sync::Arc};
use support::{FullSize, page};

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {
            println!("{}", page::generate(&FullSize::new()));
            Ok(())
        }
        ["--write"] => write(),
        [folder] => tell(folder, None),
        [folder, target] => tell(folder, Some(target)),
        _ => Err("usage: plans [--write | FOLDER [TARGET]]".into()),
    }
}

fn write() -> Outcome {
    let path = page::path();
    let text = std::fs::read_to_string(&path)?;
    let replaced =
        page::replaced(&text, &page::generate(&FullSize::new())).ok_or("docs/plans.md has no markers")?;
    std::fs::write(path, replaced)?;
    Ok(())
}

fn tell(folder: &str, target: Option<&str>) -> Outcome {
    let checkpoint = Checkpoint::open(folder.as_ref())?;
    let family = target.and_then(|target| target.parse::<AppleFamily>().ok());
    let device = Arc::new(match family {
        Some(family) => DryDevice::apple(family.smallest()),
        None => DryDevice::new(Platform::Cuda),
    });
    let mut plans = Plans::new(device.clone(), &checkpoint, Switches::default(), 4096)?;
    for context in [512, 4096, 32_768, 131_072] {
        let plan = plans.step(context)?;
        println!("{}\n{}\n", plan.name, plan.recording.report());
    }
    for (rows, position) in [(512, 0), (4096, 0), (4096, 28_672)] {
        for plan in plans.prompt(rows, position)? {
            println!("{}\n{}\n", plan.name, plan.recording.report());
        }
    }
    let checker = Checker::new(Rules::of(&*device)).with_read_only(plans.weight_buffers());
    let mut found = 0;
    for one in [None].into_iter().chain(Optimisation::ALL.map(Some)) {
        plans.set_switches(one.map_or_else(Switches::default, |one| Switches::without(&[one])));
        for plan in plans.all()? {
            for fault in checker.check_plan(&plan) {
                println!("without {one:?}, {}: {fault}", plan.name);
                found += 1;
            }
        }
    }
    println!("{found} faults in all plans, with and without each optimisation");
    if let Some(architecture) = target.filter(|_| family.is_none()) {
        compile(architecture, &device)?;
    }
    if found > 0 { Err("the plans have faults".into()) } else { Ok(()) }
}

#[cfg(not(target_os = "macos"))]
fn compile(architecture: &str, device: &DryDevice) -> Outcome {
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
fn compile(_: &str, _: &DryDevice) -> Outcome {
    Err("there is no NVRTC on macOS".into())
}
