//! Checks of a recorded plan without a device: what a GPU would only show as a wrong token, or not at all.
//!
//! A [`Checker`] knows a target's limits and which buffers hold weights, and goes through what an encoder would be told,
//! launch by launch:
//!
//! - every buffer argument stands at the index of the kernel's signature, once, and is as long and as aligned as the
//!   kernel's text says that this launch needs (`// touches` lines, which the emulator holds every kernel to);
//! - the grid is the one that the kernel's text says (`// grid` lines, to which kernel tests are held), and parameters,
//!   constants and buffers fit each other as those lines say;
//! - whatever two launches have in common is ordered by a barrier if one of them writes it, in program order; and no
//!   barrier stands where nothing needs it. Nothing of this is taken from the recorder's levels;
//! - threads, threadgroup memory, parameters and arguments are within the limits of the target's family;
//! - no launch may write a weight, and none is of a kernel in another target's language.

mod apple;
mod bindings;
mod flow;
mod grid;
mod hazards;
mod limits;
mod parts;
mod plans;
mod ranges;
mod roles;

pub use apple::{AppleFamily, AppleGpu};
pub use hazards::Access;
pub use limits::Rules;
pub use parts::{Kind, Part};
pub use plans::{Plan, Plans};

use crate::{Command, Recording};
use std::{collections::HashSet, fmt};

/// What is wrong with a launch, or between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FaultKind {
    /// Two launches without a barrier between them touch the same bytes, and one writes.
    MissingBarrier,
    /// Nothing before a barrier meets anything after it.
    RedundantBarrier,
    /// Two launches that meet are not in program order.
    Order,
    /// Two launches that meet have no path of edges between them.
    MissingEdge,
    /// A written argument of a launch shares bytes with another of its arguments.
    Alias,
    /// Arguments do not stand where the kernel's signature has them.
    Index,
    /// An argument is shorter than what the launch touches of it.
    Undersized,
    /// An argument's offset is not at a multiple that the kernel's accesses need.
    Misaligned,
    /// Another grid than the kernel's text says.
    Grid,
    /// Parameters, constants and buffers do not fit each other as the kernel's text says.
    Condition,
    /// An argument is bound to a weight, a state or part of a projection that it is not for.
    Role,
    /// A launch is bound to two layers' weights or states, or to those of a layer before the last launch's.
    Layer,
    /// A weight that no launch reads, or a state that none reads or none writes.
    Unused,
    /// What a launch reads was not written before.
    Unwritten,
    /// A launch writes where a result lies that no launch has read.
    Lost,
    /// More is bound for a result than the launch writes.
    Overlong,
    /// A weight would be written.
    WritesWeights,
    /// More threads in a threadgroup than the target has, or none.
    Threads,
    /// More threadgroup memory than the target has, or nobody knows how much.
    ThreadgroupMemory,
    /// A launch that computes for so long that a display's watchdog may end it.
    Operations,
    /// More bytes of parameters than can be passed.
    Parameters,
    /// More arguments than there are places.
    Arguments,
    /// A buffer longer than the target allows.
    BufferLength,
    /// A kernel that is not written for the target.
    Foreign,
    /// The kernel's text does not say what it touches, or over which grid it is launched.
    Undeclared,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// Where and what, in words.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// Checks plans for one target.
#[derive(Debug, Clone)]
pub struct Checker {
    rules: Rules,
    /// Buffers that no launch may write.
    read_only: HashSet<u64>,
}

impl Checker {
    /// With a target's rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules, read_only: HashSet::new() }
    }

    /// Buffers (by [`crate::Buffer::id`]) that hold weights.
    #[must_use]
    pub fn with_read_only(mut self, buffers: impl IntoIterator<Item = u64>) -> Self {
        self.read_only.extend(buffers);
        self
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Everything that is wrong with what an encoder is told.
    pub fn check(&self, commands: &[Command<'_>]) -> Vec<Fault> {
        self.check_for(commands, None)
    }

    fn check_for(&self, commands: &[Command<'_>], context: Option<usize>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for command in commands {
            if let Command::Dispatch(dispatch) = command {
                bindings::check(dispatch, &self.read_only, &mut faults);
                grid::check(dispatch, context, &mut faults);
                limits::check(dispatch, &self.rules, &mut faults);
            }
        }
        hazards::check(commands, &mut faults);
        faults
    }

    /// The same for a recording, with its edges.
    pub fn check_recording(&self, recording: &Recording) -> Vec<Fault> {
        let mut faults = self.check(&recording.commands());
        hazards::check_edges(recording.dispatches(), &mut faults);
        faults
    }

    /// The same for a plan, which knows what it is for: the positions that it serves, the weights and states to which its
    /// launches are to be bound, and what is there before them.
    pub fn check_plan(&self, plan: &Plan) -> Vec<Fault> {
        let mut faults = self.check_for(&plan.recording.commands(), plan.context);
        hazards::check_edges(plan.recording.dispatches(), &mut faults);
        let mut dispatches: Vec<&crate::Dispatch> = plan.recording.dispatches().iter().collect();
        dispatches.sort_by_key(|dispatch| dispatch.place);
        let parts = parts::Parts::new(plan.parts.clone());
        roles::check(&dispatches, &parts, &mut faults);
        let parts = plan.parts.iter().map(|part| part.view.clone());
        let given: Vec<crate::View> = parts.chain(plan.given.iter().cloned()).collect();
        flow::check(&dispatches, &given, &mut faults);
        dispatches.iter().for_each(|dispatch| flow::check_lengths(dispatch, &mut faults));
        faults
    }
}

#[cfg(test)]
mod tests;
