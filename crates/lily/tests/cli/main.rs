//! The binary from outside: arguments and streams in, streams and exit codes out.

mod bench;
mod chat;
mod eval;
mod info;
mod models;
mod parse;
mod process;
mod render;
mod run;
mod serve;
#[cfg(unix)]
mod terminal;
mod top;
mod tune;
mod usage;
