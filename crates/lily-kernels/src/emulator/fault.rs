//! What the emulator reports.

use std::fmt;

/// What kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Two threads touch the same memory, one of them writing, without a barrier between.
    Race,
    /// An access outside a buffer or threadgroup array.
    OutOfBounds,
    /// A read of memory that nobody wrote.
    UnwrittenRead,
    /// Threads part at a barrier or a simdgroup operation, or wait for each other for ever.
    Divergence,
    /// A vector access that is not aligned to its size.
    Misaligned,
    /// More threadgroup memory than every device has (32 KiB, with Metal's padding).
    ThreadgroupMemory,
    /// More arguments, or larger parameters, than Metal has room for.
    Arguments,
    /// The call does not fit the kernel.
    BadCall,
}

impl FaultKind {
    pub(super) fn from_code(code: u32) -> Self {
        match code {
            1 => Self::Race,
            2 => Self::OutOfBounds,
            3 => Self::UnwrittenRead,
            4 => Self::Divergence,
            5 => Self::Misaligned,
            6 => Self::ThreadgroupMemory,
            _ => Self::BadCall,
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Its kind.
    pub kind: FaultKind,
    /// What, where and who.
    pub message: String,
}

/// The faults of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// The first of them.
    pub first: Vec<Fault>,
    /// How many there were.
    pub total: usize,
}

impl Faults {
    /// True if one of the first faults is of this kind.
    #[must_use]
    pub fn any(&self, kind: FaultKind) -> bool {
        self.first.iter().any(|fault| fault.kind == kind)
    }

    pub(super) fn call(message: String) -> Self {
        Self::one(FaultKind::BadCall, message)
    }

    pub(super) fn one(kind: FaultKind, message: String) -> Self {
        Self { first: vec![Fault { kind, message }], total: 1 }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults", self.total)?;
        for fault in &self.first {
            write!(f, "\n  {:?}: {}", fault.kind, fault.message)?;
        }
        Ok(())
    }
}
