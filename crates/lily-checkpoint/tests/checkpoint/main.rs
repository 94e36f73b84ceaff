//! One test program for everything that opens whole checkpoints; small ones are built by `support`.

mod cases;
mod config;
mod full_size;
mod headers;
mod layouts;
mod nano;
mod quantization;
mod shards;
mod summary;
mod support;
