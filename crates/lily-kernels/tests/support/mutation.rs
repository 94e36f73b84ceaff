//! `cargo xtask mutate-kernels` sets `LILY_MUTATE_KERNEL=FILE:N`: the N-th barrier of that file is taken out of every kernel
//! that has it, and the process ends with [`CAUGHT`] as soon as the emulator objects.

use lily_kernels::Specialisation;
use lily_kernels::emulator::Faults;

/// Exit status of a run in which the emulator objected.
const CAUGHT: i32 = 42;
const BARRIERS: [&str; 4] = ["tg_barrier();", "tg_barrier_device();", "sg_barrier();", "tile_barrier();"];

fn site() -> Option<(String, usize)> {
    let site = std::env::var("LILY_MUTATE_KERNEL").ok()?;
    let (file, index) = site.rsplit_once(':')?;
    Some((file.to_owned(), index.parse().ok()?))
}

/// The kernel without the barrier, if it has it.
pub(crate) fn applied(specialisation: Specialisation) -> Specialisation {
    let Some((file, index)) = site() else { return specialisation };
    let mutated = specialisation.parts().into_iter().find(|(name, _)| *name == file).map(|(name, text)| {
        let mut places: Vec<(usize, &str)> =
            BARRIERS.iter().flat_map(|barrier| text.match_indices(barrier)).collect();
        // `tile_barrier();` and the like are no `barrier();` of another name.
        places.retain(|&(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        places.sort_unstable();
        let (at, barrier) = places[index];
        (name, format!("{};{}", &text[..at], &text[at + barrier.len()..]))
    });
    match mutated {
        Some((name, text)) => specialisation.with_part(&name, &text),
        None => specialisation,
    }
}

/// Ends the process if a mutated kernel was caught.
pub(crate) fn watch(result: &Result<(), Faults>) {
    if let (Some(_), Err(faults)) = (site(), result) {
        eprintln!("{faults}");
        std::process::exit(CAUGHT);
    }
}
