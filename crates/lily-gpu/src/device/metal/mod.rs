//! Metal, on macOS.
//!
//! What decides something is in modules that hold no Objective-C and are tested on every system: which machines serve
//! ([`facts`]), what is set and dispatched where and with which barriers ([`encode`]), where a long recording is cut into
//! command buffers ([`parts`]), what an error means ([`failure`]), how far the queue is ([`progress`]), when memory is kept
//! wired ([`heartbeat`], [`residency`]), which copies share a pass ([`transfers`]), which memory can be used without a copy
//! ([`pages`]), which of Metal's options are used ([`numbers`]), and by which calls, in which order, the queue is told all that
//! ([`queue`]). The calls themselves are in [`api`].
//!
//! The order of things, all buffers being untracked: one encoder per command buffer; inside it, a barrier where the
//! recording's level changes; between command buffers, one fence that each waits for and updates. A shared event counts
//! command buffers: a [`Ticket`](super::Ticket) is its value.

#[cfg(target_os = "macos")]
mod api;
mod encode;
mod facts;
mod failure;
mod heartbeat;
mod numbers;
mod pages;
mod parts;
mod progress;
mod queue;
mod residency;
mod transfers;

#[cfg(target_os = "macos")]
pub use api::{MetalDevice, MetalOptions};
