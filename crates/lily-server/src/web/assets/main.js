// The page: wires the parts together.

import { config, health } from "/web/api.js";
import { answerTurn, messages, restore, userTurn, waitsForResults } from "/web/conversation.js";
import { el, find, grow } from "/web/dom.js";
import { Generation } from "/web/generation.js";
import { Settings } from "/web/settings.js";
import { load, loadKey, save, saveKey } from "/web/store.js";
import { themeSwitch } from "/web/theme.js";
import { AnswerView, userView } from "/web/view.js";

const SUGGESTIONS = ["What are you?", "What is 12 + 30?", "Tell me a short story."];
const SAVE_EVERY = 1000;
const POLL = { well: 15_000, gone: 2_000 };

const log = find("log");
const prompt = find("prompt");
const settings = new Settings();

let turns = restore(load("conversation", []));
let views = [];
let running = null;
let model = "";
let context = null;
let needsKey = false;
let leaving = false;

// ---------------------------------------------------------------- the conversation on the page

const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;

function toEnd() {
  log.scrollTop = log.scrollHeight;
}

function viewOf(turn) {
  if (turn.role === "user") return { node: userView(turn), update() {} };
  return new AnswerView(turn, { again: regenerate, give: (call, text) => give(turn, call, text) });
}

function add(turn) {
  turns.push(turn);
  const view = viewOf(turn);
  views.push(view);
  log.append(view.node);
  return view;
}

function showAll() {
  views = turns.map(viewOf);
  log.replaceChildren(...views.map((view) => view.node));
  refresh();
  toEnd();
}

// Every view anew: only the last answer can be made again or goes on.
function refresh() {
  views.forEach((view, index) => {
    const last = index === views.length - 1;
    view.update({ last: last && !running, running: last && running !== null, progress: running?.progress });
  });
  find("welcome").hidden = turns.length > 0;
  log.hidden = turns.length === 0;
  find("new-chat").disabled = turns.length === 0;
  find("send").hidden = running !== null;
  find("stop").hidden = running === null;
  const stats = turns.findLast((turn) => turn.stats?.prompt !== undefined)?.stats;
  const used = stats && stats.prompt + stats.tokens;
  find("footer").dataset.context =
    used && context ? `${used.toLocaleString("en-GB")} of ${context.toLocaleString("en-GB")} tokens of context` : "";
}

let kept = true;
function keep() {
  const before = kept;
  kept = save("conversation", turns);
  if (before && !kept) toast("The conversation is too long to be kept by this browser.");
}

function announce(text) {
  find("announce").textContent = text;
}

let toastTimer;
function toast(text, action, act) {
  const node = find("toast");
  const button = action && el("button", { type: "button", class: "quiet", onclick: () => ((node.hidden = true), act()) }, action);
  node.replaceChildren(text, ...(button ? [button] : []));
  node.hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => (node.hidden = true), 8000);
}

// ---------------------------------------------------------------- asking

// The settings as a request has them; null, and said to the user, if one of them cannot be read.
function fields() {
  try {
    return settings.fields();
  } catch (error) {
    toast(error.message);
    if (find("settings").hidden) openSettings(true);
    return null;
  }
}

async function ask() {
  const set = fields();
  if (running || !set) return;
  const body = { messages: messages(turns, settings.system), ...set };
  if (model) body.model = model;
  const turn = answerTurn();
  const view = add(turn);
  let drawing = false;
  let saved = performance.now();
  const draw = () => {
    drawing = false;
    if (!running) return;
    const follow = atEnd();
    view.update({ running: true, progress: running.progress });
    if (follow) toEnd();
    if (performance.now() - saved > SAVE_EVERY) {
      saved = performance.now();
      keep();
    }
  };
  running = new Generation(body, turn, () => {
    if (!drawing) requestAnimationFrame(draw);
    drawing = true;
  });
  refresh();
  draw();
  toEnd();
  announce("Lily is answering.");
  const status = await running.run();
  const follow = atEnd();
  running = null;
  refresh();
  if (follow) toEnd();
  if (leaving) return;
  keep();
  if (status === null) {
    announce(view.content.textContent || "The answer has ended.");
    showKeyBanner(false);
    if (waitsForResults(turn)) view.focusResult();
  } else if (status === 401) {
    showKeyBanner(true);
  } else if (status === 0) {
    poll();
  }
}

