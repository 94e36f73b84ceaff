// One answer while it is made: reads the stream into a turn and takes its times.

import { ApiError, chat } from "/web/api.js";
import { apply } from "/web/conversation.js";

// Milliseconds; over less than this a speed says nothing.
const LEAST = 20;

export class Generation {
  #abort = new AbortController();

  // `onchange` is called after every piece; `turn` is the answer that grows.
  constructor(body, turn, onchange) {
    this.body = { ...body, stream: true, stream_options: { include_usage: true, include_progress: true } };
    this.turn = turn;
    this.onchange = onchange;
    this.progress = null;
  }

  stop() {
    this.#abort.abort();
  }

  // Runs to the end; faults end in the turn's `error`. Gives the error's status (0: not reached), or null.
  async run() {
    const { turn } = this;
    const begin = performance.now();
    let first = null;
    let thought = null;
    let pieces = 0;
    let status = null;
    turn.stats = {};
    try {
      for await (const { progress, chunk } of chat(this.body, this.#abort.signal)) {
        const now = performance.now();
        const choice = chunk?.choices[0];
        const delta = choice?.delta ?? {};
        this.progress = progress ?? null;
        if (delta.reasoning_content || delta.content || delta.tool_calls) {
          first ??= now;
          pieces += 1;
          if (turn.reasoning !== "" && !delta.reasoning_content && turn.stats.thought === undefined) {
            turn.stats.thought = (thought ?? now) - first;
          }
          if (delta.reasoning_content) thought = now;
          apply(turn, delta);
          turn.stats.first = first - begin;
          // A piece is about a token; the usage at the end tells exactly.
          if (now - first > LEAST) turn.stats.rate = ((pieces - 1) / (now - first)) * 1000;
          turn.stats.tokens = pieces;
        }
        if (choice?.finish_reason) turn.finish = choice.finish_reason;
        if (chunk?.usage) this.#count(chunk.usage, first, now);
        this.onchange();
      }
    } catch (error) {
      if (error.name === "AbortError") {
        turn.finish = "stopped";
      } else {
        turn.finish = "error";
        turn.error = error.message;
        status = error instanceof ApiError ? error.status : 0;
        if (!(error instanceof ApiError)) console.error(error);
      }
    }
    turn.finish ??= "stop";
    if (turn.reasoning !== "" && turn.stats.thought === undefined && first !== null) {
      turn.stats.thought = (thought ?? first) - first;
    }
    this.progress = null;
    return status;
  }

  #count(usage, first, now) {
    const { stats } = this.turn;
    stats.tokens = usage.completion_tokens;
    stats.prompt = usage.prompt_tokens;
    stats.cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    if (first !== null && now - first > LEAST && stats.tokens > 1) stats.rate = ((stats.tokens - 1) / (now - first)) * 1000;
  }
}
