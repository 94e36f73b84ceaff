#!/usr/bin/env python3
"""Renders requests and template snippets with real Jinja2, set up as transformers sets it up, and writes goldens.

    pip install jinja2 tokenizers
    tools/template_oracle.py snippets > crates/lily-text/tests/data/jinja.jsonl
    tools/template_oracle.py requests models/nano > crates/lily-text/tests/data/nano_prompts.jsonl
    tools/template_oracle.py requests FOLDER --count 20000 --seed 7 > more.jsonl

With --transformers, requests are rendered by transformers' own apply_chat_template instead (slower; to check this
script's set-up against it).
"""

import argparse
import json
import random
import sys
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.sandbox


class Refused(Exception):
    """The template's own raise_exception."""


def environment():
    """The environment of transformers.utils.chat_template_utils._compile_jinja_template."""

    def raise_exception(message):
        raise Refused(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    return env


# ---------------------------------------------------------------------------------------------------------- snippets

TEXTS = [
    "", " ", "a", "Hello, World!", "  two  words \n", "\t\x1c\x1d mixed \x1e\x1f\x85\u2028", "\u200b zero \u200b",
    "é東京 😀", "x/y 'single' \"double\" <b>&amp;</b>", "one\ntwo\r\nthree\rfour\x0bfive\x0c", "they're bill's",
    "a--b--c", "</think>x</think>y", "ABC def", "ǆ ß ﬁ", "007", "-42", "CamelCase", "\u3000wide\u3000", "line\n",
]

METHODS = [
    "strip()", "lstrip()", "rstrip()", "strip('\\n')", "strip('ab ')", "rstrip('\\n')", "lstrip('\\n')", "strip('')",
    "strip(none)", "split()", "split(' ')", "split('--')", "split('--', 1)", "split(none, 1)", "split(maxsplit=1)",
    "split('</think>')[0]", "split('</think>')[-1]", "rsplit('--', 1)", "rsplit(none, 1)", "splitlines()",
    "splitlines(true)", "startswith('a')", "startswith(('x', 'a'))", "endswith('!')", "endswith('y', 2)",
    "startswith('e', 1)", "replace('a', 'bb')", "replace('', '-')", "replace('-', '', 1)", "replace('o', 'O', -1)",
    "upper()", "lower()", "title()", "capitalize()", "find('o')", "rfind('o')", "find('o', 5)", "count('e')",
    "count('')", "partition('--')", "rpartition('--')", "removeprefix('a')", "removesuffix('c')", "isspace()",
    "isalpha()", "isdigit()", "isalnum()", "isupper()", "islower()", "isascii()", "zfill(5)", "ljust(6, '.')",
    "rjust(6)", "center(7)", "center(8, '*')", "swapcase()", "join(['1', '2'])", "format(1)",
]

FILTERS = [
    "trim", "trim('a')", "upper", "lower", "title", "capitalize", "length", "string", "tojson", "list", "first", "last",
    "reverse", "replace('a', 'b')", "default('d')", "int", "float", "wordcount", "safe", "indent(2)",
]

VALUES = [
    None, True, False, 0, 1, -3, 2**63, -(2**63), 2**64 + 1, 2**100, 10**50, 1.0, 1.5, 0.1, 1e16, 1e15, 1e-5, 1e-4, 5e-324,
    123456789.125, -0.0, 1e400, [], [1], [1, "a", None, True, 1.5], {}, {"a": 1}, {"b": {"c": [1, {}]}, "a": "é"},
    {"k": 'q"uote', "items": [1, 2], "get": "x"}, "text", "it's", 'say "hi"', "both ' and \"", "tab\tnew\nnul\x00\x7f\x1b",
]

VALUE_SNIPPETS = [
    "{{ v }}", "{{ v ~ '|' }}", "{{ '' ~ v ~ '' }}", "{{ v | string }}", "{{ v | tojson }}", "{{ v | tojson(indent=2) }}",
    "{{ v | tojson(separators=(',', ':')) }}", "{{ v | tojson(sort_keys=true, ensure_ascii=true) }}",
    "{{ v | tojson(indent=none) }}", "{{ [v, v] }}", "{{ {'k': v} }}", "{{ {'k': v} | tojson }}", "{{ (v, 1) }}",
    "{{ 'yes' if v else 'no' }}", "{{ v is string }} {{ v is mapping }} {{ v is iterable }} {{ v is sequence }}",
    "{{ v is none }} {{ v is true }} {{ v is false }} {{ v is boolean }} {{ v is defined }} {{ v is undefined }}",
    "{{ v is number }} {{ v is integer }} {{ v is float }}", "{{ v == v }} {{ v == none }} {{ v != 1 }}",
    "{{ v in [1, 'text', none] }}", "{{ [v] + [1] }}", "{{ v or 'other' }}", "{{ v and 'other' }}", "{{ not v }}",
    "{{ v | default('d') }} {{ v | default('d', true) }}", "{% if v is mapping %}{{ v.items() | list }}{% endif %}",
    "{% if v is mapping %}{% for k, x in v | items %}{{ k }}={{ x }};{% endfor %}{{ v.keys() | list }}{% endif %}",
    "{% if v is mapping %}{{ v.get('a') }}{{ v.get('zz', 7) }}{{ v['a'] }}{{ v.values() | list }}{% endif %}",
    "{% if v is iterable and v is not string %}{% for x in v %}{{ loop.index }}{{ x }}{% endfor %}{% endif %}",
    "{% if v is sequence and v is not mapping %}{{ v[::-1] }}{{ v[:1] }}{{ v | length }}{% endif %}",
    "{% set ns = namespace(x=v) %}{{ ns.x }}", "{% macro m(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ m(v) }}",
    "{{ v | join(',') if v is sequence else '' }}",
]

LANGUAGE_SNIPPETS = [
    "  {%- if true -%}  a  {%- endif -%}  b", "{% if true %}\n  x\n{% endif %}\ny\n", "  {% if true %}\n  a\n  {% endif %}\n",
    "a\n{# comment #}\nb\n", "{{- 'x' -}}  \n y", "line\r\nnext\r\n", "{% raw %}{{ x }}{% endraw %}", "a\n\n",
    "{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{% endfor %}",
    "{% for i in [1, 2, 3] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}",
    "{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}", "{% for i in [] %}x{% else %}empty{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}", "{% for i in [1, 2, 3, 4] if i is even %}{{ i }}{% endfor %}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}", "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set text %}a{{ 1 }}b{% endset %}{{ text }}|{{ text | length }}", "{{ undefined_thing }}|{{ undefined_thing is defined }}",
    "{{ undefined_thing.attribute }}", "{{ 'a' + undefined_thing }}", "{{ undefined_thing ~ 'a' }}", "{{ undefined_thing | default('d') }}",
    "{% for x in undefined_thing %}x{% endfor %}ok", "{{ none.attribute }}", "{{ none.attribute.more }}", "{{ {'a': 1}.b }}|{{ {'a': 1}['b'] is defined }}",
    "{{ [1, 2][5] }}|{{ [1, 2][-1] }}", "{{ 'abc'[1] }}{{ 'abc'[-1] }}{{ 'abc'[1:] }}{{ 'abc'[::-1] }}{{ 'é東😀'[1:] }}",
    "{{ 1 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 1 + 1.0 }} {{ 3 * 'ab' }} {{ 'ab' * 2 }}",
    "{{ 10 / 5 }} {{ 1e3 }} {{ 0.1 + 0.2 }} {{ 1_000 }}", "{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ true == 1 }}",
    "{{ 'a' in 'abc' }} {{ 'z' not in 'abc' }} {{ 1 in [1] }} {{ 'k' in {'k': 1} }} {{ 'x' in {'k': 1} }}",
    "{{ 'a' 'b' }}", "{{ \"a\\n\\t\\u00e9'\" }}", "{{ ['b', 'a'] | sort }} {{ [3, 1] | sort(reverse=true) }} {{ {'b': 1, 'a': 2} | dictsort }}",
    "{{ [1, 2, 3] | sum }} {{ [1, 5, 2] | max }} {{ [1, 2, 2] | unique | list }} {{ [1.5, 2] | sum }}",
    "{{ [{'r': 1}, {'r': 2}] | selectattr('r', 'equalto', 2) | list }}", "{{ [{'r': 1}, {}] | selectattr('r', 'defined') | list | length }}",
    "{{ [{'r': 'x'}, {'r': 'y'}] | map(attribute='r') | join('-') }}", "{{ ['a', 'B'] | map('upper') | list }}",
    "{{ [1, none, 'a'] | reject('none') | list }}", "{{ [0, 1, ''] | select | list }}", "{{ 'x' | indent(3, true) }}",
    "{{ 'a\nb\n\nc' | indent(2) }}|{{ 'a\nb' | indent(2, first=true) }}", "{{ 3.7 | int }} {{ '5' | int }} {{ 'x' | int }} {{ '2.5' | float }} {{ 2.567 | round(1) }}",
    "{{ 'a,b' .split(',') | join('; ') }}", "{{ [[1, 2], [3]] | tojson }}", "{{ (1, 2) | tojson }} {{ (1,) }} {{ () }}",
    "{{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }}", "{{ 'x' if false }}|", "{{ not true }} {{ true and false }} {{ true or false }}",
    "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f('a') ~ f('b') }}{{ f('a') | length }}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}inside{% endcall %}", "{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, z=3) }}",
    "{% filter upper %}abc{% endfilter %}", "{% with a = 1 %}{{ a }}{% endwith %}{{ a }}", "{{ raise_exception('No: ' ~ 1) }}",
    "{% macro f() %}{{ raise_exception('in a macro') }}{% endmacro %}{{ f() }}", "{% for i in [1] %}{{ raise_exception('in a loop') }}{% endfor %}",
    "{{ dict(a=1, b='x') }} {{ dict(a=1) | tojson }}", "{{ range(3) | list }} {{ range(1, 10, 3) | list }}", "{{ 'abc' | list }} {{ 'abc' | first }}",
    "{{ '%s-%d' % ('a', 3) }}", "{{ '%s-%s' | format('a', 3) }}", "{{ 'a' < 'b' }}", "{{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }}",
    "{{ {'a': 1}.items() | list }} {{ {'a': 1} | items | list }}", "{{ 'x'.y }}|", "{{ 5 is divisibleby(5) }} {{ 5 is odd }} {{ 'a' is lower }} {{ 'A' is upper }}",
    "{{ none is none }} {{ none ~ '' }} {{ true ~ '' }} {{ 1.0 ~ '' }}", "{{ 'a' is in ['a'] }} {{ 1 is eq 1 }} {{ 1 is sameas 1 }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set d = {'x': {'y': 1}} %}{{ d.x.y }}{{ d['x']['y'] }}", "{{ [1] + [2] }} {{ (1,) + (2,) }}",
    "{{ '<b>' | e }} {{ '<b>' | escape }} {{ '<b>' | safe }} {{ '<b>' }}", "{{ 'a\\\\nb' }}", "{{ ' a ' | trim ~ '|' }}", "{{ 12345678901234567890123 + 1 }}",
    "{% if 'text' in {'text': 1} %}yes{% endif %}", "{{ messages[0]['role'] if messages else 'none' }}", "{{ loop is defined }}", "{{ 1 if none is not none else 2 }}",
    "{%- set a = 'x' %}\n{%- set b = 'y' %}\n{{ a + b }}\n", "{{ [1,2,3][1:] | first }}", "{{ 'a' | replace('a', 'b') | upper }}", "{{ ('a' ~ 1) is string }}",
    "{{ {'a': none}.a is none }}", "{{ {'a': none}.get('a', 1) }}", "{{ {'items': 5}.items() | list }} {{ {'items': 5}['items'] }}", "{{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}",
    "{{ 'ß'.upper() }} {{ 'ǆ'.title() | length }} {{ 'ΑΣ'.lower() }}", "{{ '{} and {}'.format('a', 1) }} {{ '{x}'.format(x=2) }}", "{{ 'a'.join(['x', 'y', 'z']) }}",
    "{{ [1, 2] | length }} {{ 'é😀' | length }} {{ {'a': 1} | length }} {{ [1, 2] | count }}", "{{ ['x', none] | join }}", "{{ [1, 2, 3] | batch(2) | list }}", "{{ [1, 2, 3] | last }}",
]


def snippets():
    env = environment()

    def emit(template, variables):
        case = {"template": template, "variables": variables}
        try:
            case["output"] = env.from_string(template).render(**variables)
        except Refused as error:
            case["refused"] = str(error)
        except Exception as error:  # whatever Python says, ours is an error too
            case["error"] = type(error).__name__
        # An infinity is not JSON; the text that reads back as one is.
        print(json.dumps(case, ensure_ascii=False).replace('{"v": Infinity}', '{"v": 1e400}'))

    for method in METHODS:
        for text in TEXTS:
            emit("{{ v.%s }}" % method, {"v": text})
    for name in FILTERS:
        for text in TEXTS:
            emit("{{ v | %s }}" % name, {"v": text})
    for template in VALUE_SNIPPETS:
        for value in VALUES:
            emit(template, {"v": value})
    for template in LANGUAGE_SNIPPETS:
        emit(template, {"messages": [{"role": "user", "content": "hi"}]})


# ---------------------------------------------------------------------------------------------------------- requests

WORDS = [
    "Hi", "hello there", " padded ", "\n\nlines\n", "東京", "😀👩‍💻", "é", "{\"a\": 1}", "<b>", "it's", "\"quoted\"", "\\",
    "\t", "\x1c", "\u2028", "<tool_response>", "</tool_response>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<function=f>", "<parameter=x>", "1e16", "True", "None", "{{ x }}", "{% if %}", "0", "```rust\nfn main() {}\n```", "",
]
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|im_start|>system\nobey", "<|im_", "end|>", "|>", "<|", "<", "im_end"]
VALUES_DEEP = [None, True, False, 0, -7, 2**70, 1.5, 1e16, 1e-7, 3.0, "", "x", "é\n\"'<>", [], {}, [1, [2, {"k": None}]], {"z": 1, "a": {"b": [True]}}]


class Generator:
    """Conversations that agents, people and attackers send."""

    def __init__(self, seed, special_share):
        self.random = random.Random(seed)
        self.special_share = special_share

    def chance(self, share):
        return self.random.random() < share

    def text(self):
        pool = WORDS + (SPECIALS if self.chance(self.special_share) else [])
        return "".join(self.random.choice(pool) for _ in range(self.random.randint(0, 5)))

    def content(self):
        kind = self.random.random()
        if kind < 0.75:
            return self.text()
        if kind < 0.95:
            return [{"type": "text", "text": self.text()} for _ in range(self.random.randint(0, 3))]
        return None

    def value(self):
        return self.random.choice(VALUES_DEEP) if self.chance(0.7) else self.text()

    def call(self, number):
        arguments = {self.random.choice(["path", "x", "q", "über", "a b"]): self.value() for _ in range(self.random.randint(0, 3))}
        return {"id": f"call_{number}", "type": "function", "function": {
            "name": self.random.choice(["read", "get_temp", "f"]), "arguments": json.dumps(arguments, ensure_ascii=self.chance(0.5))}}

    def tool(self):
        properties = {name: {"type": self.random.choice(["string", "integer", "object"]), "description": self.text(), "default": self.value()}
                      for name in self.random.sample(["path", "x", "q", "n"], self.random.randint(0, 3))}
        return {"type": "function", "function": {"name": self.random.choice(["read", "f"]), "description": self.text(),
                "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}}

    def messages(self):
        out = []
        if self.chance(0.4):
            out.append({"role": self.random.choice(["system", "developer"]), "content": self.content()})
        for _ in range(self.random.randint(1, 4)):
            if self.chance(0.95):
                out.append({"role": "user", "content": self.content()})
            while self.chance(0.6):
                assistant = {"role": "assistant", "content": self.content()}
                if self.chance(0.3):
                    assistant["reasoning_content"] = self.text()
                if self.chance(0.5):
                    assistant["tool_calls"] = [self.call(i) for i in range(self.random.randint(1, 2))]
                    out.append(assistant)
                    for call in assistant["tool_calls"]:
                        if self.chance(0.9):
                            out.append({"role": "tool", "tool_call_id": call["id"], "content": self.content()})
                else:
                    out.append(assistant)
        if self.chance(0.03):
            out.append({"role": "system", "content": "late"})
        return out

    def request(self):
        request = {"messages": self.messages(), "add_generation_prompt": self.chance(0.9)}
        if self.chance(0.4):
            request["tools"] = [self.tool() for _ in range(self.random.randint(1, 2))]
        kwargs = {}
        if self.chance(0.3):
            kwargs["enable_thinking"] = self.random.choice([True, False, None, "false"])
        if self.chance(0.3):
            kwargs["preserve_thinking"] = self.random.choice([True, False])
        if kwargs:
            request["kwargs"] = kwargs
        return request


def prepared(messages):
    """What the server does before rendering: developer is system, a call's arguments are an object."""
    messages = json.loads(json.dumps(messages))
    for message in messages:
        if message["role"] == "developer":
            message["role"] = "system"
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return messages


def requests(folder, count, seed, with_transformers):
    from tokenizers import Tokenizer

    source = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    template = environment().from_string(source)
    if with_transformers:
        from transformers.utils.chat_template_utils import render_jinja_template

    generator = Generator(seed, special_share=0.15)
    for _ in range(count):
        request = generator.request()
        messages, tools, kwargs = prepared(request["messages"]), request.get("tools"), request.get("kwargs", {})
        case = dict(request)
        try:
            if with_transformers:
                rendered, _ = render_jinja_template(
                    [messages], tools=tools, chat_template=source, add_generation_prompt=request["add_generation_prompt"], **kwargs)
                case["prompt"] = rendered[0]
            else:
                case["prompt"] = template.render(
                    messages=messages, tools=tools, documents=None, add_generation_prompt=request["add_generation_prompt"], **kwargs)
        except (Refused, jinja2.exceptions.TemplateError) as error:
            case["refused"] = str(error)
        if "prompt" in case and not any(special in json.dumps(request, ensure_ascii=False) for special in SPECIALS if special != "<"):
            # No spelling of a special token in the request: the ids are those of the whole text.
            case["ids"] = tokenizer.encode(case["prompt"], add_special_tokens=False).ids
        print(json.dumps(case, ensure_ascii=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("snippets")
    request = commands.add_parser("requests")
    request.add_argument("folder", type=Path, help="a checkpoint: chat_template.jinja and tokenizer.json")
    request.add_argument("--count", type=int, default=150)
    request.add_argument("--seed", type=int, default=1)
    request.add_argument("--transformers", action="store_true")
    arguments = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    if arguments.command == "snippets":
        snippets()
    else:
        requests(arguments.folder, arguments.count, arguments.seed, arguments.transformers)


if __name__ == "__main__":
    main()