function send(text) {
  if (running || text.trim() === "" || !fields()) return;
  add(userTurn(text));
  prompt.value = "";
  grow(prompt);
  keep();
  ask();
}

function regenerate() {
  if (running || turns.at(-1)?.role !== "assistant" || !fields()) return;
  turns.pop();
  views.pop().node.remove();
  ask();
  prompt.focus();
}

function give(turn, call, text) {
  if (!fields()) return;
  call.result = text;
  keep();
  refresh();
  if (waitsForResults(turn)) {
    views.at(-1).focusResult();
  } else {
    prompt.focus();
    ask();
  }
}

function clear() {
  running?.stop();
  const before = turns;
  turns = [];
  keep();
  showAll();
  prompt.focus();
  toast("The conversation was cleared.", "Undo", () => {
    if (turns.length > 0) return;
    turns = restore(before);
    keep();
    showAll();
  });
}

function forget() {
  running?.stop();
  turns = [];
  settings.reset();
  for (const name of ["conversation", "settings"]) save(name, undefined);
  saveKey("");
  showKeyBanner(needsKey);
  showAll();
  toast("Conversation, settings and key were forgotten.");
}

// ---------------------------------------------------------------- panels

function openSettings(open) {
  find("settings").hidden = !open;
  find("open-settings").setAttribute("aria-expanded", open);
  document.body.classList.toggle("with-settings", open);
  (open ? find("settings").querySelector("textarea") : find("open-settings")).focus();
}

function showKeyBanner(show) {
  find("key-banner").hidden = !show;
  if (show) find("key").focus();
}

// ---------------------------------------------------------------- the server

let pollTimer;
async function poll() {
  clearTimeout(pollTimer);
  let state = "ready";
  let words;
  try {
    const answer = await health();
    if (context === null) await learn();
    ({ model, context } = answer);
    state = answer.status === "ok" ? "ready" : "gone";
    const busy = answer.running + answer.waiting;
    words = state === "gone" ? `${model} takes no requests now` : busy > 0 ? `${model} · ${busy} at work` : model;
    find("status").title = `${answer.backend} · Lily ${answer.version}`;
  } catch {
    state = "gone";
    words = "not reachable, trying again…";
  }
  find("status").dataset.state = state;
  find("status-text").textContent = words;
  refresh();
  pollTimer = setTimeout(poll, state === "ready" ? POLL.well : POLL.gone);
}

async function learn() {
  const known = await config();
  needsKey = known.needs_key;
  settings.showDefaults(known.defaults);
  if (needsKey && !loadKey()) showKeyBanner(true);
}

// ---------------------------------------------------------------- events

find("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send(prompt.value);
});
prompt.addEventListener("input", () => grow(prompt));
prompt.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(prompt.value);
});
find("stop").addEventListener("click", () => {
  running?.stop();
  prompt.focus();
});
find("new-chat").addEventListener("click", clear);
find("forget").addEventListener("click", forget);
find("open-settings").addEventListener("click", () => openSettings(find("settings").hidden));
find("close-settings").addEventListener("click", () => openSettings(false));
find("to-end").addEventListener("click", toEnd);
find("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  saveKey(find("key").value.trim());
  find("key").value = "";
  showKeyBanner(false);
  if (turns.at(-1)?.error) regenerate();
  else prompt.focus();
});
log.addEventListener("scroll", () => (find("to-end").hidden = atEnd()), { passive: true });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (running) running.stop();
    else if (!find("settings").hidden) openSettings(false);
  } else if (event.target === document.body && event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
    // Whoever types means the message.
    prompt.focus();
  }
});
addEventListener("pagehide", () => {
  // What the browser breaks off now is no fault of the server: it is kept as an answer that was stopped.
  leaving = true;
  keep();
  running?.stop();
});
addEventListener("pageshow", () => (leaving = false));
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});

for (const text of SUGGESTIONS) {
  find("suggestions").append(el("button", { type: "button", class: "quiet", onclick: () => send(text) }, text));
}
themeSwitch(find("theme"));
showAll();
poll();
