"""A conversation, the words it is made of, and its text in the chat format."""

import json
import os
import zlib
from dataclasses import dataclass, field

TOOL_HEAD = "# Tools\n\nFunctions you can call:\n\n<tools>"
TOOL_TAIL = """\n</tools>

To call a function, answer with:

<tool_call>
<function=NAME>
<parameter=PARAMETER>
VALUE
</parameter>
</function>
</tool_call>"""


def held_out(word):
    """True for the tenth of all names that only evaluation uses."""
    return zlib.crc32(word.lower().encode()) % 10 == 0


class Bank:
    """Names and words, for training or (evaluation=True) the held-out tenth of them."""

    def __init__(self, folder, evaluation=False):
        def load(name):
            with open(os.path.join(folder, name + ".json"), encoding="utf8") as file:
                return json.load(file)

        def plain(words):
            return sorted({w for w in words if w.isascii() and w.isalpha() and 3 <= len(w) <= 9})

        self.names = [name for name in plain(load("names")) if held_out(name) == evaluation]
        self.words = plain(load("words"))  # not held out: evaluation combines them anew
        self.sentences = load("sentences_eval" if evaluation else "sentences")


@dataclass
class Conversation:
    """What is asked and what must be answered."""

    messages: list  # of dicts with role and content; an assistant's may have "think" and "calls"
    answer: str
    think: str = ""
    tools: list | None = None
    calls: list | None = None  # of (name, arguments) pairs, after the answer's text
    task: str = ""
    check: dict = field(default_factory=dict)  # what counts as passed, see checks.py


def call_text(calls):
    """Tool calls as the model writes them."""
    out = []
    for name, args in calls:
        s = f"<tool_call>\n<function={name}>\n"
        for k, v in args.items():
            v = json.dumps(v, ensure_ascii=False) if isinstance(v, (dict, list)) else str(v)
            s += f"<parameter={k}>\n{v}\n</parameter>\n"
        out.append(s + "</function>\n</tool_call>")
    return "\n".join(out)


def render(c, thinking):
    """(prompt, completion) exactly as the chat template gives them, completion ending in <|im_end|>\\n."""
    p, msgs = "", list(c.messages)
    system = msgs.pop(0)["content"].strip() if msgs[0]["role"] == "system" else None
    if c.tools:
        p += (
            "<|im_start|>system\n"
            + TOOL_HEAD
            + "".join("\n" + json.dumps(t, ensure_ascii=False) for t in c.tools)
            + TOOL_TAIL
        )
        p += ("\n\n" + system if system else "") + "<|im_end|>\n"
    elif system is not None:
        p += f"<|im_start|>system\n{system}<|im_end|>\n"
    last = max(i for i, m in enumerate(msgs) if m["role"] == "user")
    for i, m in enumerate(msgs):
        if m["role"] == "user":
            p += f"<|im_start|>user\n{m['content'].strip()}<|im_end|>\n"
        elif m["role"] == "assistant":
            text = m["content"].strip()
            if i > last:
                text = f"<think>\n{m.get('think', '').strip() if thinking else ''}\n</think>\n\n" + text
            if m.get("calls"):
                text += ("\n\n" if m["content"].strip() else "") + call_text(m["calls"])
            p += f"<|im_start|>assistant\n{text}<|im_end|>\n"
        else:
            if msgs[i - 1]["role"] != "tool":
                p += "<|im_start|>user"
            p += f"\n<tool_response>\n{m['content'].strip()}\n</tool_response>"
            if i + 1 == len(msgs) or msgs[i + 1]["role"] != "tool":
                p += "<|im_end|>\n"
    p += "<|im_start|>assistant\n"
    body = c.answer
    if c.calls:
        body += ("\n\n" if body else "") + call_text(c.calls)
    if thinking:
        return p + "<think>\n", f"{c.think.strip()}\n</think>\n\n{body}<|im_end|>\n"
    return p + "<think>\n\n</think>\n\n", f"{body}<|im_end|>\n"
