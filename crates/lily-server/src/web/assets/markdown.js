// Markdown as models write it, built from DOM nodes: headings, lists, quotes, tables, code, emphasis, links.
//
// Text becomes text nodes and nothing else; HTML in it stays text, images become links, and a link needs a scheme that
// is safe to follow. Time grows with the length of the text, whatever stands in it.

import { copyButton, el } from "/web/dom.js";

const MOST_NESTED = 6;

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|( +)|$)/;

const indent = (line) => line.length - line.trimStart().length;
const blank = (line) => line.trim() === "";

// A text that grows is rendered again only from the first block that has changed.
export class Markdown {
  constructor(container) {
    this.container = container;
    this.sources = [];
  }

  update(text) {
    const parts = blocks(text.replaceAll("\r\n", "\n"));
    const changed = parts.findIndex((block, index) => block.source !== this.sources[index]);
    const same = changed < 0 ? parts.length : changed;
    while (this.container.childNodes.length > same) this.container.lastChild.remove();
    for (const block of parts.slice(same)) this.container.append(render(block, 0));
    this.sources = parts.map((block) => block.source);
  }
}

// ---------------------------------------------------------------- blocks

function blocks(text) {
  const lines = text.split("\n");
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (blank(lines[at])) {
      at += 1;
      continue;
    }
    const begin = at;
    const block =
      fence(lines, at) ?? heading(lines, at) ?? rule(lines, at) ?? quote(lines, at) ?? list(lines, at) ??
      table(lines, at) ?? paragraph(lines, at);
    at = block.end;
    block.source = `${block.type}\n${lines.slice(begin, at).join("\n")}`;
    found.push(block);
  }
  return found;
}

function fence(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const [, marks, words] = open;
  const language = words.trim().split(/\s/)[0];
  const closes = (line) => {
    const trimmed = line.trim();
    return indent(line) <= 3 && trimmed.length >= marks.length && trimmed === marks[0].repeat(trimmed.length);
  };
  let end = at + 1;
  while (end < lines.length && !closes(lines[end])) end += 1;
  const margin = indent(lines[at]);
  const inside = lines.slice(at + 1, end).map((line) => line.slice(Math.min(margin, indent(line))));
  return { type: "code", language, text: inside.join("\n"), end: Math.min(end + 1, lines.length) };
}

function heading(lines, at) {
  const match = HEADING.exec(lines[at]);
  const text = match && (match[2] ?? "").trim().replace(/(^|[ \t])#+$/, "");
  return match && { type: "heading", level: match[1].length, text, end: at + 1 };
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? { type: "rule", end: at + 1 } : null;
}

function quote(lines, at) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  if (end === at) return null;
  return { type: "quote", text: lines.slice(at, end).map((line) => line.replace(QUOTE, "")).join("\n"), end };
}

function list(lines, at) {
  const first = ITEM.exec(lines[at]);
  if (!first || first[1].length > 3) return null;
  const ordered = /\d/.test(first[2]);
  const margin = first[1].length;
  const items = [];
  let end = at;
  while (end < lines.length) {
    const line = lines[end];
    const item = ITEM.exec(line);
    if (item && item[1].length < margin + 2 && !RULE.test(line)) {
      if (/\d/.test(item[2]) !== ordered) break;
      const inner = item[1].length + item[2].length + (item[3]?.length ?? 1);
      items.push({ lines: [line.slice(inner)], inner });
    } else if (blank(line)) {
      // The list goes on only if what follows is an item or belongs to one.
      let next = end + 1;
      while (next < lines.length && blank(lines[next])) next += 1;
      if (next === lines.length) break;
      const follows = ITEM.exec(lines[next]);
      const goesOn = follows && follows[1].length < margin + 2 && /\d/.test(follows[2]) === ordered;
      if (!goesOn && indent(lines[next]) < margin + 2) break;
      items.at(-1).lines.push(...lines.slice(end, next));
      end = next;
      continue;
    } else if (indent(line) >= margin + 2) {
      const { inner, lines: own } = items.at(-1);
      own.push(line.slice(Math.min(inner, indent(line))));
    } else if (!blank(lines[end - 1]) && !startsBlock(lines, end)) {
      items.at(-1).lines.push(line);
    } else {
      break;
    }
    end += 1;
  }
  return { type: "list", start: ordered ? parseInt(first[2], 10) : null, items: items.map((item) => item.lines.join("\n")), end };
}

