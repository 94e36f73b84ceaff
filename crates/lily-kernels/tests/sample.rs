//! Kernels that choose the next token, in the emulator, each against the plain reference.
#![cfg(feature = "emulator")]

#[path = "sample/choice.rs"]
mod choice;
mod support;
