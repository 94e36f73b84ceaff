"""Check the chats: conversation.render() must give what the chat template gives, byte for byte.

With a tokenizer, prints token statistics per task; with --show, prints that many chats.
"""

import argparse
import collections
import json
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

from chats.conversation import render
from chats.sampler import Sampler


def compile_template(path):
    """The chat template in Jinja as transformers sets it up."""

    def refuse(message):
        raise ValueError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **_: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = refuse
    with open(path, encoding="utf8") as file:
        return environment.from_string(file.read())


def wire_calls(calls):
    return [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in calls or []]


def from_template(template, c, thinking):
    """(prompt, prompt and completion) of a conversation, by the template."""
    messages = [dict(message) for message in c.messages]
    for message in messages:
        if message["role"] == "assistant":
            message["reasoning_content"] = message.pop("think", "") if thinking else ""
            if message.get("calls"):
                message["tool_calls"] = wire_calls(message.pop("calls"))
    options = {} if thinking else {"enable_thinking": False}
    prompt = template.render(messages=messages, tools=c.tools, add_generation_prompt=True, **options)
    answer = {
        "role": "assistant",
        "content": c.answer,
        "reasoning_content": c.think if thinking else "",
        "tool_calls": wire_calls(c.calls),
    }
    whole = template.render(messages=messages + [answer], tools=c.tools, add_generation_prompt=False, **options)
    return prompt, whole


def main(data, template, tokenizer, chats, show):
    compiled = compile_template(template)
    tokens = None
    if tokenizer:
        from tokenizers import Tokenizer

        tokens = Tokenizer.from_file(tokenizer)
    sampler = Sampler(data, 99)
    mismatches, shown = 0, 0
    statistics = collections.defaultdict(lambda: [0, 0, 0])
    for _ in range(chats):
        c, thinking = sampler.chat()
        prompt, completion = render(c, thinking)
        expected_prompt, expected = from_template(compiled, c, thinking)
        if expected_prompt != prompt or expected != prompt + completion:
            mismatches += 1
            if mismatches < 3:
                print(f"MISMATCH in {c.task}\n{expected[-500:]!r}\n{(prompt + completion)[-500:]!r}")
        if tokens:
            row = statistics[c.task]
            row[0] += 1
            row[1] += len(tokens.encode(prompt).ids)
            row[2] += len(tokens.encode(completion).ids)
        if shown < show:
            shown += 1
            print("=" * 30, c.task, f"\n{prompt}▶{completion}")
    for task, (n, prompt, completion) in sorted(statistics.items()):
        print(f"{task:14s} {n:5d} chats, tokens: prompt {prompt / n:7.1f}, completion {completion / n:6.1f}")
    print(f"{mismatches} of {chats} chats differ from the template")
    return mismatches == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the DATA folder")
    parser.add_argument("template", help="chat_template.jinja")
    parser.add_argument("--tokenizer", help="tokenizer.json, for token statistics")
    parser.add_argument("--chats", type=int, default=3000)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print the first N chats")
    sys.exit(0 if main(**vars(parser.parse_args())) else 1)
