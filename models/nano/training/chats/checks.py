"""The evaluation suite: what is asked for each task and what counts as passed."""

import json
import re

from .facts import facts
from .numbers import arithmetic, compare, count
from .passages import long_passage, passage
from .records import as_json
from .small_talk import greet, identity
from .stories import story
from .tools import tools
from .turns import memory, multi
from .words import case, copy, sort, spell


def parse_calls(text):
    """The tool calls in an answer, as [name, arguments as text]."""
    calls = []
    for name, body in re.findall(r"<tool_call>\n<function=([^>\n]+)>\n(.*?)</function>\n</tool_call>", text, re.S):
        calls.append([name, dict(re.findall(r"<parameter=([^>\n]+)>\n(.*?)\n</parameter>\n", body, re.S))])
    return calls


def passed(c, text):
    """True if text, an answer up to and with its <|im_end|>, is what conversation c asked for."""
    if not text.endswith("<|im_end|>"):
        return False
    body = text[:-10].split("</think>\n\n")[-1].strip() if "</think>" in text else text[:-10].strip()
    k = c.check
    if "call" in k:
        want = [
            [n, {a: (json.dumps(v) if isinstance(v, (dict, list)) else str(v)) for a, v in args.items()}]
            for n, args in k["call"]
        ]
        return parse_calls(body) == want
    if "<tool_call>" in body:
        return False
    if "json" in k:
        try:
            return json.loads(body) == k["json"]
        except ValueError:
            return False
    if "contains" in k:
        return k["contains"] in body
    if "story" in k:
        return 40 <= len(body.split()) <= 200 and all(w.lower() in body.lower() for w in k["story"])
    return body == k["exact"]


def only(kind):
    """Tool chats of one kind."""

    def draw(sampler, thinking):
        while True:
            c, thinking = sampler.chat(tools, thinking)
            if c.task == kind:
                return c, thinking

    return draw


def of_task(function, target=None):
    """Chats of one task."""
    return lambda sampler, thinking: sampler.chat(function, thinking, target)


PLAIN = (
    greet,
    identity,
    copy,
    count,
    arithmetic,
    compare,
    sort,
    spell,
    case,
    passage,
    as_json,
    memory,
    multi,
    facts,
    story,
)
# Name of a task -> function of (sampler, thinking) that gives (conversation, thinking).
SUITE = {function.__name__: of_task(function) for function in PLAIN}
SUITE |= {kind: only(kind) for kind in ("tool_call", "tool_parallel", "tool_result", "tool_none")}
SUITE |= {"long_1k": of_task(long_passage, 3300), "long_4k": of_task(long_passage, 11800)}
