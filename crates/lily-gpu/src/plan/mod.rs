//! Plans: the model's steps, recorded. A plan names buffers and launches and knows nothing of a device; it is recorded once
//! for a state and a context bucket and replayed for every token (decode), or recorded anew for each chunk (prefill).
//!
//! What a backend uses of the two:
//!
//! | | decode | prefill |
//! |---|---|---|
//! | temporaries | `DecodeTemporaries::new(device, config, max_context)`, shared by all sequences | `PrefillTemporaries::new(device, config, rows)`, for chunks of up to `rows` rows |
//! | layers | `decode::record_step(recorder, model, state, temporaries, bucket)`: the token and position of the step words to `temporaries.logits`, f32 `[vocab]`; a context of up to `bucket` positions, the new one included | `prefill::record_chunk(recorder, model, state, temporaries, chunk)`: `chunk.rows` ids of `temporaries.tokens` (u32) at positions from `chunk.position` on, to the residual rows |
//! | head | in the step | `prefill::record_logits(recorder, model, temporaries, rows)`: residual rows of a range to `temporaries.logits`, f32 `[rows, vocab]` |
//! | choice | `choice::record(recorder, model, state, temporaries, sampling)`: logits to the next token, into the step words (token, position + 1, counters) and the output ring | |
//! | buckets | `decode::bucket(context)`: the smallest bucket that holds so many positions | |

pub mod choice;
pub mod decode;
pub mod prefill;
