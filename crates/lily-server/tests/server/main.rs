//! The server in the test's own process, over a scripted backend: the shared cases, then each route and limit.

mod app;
mod arbitrary;
mod case_client_compat;
mod case_numerics;
mod case_reading;
mod case_robustness;
mod case_sampling;
mod case_streaming;
mod case_template;
mod cases;
mod chat;
mod completions;
mod constrained;
mod endless;
mod foreign;
mod limits;
mod log;
mod messages;
mod observe;
mod responses;
mod script;
mod security;
mod serve;
mod tokens;
mod tools;
mod web;
