//! Answers that are held to a form: random walks through the masks, read back by the parser.

mod answers;
mod calls;
mod faults;
mod references;
mod speed;
mod walk;
