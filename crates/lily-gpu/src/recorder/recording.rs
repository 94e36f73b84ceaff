//! What was recorded: plain data that any device can run.

use super::{Report, levels};
use crate::{Kernel, View};
use lily_kernels::Access;
use std::borrow::Cow;

/// A bound argument.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Its index in the kernel's signature.
    pub index: u32,
    /// The bytes.
    pub view: View,
    /// What the kernel does with them.
    pub access: Access,
}

impl Bound {
    /// True if the kernel may write to it.
    pub fn writes(&self) -> bool {
        self.access != Access::Read
    }
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Dispatch {
    /// What to launch.
    pub kernel: Kernel,
    /// Threadgroups in x, y and z, none of them 0.
    pub groups: [u32; 3],
    /// In the order of the signature.
    pub bindings: Vec<Bound>,
    /// The parameter block; empty if the kernel has none.
    pub params: Vec<u8>,
    /// What it is.
    pub label: Cow<'static, str>,
    /// Bytes read from device memory.
    pub read: u64,
    /// Bytes written to device memory.
    pub written: u64,
    /// Floating-point operations; 0 where they take less time than the bytes.
    pub operations: u64,
    /// Dependency level: larger than that of everything it depends on. 0 comes first.
    pub level: u32,
    /// Where passes launch early, this one may be: false where waiting outside is faster than inside.
    pub early: bool,
    /// The dispatches that it directly depends on, as indices into [`Recording::dispatches`].
    pub after: Vec<u32>,
    /// Its place in program order, from 0.
    pub place: u32,
}

impl Dispatch {
    /// Its label, or its entry point where it has none.
    pub fn name(&self) -> &str {
        if self.label.is_empty() { self.kernel.entry() } else { &self.label }
    }
}

/// What a device whose launches overlap is told for a recording.
#[derive(Debug, Clone, Copy)]
pub enum Command<'a> {
    /// What comes later sees what was written before, and overwrites nothing that is still read.
    Barrier,
    /// A launch.
    Dispatch(&'a Dispatch),
}

/// Dispatches in the order of their levels, program order within a level. Those of one level do not depend on each
/// other: a device needs a barrier where the level changes, and nowhere else.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    dispatches: Vec<Dispatch>,
}

impl Recording {
    pub(super) fn new(dispatches: Vec<Dispatch>) -> Self {
        Self { dispatches: levels::order(dispatches) }
    }

    /// All dispatches.
    pub fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    /// The dispatches with a barrier where the level changes: what one concurrent encoder is told.
    pub fn commands(&self) -> Vec<Command<'_>> {
        let mut commands = Vec::with_capacity(self.dispatches.len() + self.levels());
        let mut level = self.dispatches.first().map_or(0, |first| first.level);
        for dispatch in &self.dispatches {
            if dispatch.level != level {
                commands.push(Command::Barrier);
            }
            level = dispatch.level;
            commands.push(Command::Dispatch(dispatch));
        }
        commands
    }

    /// Dependency levels.
    pub fn levels(&self) -> usize {
        self.dispatches.last().map_or(0, |last| last.level as usize + 1)
    }

    /// Each dispatch as a recording of its own, in order: to look at what one leaves behind.
    pub fn steps(&self) -> impl Iterator<Item = Self> + '_ {
        self.dispatches.iter().map(|dispatch| {
            let alone = Dispatch { level: 0, after: Vec::new(), ..dispatch.clone() };
            Self { dispatches: vec![alone] }
        })
    }

    /// The same with each dispatch changed, to compare launch shapes: what it reads and writes must stay what it was.
    pub fn edited(&self, mut edit: impl FnMut(&mut Dispatch)) -> Self {
        let mut dispatches = self.dispatches.clone();
        dispatches.iter_mut().for_each(&mut edit);
        Self { dispatches }
    }

    /// Launches, levels and bytes.
    pub fn report(&self) -> Report {
        Report::of(self)
    }
}
