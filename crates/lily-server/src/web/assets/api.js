// The server's routes that the page uses.

import { events } from "/web/sse.js";
import { loadKey } from "/web/store.js";

// What went wrong, in the server's words where it had any. `status` 0: it was not reached.
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

function headers(more = {}) {
  const key = loadKey();
  return key ? { ...more, authorization: `Bearer ${key}` } : more;
}

async function reach(path, options) {
  try {
    return await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server cannot be reached.", 0);
  }
}

async function refusal(response) {
  let words = "";
  try {
    words = (await response.json()).error?.message;
  } catch {
    // No JSON: the status has to do.
  }
  return new ApiError(words || `The server answered with status ${response.status}.`, response.status);
}

// The health object, also of a server that takes no requests.
export async function health() {
  const response = await reach("/health");
  const body = await response.json().catch(() => null);
  if (!body) throw new ApiError(`The server answered with status ${response.status}.`, response.status);
  return body;
}

// What the page has to know: { needs_key, defaults }.
export async function config() {
  const response = await reach("/web/config.json");
  if (!response.ok) throw await refusal(response);
  return response.json();
}

// Streams a chat completion: { progress: [done, total] } while the prompt is read, then { chunk }.
export async function* chat(body, signal) {
  const response = await reach("/v1/chat/completions", {
    method: "POST",
    headers: headers({ "content-type": "application/json" }),
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await refusal(response);
  try {
    for await (const { data, comment } of events(response.body)) {
      if (data === "[DONE]") return;
      if (data !== undefined) {
        const chunk = JSON.parse(data);
        if (chunk.error) throw new ApiError(chunk.error.message, response.status);
        yield { chunk };
      } else {
        const progress = /^prefill (\d+)\/(\d+)$/.exec(comment);
        if (progress) yield { progress: [Number(progress[1]), Number(progress[2])] };
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("The connection to the server was lost.", 0);
  }
  throw new ApiError("The stream ended before the answer did.", 0);
}
