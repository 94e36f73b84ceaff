// A turn on the page.

import { copyButton, el, grow } from "/web/dom.js";
import { Markdown } from "/web/markdown.js";

const ENDS = {
  length: "Cut: the most tokens, or the end of the context.",
  stopped: "Stopped.",
};

// What the user said, as it was typed.
export function userView(turn) {
  return el("article", { class: "turn user", "aria-label": "You" }, el("div", { class: "bubble" }, turn.text));
}

// An answer that grows. `actions` are { again, give(call, text) }.
export class AnswerView {
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.summary = el("summary");
    this.thought = el("div", { class: "thought" });
    this.thinking = el("details", { class: "thinking", hidden: true }, this.summary, this.thought);
    this.touched = false;
    this.summary.addEventListener("click", () => (this.touched = true));
    this.content = el("div", { class: "markdown" });
    this.markdown = new Markdown(this.content);
    this.calls = el("div", { class: "calls" });
    this.callViews = [];
    this.note = el("p", { class: "note", hidden: true });
    this.error = el("p", { class: "error", role: "alert", hidden: true });
    this.figures = el("span", { class: "figures" });
    this.again = el("button", { type: "button", class: "quiet small again", onclick: () => actions.again() }, "Regenerate");
    this.copy = copyButton(() => this.turn.content);
    this.foot = el("footer", {}, this.figures, el("span", { class: "actions" }, this.copy, this.again));
    this.node = el(
      "article",
      { class: "turn assistant", "aria-label": "Lily" },
      this.thinking, this.content, this.calls, this.note, this.error, this.foot,
    );
  }

  // Shows the turn as it is. `progress` is [done, total] of a prompt that is being read; `last` allows to go on from it.
  update({ running = false, progress = null, last = false } = {}) {
    const { turn } = this;
    this.node.setAttribute("aria-busy", running);
    this.#showThinking(running);
    this.markdown.update(turn.content);
    turn.calls.forEach((call, index) => {
      this.callViews[index] ??= this.#addCall(call);
      this.callViews[index].update(running, last && turn.finish === "tool_calls");
    });
    const waiting = running && turn.content === "" && turn.reasoning === "" && turn.calls.length === 0;
    this.node.classList.toggle("waiting", waiting);
    this.note.textContent = waiting ? waitingText(progress) : (ENDS[turn.finish] ?? "");
    this.note.hidden = this.note.textContent === "";
    this.error.textContent = turn.error ?? "";
    this.error.hidden = !turn.error;
    this.figures.textContent = figures(turn.stats);
    this.copy.hidden = running || turn.content === "";
    this.again.hidden = running || !last;
    this.again.textContent = turn.error ? "Try again" : "Regenerate";
  }

  #showThinking(running) {
    const { turn } = this;
    const busy = running && turn.content === "" && turn.calls.length === 0;
    this.thinking.hidden = turn.reasoning === "";
    if (!this.touched) this.thinking.open = busy;
    const took = turn.stats?.thought;
    const thought = took >= 10 ? `Thought for ${time(took)}` : "Thought for a moment";
    this.summary.textContent = busy ? "Thinking…" : thought;
    if (this.thought.textContent !== turn.reasoning) this.thought.textContent = turn.reasoning;
  }

  #addCall(call) {
    const view = new CallView(call, (text) => this.actions.give(call, text));
    this.calls.append(view.node);
    return view;
  }

  // Puts the cursor where the next result goes.
  focusResult() {
    this.callViews.find((view) => !view.form.hidden)?.field.focus();
  }
}

class CallView {
  constructor(call, give) {
    this.call = call;
    this.name = el("code");
    this.arguments = el("code");
    this.result = el("pre", { class: "result", hidden: true });
    this.field = el("textarea", { rows: 1, spellcheck: "false", placeholder: "Text or JSON" });
    this.state = el("span", { class: "hint" });
    this.form = el(
      "form",
      { hidden: true },
      el("label", {}, "Result", this.field),
      el("button", { type: "submit" }, "Give result"),
    );
    const submit = (event) => {
      event.preventDefault();
      if (this.field.value !== "") give(this.field.value);
      else this.field.focus();
    };
    this.form.addEventListener("submit", submit);
    this.field.addEventListener("input", () => grow(this.field));
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
    });
    this.node = el(
      "section",
      { class: "call", "aria-label": "Tool call" },
      el("header", {}, this.name, this.state),
      el("pre", { class: "arguments", tabindex: "0" }, this.arguments),
      this.result, this.form,
    );
  }

  update(running, takesResult) {
    const { call } = this;
    const answered = typeof call.result === "string";
    this.name.textContent = call.name;
    this.arguments.textContent = pretty(call.arguments);
    this.result.textContent = answered ? call.result : "";
    this.result.hidden = !answered;
    this.form.hidden = answered || !takesResult;
    this.field.setAttribute("aria-label", `Result of ${call.name}`);
    this.state.textContent = answered ? "called" : running ? "calling…" : takesResult ? "waits for its result" : "not answered";
  }
}

function waitingText(progress) {
  if (progress && progress[0] < progress[1]) return `Reading the prompt: ${progress[0]} of ${progress[1]} tokens`;
  return "…";
}

// Arguments for people: over several lines where they are long, once they are whole.
function pretty(text) {
  try {
    return text.length > 60 ? JSON.stringify(JSON.parse(text), null, 2) : text;
  } catch {
    return text;
  }
}

const time = (ms) => (ms < 950 ? `${(ms / 1000).toFixed(2)} s` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`);
const count = (number) => number.toLocaleString("en-GB");

// "84 tok/s · first token 0.21 s · 58 tokens · prompt 120, 96 cached"
export function figures(stats) {
  if (!stats) return "";
  const parts = [];
  if (stats.rate) parts.push(`${stats.rate.toFixed(stats.rate < 10 ? 1 : 0)} tok/s`);
  if (stats.first !== undefined) parts.push(`first token ${time(stats.first)}`);
  if (stats.tokens !== undefined) parts.push(`${count(stats.tokens)} tokens`);
  if (stats.prompt !== undefined) parts.push(`prompt ${count(stats.prompt)}, ${count(stats.cached)} cached`);
  return parts.join(" · ");
}