function table(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes("|")) return null;
  const head = cells(lines[at]);
  const line = cells(lines[at + 1]);
  if (line.length !== head.length || !line.every((cell) => /^:?-+:?$/.test(cell))) return null;
  const sides = line.map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return right ? (left ? "center" : "right") : "";
  });
  let end = at + 2;
  const rows = [];
  while (end < lines.length && lines[end].includes("|") && !blank(lines[end])) rows.push(cells(lines[end++]));
  return { type: "table", head, sides, rows, end };
}

function cells(line) {
  const inside = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inside.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function startsBlock(lines, at) {
  const line = lines[at];
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) end += 1;
  return { type: "paragraph", text: lines.slice(at, end).map((line) => line.trim()).join("\n"), end };
}

function render(block, depth) {
  switch (block.type) {
    case "code":
      return el(
        "figure",
        { class: "code-block" },
        el("figcaption", {}, el("span", {}, block.language), copyButton(() => block.text)),
        el("pre", { tabindex: "0" }, el("code", {}, block.text)),
      );
    case "heading":
      // The page's own headings come first.
      return el(`h${Math.min(block.level + 2, 6)}`, { class: `level-${block.level}` }, ...inline(block.text));
    case "rule":
      return el("hr");
    case "quote":
      return el("blockquote", {}, ...nested(block.text, depth));
    case "list": {
      const items = block.items.map((item) => el("li", {}, ...itemNodes(item, depth)));
      return block.start === null ? el("ul", {}, ...items) : el("ol", { start: block.start }, ...items);
    }
    case "table": {
      const row = (tag, texts) =>
        el("tr", {}, ...block.head.map((_, i) => el(tag, { class: block.sides[i] || null }, ...inline(texts[i] ?? ""))));
      const body = el("tbody", {}, ...block.rows.map((texts) => row("td", texts)));
      return el("div", { class: "table", tabindex: "0" }, el("table", {}, el("thead", {}, row("th", block.head)), body));
    }
    default:
      return el("p", {}, ...inline(block.text));
  }
}

function nested(text, depth) {
  if (depth >= MOST_NESTED) return [el("p", {}, text)];
  return blocks(text).map((block) => render(block, depth + 1));
}

// The first paragraph of an item stands beside its mark.
function itemNodes(text, depth) {
  if (depth >= MOST_NESTED) return [text];
  const [first, ...rest] = blocks(text);
  if (!first) return [];
  const others = rest.map((block) => render(block, depth + 1));
  return first.type === "paragraph" ? [...inline(first.text), ...others] : [render(first, depth + 1), ...others];
}

// ---------------------------------------------------------------- inside a line

