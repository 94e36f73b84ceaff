//! Launch shapes of the decode kernels on a CUDA device, each measured by the time of the whole step.
//!
//! `cargo run --release -p lily-gpu --example tune_decode -- FOLDER [CONTEXT]`

#![expect(clippy::print_stdout, reason = "what it measures is its output")]

use lily_checkpoint::Checkpoint;
use lily_gpu::{Device, Dispatch, GpuBackend, GpuModel, GpuOptions, Pass, Recording};
use std::{error::Error, sync::Arc, time::Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Constants of one try; those not named stay.
type Shape = Vec<(&'static str, i64)>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("usage: tune_decode FOLDER [CONTEXT]")?;
    let context = arguments.next().map_or(Ok(4096), |context| context.parse())?;
    let checkpoint = Checkpoint::open(folder.as_ref())?;
    let options = GpuOptions { max_context: Some(context + 1024), ..GpuOptions::default() };
    let backend = GpuBackend::new(device()?, &checkpoint, &options)?;
    let (state, recording, model) = backend.step_for_tuning(context)?;
    for pass in [Pass::Serial, Pass::Concurrent, Pass::Early] {
        println!("{pass:?}: {:.1} us", time(model, &recording, pass)?);
    }
    let recording = recording.edited(|dispatch| dispatch.early &= !dispatch.label.ends_with("in_proj"));
    let base = time(model, &recording, Pass::Early)?;
    println!("as it is: {base:.1} us");
    for (label, shapes) in tries() {
        // All compile side by side before the first is waited for.
        let variants: Vec<(Shape, Recording)> = shapes
            .into_iter()
            .map(|shape| Ok((shape.clone(), variant(model, &recording, label, &shape)?)))
            .collect::<Outcome<_>>()?;
        let mut found = Vec::new();
        for (shape, recording) in &variants {
            match time(model, recording, Pass::Early) {
                Ok(micros) => found.push((micros, shape)),
                Err(error) => println!("{label} {shape:?}: {error}"),
            }
        }
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (micros, shape) in found.iter().take(6) {
            println!("{label:<20} {:>8.1} us ({:+.1})  {shape:?}", micros, micros - base);
        }
        if let Some((micros, shape)) = found.last() {
            println!(
                "{label:<20} {:>8.1} us ({:+.1})  {shape:?} worst of {}",
                micros,
                micros - base,
                found.len()
            );
        }
    }
    drop(state);
    Ok(())
}

/// Labels of a step's launches with the shapes to try.
fn tries() -> Vec<(&'static str, Vec<Shape>)> {
    let mut wide: Vec<Shape> = Vec::new();
    for early in [0, 1] {
        for (tiles, waves) in [(1, 1), (1, 2), (1, 3), (1, 4), (1, 6), (2, 1), (2, 2), (2, 3), (2, 4)] {
            wide.push(vec![("TILES", tiles), ("waves", waves), ("early", early)]);
        }
        for (rows, simdgroups, split) in [(4, 4, 1), (4, 4, 2), (2, 8, 1), (2, 16, 1)] {
            wide.push(vec![
                ("portable", 1),
                ("ROWS", rows),
                ("SIMDGROUPS", simdgroups),
                ("SPLIT", split),
                ("early", early),
            ]);
        }
    }
    let mut out: Vec<Shape> = Vec::new();
    for early in [0, 1] {
        out.push(vec![("TILES", 1), ("waves", 2), ("early", early)]);
        for (rows, simdgroups, split) in
            [(4, 16, 4), (2, 16, 4), (2, 16, 2), (8, 16, 4), (4, 8, 4), (2, 32, 4)]
        {
            out.push(vec![
                ("portable", 1),
                ("ROWS", rows),
                ("SIMDGROUPS", simdgroups),
                ("SPLIT", split),
                ("early", early),
            ]);
        }
    }
    let mut inner: Vec<Shape> = Vec::new();
    for early in [0, 1] {
        for (rows, simdgroups, split) in [(2, 16, 1), (4, 16, 2), (4, 8, 1), (8, 4, 1), (4, 4, 1), (2, 8, 1)]
        {
            inner.push(vec![("ROWS", rows), ("SIMDGROUPS", simdgroups), ("SPLIT", split), ("early", early)]);
        }
    }
    vec![
        ("gdn.in_proj", wide.clone()),
        ("gdn.out_proj", out.clone()),
        ("attention.in_proj", wide.clone()),
        ("attention.out_proj", out),
        ("head", wide),
        ("moe.expert_gate_up", inner),
        ("moe.expert_down", [5, 6, 7, 8].map(|rows| vec![("ROWS", rows)]).to_vec()),
    ]
}

/// The recording with the launches of one label in another shape.
fn variant(model: &GpuModel, recording: &Recording, label: &str, shape: &Shape) -> Outcome<Recording> {
    let mut failed = None;
    let edited = recording.edited(|dispatch| {
        if dispatch.label == label
            && let Err(error) = reshape(model, dispatch, shape)
        {
            failed.get_or_insert(error);
        }
    });
    failed.map_or(Ok(edited), Err)
}

fn reshape(model: &GpuModel, dispatch: &mut Dispatch, shape: &Shape) -> Outcome<()> {
    let key = dispatch.kernel.key().to_owned();
    if let Some((_, early)) = shape.iter().find(|(name, _)| *name == "early") {
        dispatch.early = *early == 1;
    }
    let (mut file, rest) = key.split_once('[').ok_or("a key without constants")?;
    let mut constants: Vec<(&str, i64)> = Vec::new();
    for pair in rest.trim_end_matches(']').split(',') {
        let (name, value) = pair.split_once('=').ok_or("a constant without a value")?;
        constants.push((name, value.parse()?));
    }
    if shape.iter().any(|(name, _)| *name == "portable") && file == "gemv_tensor" {
        file = "gemv";
        constants.retain(|(name, _)| matches!(*name, "K" | "HEAD"));
        constants.extend([("ROWS", 4), ("SIMDGROUPS", 4), ("SPLIT", 1), ("SWEEPS", 0)]);
    }
    for &(name, value) in shape {
        if let Some(constant) = constants.iter_mut().find(|(other, _)| *other == name) {
            constant.1 = value;
        }
    }
    let of = |name: &str| constants.iter().find(|(other, _)| *other == name).map_or(1, |one| one.1 as usize);
    let tile = |cols: usize| of("SIMDGROUPS") / of("SPLIT") * of("ROWS") * side(cols);
    let param = |dispatch: &Dispatch, at: usize| {
        let bytes = &dispatch.params[4 * at..4 * at + 4];
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
    };
    let set = |dispatch: &mut Dispatch, at: usize, value: usize| {
        dispatch.params[4 * at..4 * at + 4].copy_from_slice(&(value as u32).to_le_bytes());
    };
    match file {
        "gemv" => {
            let (rows, tile) = (param(dispatch, 0), tile(of("K")));
            let waves = shape.iter().find(|(name, _)| *name == "waves").map_or(0, |one| one.1 as usize);
            let most = waves * model.device.limits().cores as usize;
            let swept = most > 0 && rows.div_ceil(tile) > most;
            dispatch.groups[0] = if swept { most } else { rows.div_ceil(tile) } as u32;
            set(dispatch, 1, if swept { most * tile } else { 0 });
            if let Some(constant) = constants.iter_mut().find(|(name, _)| *name == "SWEEPS") {
                constant.1 = i64::from(swept);
            }
        }
        "router_shared" => {
            let tile = tile(of("K"));
            let groups = param(dispatch, 0).div_ceil(tile);
            set(dispatch, 1, groups);
            dispatch.groups[0] = (groups + param(dispatch, 2).div_ceil(tile)) as u32;
        }
        "expert_gate_up" => dispatch.groups[0] = of("INNER").div_ceil(tile(of("K"))) as u32,
        "expert_down" => {
            dispatch.groups[0] = param(dispatch, 0).div_ceil(of("ROWS") * side(of("INNER"))) as u32;
        }
        "gdn_step" => {
            dispatch.groups[0] = of("VALUE_DIM").div_ceil(of("SIMDGROUPS") * of("COLUMNS")) as u32;
        }
        "gemv_tensor" => {
            let (rows, tile) = (param(dispatch, 0), 16 * of("TILES"));
            let waves = shape.iter().find(|(name, _)| *name == "waves").map_or(2, |one| one.1 as usize);
            let count = rows.div_ceil(tile).min(waves * model.device.limits().cores as usize);
            dispatch.groups[0] = count as u32;
            set(dispatch, 1, count * tile);
        }
        "attention_step" => {}
        other => return Err(format!("no shapes for {other}").into()),
    }
    let entry = dispatch.kernel.entry().to_owned();
    if file.starts_with("gemv")
        && let Some(at) = (dispatch.kernel.signature().params.as_ref())
            .and_then(|params| params.fields.iter().position(|(name, _)| name == "groups"))
    {
        let count = dispatch.groups[0] as usize;
        set(dispatch, at, count);
    }
    dispatch.kernel = model.kernel(file, &constants, &entry)?;
    Ok(())
}

/// Rows of a matrix of `cols` columns that a simdgroup has side by side.
fn side(cols: usize) -> usize {
    let chunks = cols / 32;
    32 / [16, 8, 4, 2, 1].into_iter().find(|&lanes| chunks > lanes).map_or(1, |lanes| 2 * lanes)
}

/// Microseconds of a step, the median of some replays in a row.
fn time(model: &GpuModel, recording: &Recording, pass: Pass) -> Outcome<f64> {
    const REPLAYS: usize = 8;
    let device = &*model.device;
    let program = device.prepare(recording, pass)?;
    let mut found = Vec::new();
    for round in 0..4 {
        let start = Instant::now();
        let mut last = None;
        for _ in 0..REPLAYS {
            last = Some(device.submit(&program)?);
        }
        if let Some(last) = last {
            device.wait(last)?;
        }
        if round > 0 {
            found.push(start.elapsed().as_secs_f64() * 1e6 / REPLAYS as f64);
        }
    }
    found.sort_by(f64::total_cmp);
    Ok(found[found.len() / 2])
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
