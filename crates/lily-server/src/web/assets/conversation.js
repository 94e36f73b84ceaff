// The conversation as data: turns that can be kept, and the messages that a request is made of.
//
// A user's turn is { role, text }; an answer is { role, reasoning, content, calls, finish, error, stats }, where a call
// is { id, name, arguments, result } and `finish` is null until the answer has ended.

export const userTurn = (text) => ({ role: "user", text });

export const answerTurn = () => ({
  role: "assistant",
  reasoning: "",
  content: "",
  calls: [],
  finish: null,
  error: null,
  stats: null,
});

// Adds a stream's delta to an answer.
export function apply(turn, delta) {
  turn.reasoning += delta.reasoning_content ?? "";
  turn.content += delta.content ?? "";
  for (const part of delta.tool_calls ?? []) {
    const call = (turn.calls[part.index] ??= { id: "", name: "", arguments: "", result: null });
    call.id ||= part.id ?? "";
    call.name ||= part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }
}

// Brings turns that were kept into shape; what was being written when the page was left is an answer that was stopped.
export function restore(kept) {
  const turns = Array.isArray(kept) ? kept : [];
  return turns
    .filter((turn) => turn?.role === "user" || turn?.role === "assistant")
    .map((turn) =>
      turn.role === "user"
        ? userTurn(String(turn.text ?? ""))
        : { ...answerTurn(), ...turn, calls: Array.isArray(turn.calls) ? turn.calls : [], finish: turn.finish ?? "stopped" },
    );
}

const isAnswered = (call) => typeof call.result === "string";

// True if the model waits for the results of calls.
export const waitsForResults = (turn) =>
  turn?.role === "assistant" && turn.finish === "tool_calls" && turn.calls.some((call) => !isAnswered(call));

// The messages of a request. Calls without a result are left out, and so are answers in which nothing is left: a call
// that was broken off, or an error before the first word.
export function messages(turns, system) {
  const list = system.trim() === "" ? [] : [{ role: "system", content: system }];
  for (const turn of turns) {
    if (turn.role === "user") {
      list.push({ role: "user", content: turn.text });
      continue;
    }
    const calls = turn.calls.filter(isAnswered);
    if (turn.content === "" && calls.length === 0) continue;
    const message = { role: "assistant", content: turn.content };
    if (turn.reasoning !== "") message.reasoning_content = turn.reasoning;
    if (calls.length > 0) {
      message.tool_calls = calls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      }));
    }
    list.push(message, ...calls.map((call) => ({ role: "tool", tool_call_id: call.id, content: call.result })));
  }
  return list;
}