const LINK = /!?\[((?:[^\[\]\\\n]|\\.){0,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,500}\)[^\s<>()]{0,500})?)>?(?:\s+"[^"\n]{0,500}")?\s*\)/y;
const ANGLE = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BARE = /https?:\/\/[^\s<>"'`]{1,2000}/y;
const WORD = /[\p{L}\p{N}_]/u;
const TAGS = { "***": "strong", "**": "strong", __: "strong", "*": "em", _: "em", "~~": "s" };

function inline(text, depth = 0) {
  const nodes = [];
  // Marks that have no partner in the rest of the text are not looked for again.
  const alone = new Set();
  let plain = "";
  let at = 0;
  const push = (node) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  while (at < text.length) {
    const step = special(text, at, alone, depth);
    if (!step) {
      plain += text[at];
      at += 1;
    } else {
      if (step.node) push(step.node);
      else plain += step.text;
      at = step.end;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

// What begins at a place, if it is more than a character: its node (or text) and its end.
function special(text, at, alone, depth) {
  const letter = text[at];
  switch (letter) {
    case "\n":
      return { node: el("br"), end: at + 1 };
    case "\\":
      return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { text: text[at + 1], end: at + 2 } : null;
    case "`":
      return codeSpan(text, at, alone);
    case "*":
    case "_":
    case "~":
      return depth < MOST_NESTED ? emphasis(text, at, alone, depth) : null;
    case "!":
    case "[": {
      const match = matchAt(LINK, text, at);
      if (!match) return null;
      const label = depth < MOST_NESTED ? inline(match[1] || match[2], MOST_NESTED) : [match[1]];
      const node = link(match[2], label);
      return node && { node, end: at + match[0].length };
    }
    case "<": {
      const match = matchAt(ANGLE, text, at);
      const node = match && link(match[1], [match[1]]);
      return node && { node, end: at + match[0].length };
    }
    case "h": {
      if (depth >= MOST_NESTED || (at > 0 && WORD.test(text[at - 1]))) return null;
      const match = matchAt(BARE, text, at);
      if (!match) return null;
      let url = match[0].replace(/[.,;:!?*_~]+$/, "");
      if (url.endsWith(")") && !url.includes("(")) url = url.slice(0, -1);
      const node = link(url, [url]);
      return node && { node, end: at + url.length };
    }
    default:
      return null;
  }
}

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function run(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return end - at;
}

function codeSpan(text, at, alone) {
  const length = run(text, at);
  const marks = "`".repeat(length);
  if (!alone.has(marks)) {
    let close = at + length;
    while ((close = text.indexOf(marks, close)) >= 0) {
      const found = run(text, close);
      if (found === length) {
        const inside = text.slice(at + length, close).replaceAll("\n", " ");
        const padded = inside.startsWith(" ") && inside.endsWith(" ") && inside.trim() !== "";
        return { node: el("code", {}, padded ? inside.slice(1, -1) : inside), end: close + length };
      }
      close += found;
    }
    alone.add(marks);
  }
  return { text: marks, end: at + length };
}

function emphasis(text, at, alone, depth) {
  const length = run(text, at);
  const letter = text[at];
  const literal = { text: text.slice(at, at + length), end: at + length };
  const mark = letter.repeat(Math.min(length, letter === "~" ? 2 : 3));
  if (length > 3 || !(mark in TAGS || mark === "___")) return literal;
  const after = text[at + length];
  const inWord = letter === "_" && at > 0 && WORD.test(text[at - 1]);
  if (after === undefined || /\s/.test(after) || inWord) return literal;
  const close = closing(text, at + length, mark, alone);
  if (close < 0) return literal;
  const inside = inline(text.slice(at + length, close), depth + 1);
  const node =
    length === 3 ? el("strong", {}, el("em", {}, ...inside)) : el(TAGS[mark], {}, ...inside);
  return { node, end: close + length };
}

// Where a mark ends what it began, or -1. Marks inside code do not count.
function closing(text, from, mark, alone) {
  if (alone.has(mark)) return -1;
  let at = from;
  while (at < text.length) {
    const letter = text[at];
    if (letter === "\\") {
      at += 2;
    } else if (letter === "`") {
      const length = run(text, at);
      const marks = "`".repeat(length);
      const close = alone.has(marks) ? -1 : text.indexOf(marks, at + length);
      if (close < 0) alone.add(marks);
      at = close < 0 ? at + length : close + length;
    } else if (letter === mark[0]) {
      const length = run(text, at);
      const opens = /\s/.test(text[at - 1]);
      const inWord = letter === "_" && WORD.test(text[at + length] ?? "");
      if (!opens && !inWord && length >= mark.length && (mark.length > 1 || length !== 2)) {
        return at + length - mark.length;
      }
      at += length;
    } else {
      at += 1;
    }
  }
  alone.add(mark);
  return -1;
}

// A link, if its address is whole and its scheme cannot run anything.
function link(address, label) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return null;
  return el("a", { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...label);
}
