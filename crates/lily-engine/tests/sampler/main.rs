//! The sampler against a plain oracle and against exact probabilities.

mod distribution;
mod oracle;
mod truncation;
