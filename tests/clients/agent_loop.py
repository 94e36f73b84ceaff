"""An agent's loop with the official openai client against a running server (LILY_URL): the model calls a tool, gets its
result, and answers with it; streamed and whole."""

import json
import os
import sys

try:
    import openai
except ImportError:
    print("skipped: no openai package")
    sys.exit(0)

client = openai.OpenAI(base_url=os.environ["LILY_URL"] + "/v1", api_key="none", max_retries=0, timeout=300)
model = client.models.list().data[0].id
tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city now.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city."}},
                "required": ["city"],
            },
        },
    }
]


def whole(messages):
    message = client.chat.completions.create(model=model, messages=messages, tools=tools, temperature=0).choices[0].message
    return message.content, [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []]


def streamed(messages):
    content, calls = "", []
    for chunk in client.chat.completions.create(
        model=model, messages=messages, tools=tools, temperature=0, stream=True
    ):
        for choice in chunk.choices:
            content += choice.delta.content or ""
            for delta in choice.delta.tool_calls or []:
                if delta.id:
                    calls.append([delta.id, delta.function.name, ""])
                calls[delta.index][2] += delta.function.arguments or ""
    return content, [tuple(call) for call in calls]


def loop(ask):
    messages = [{"role": "user", "content": "What is the weather in Oslo right now?"}]
    for _ in range(4):
        content, calls = ask(messages)
        if not calls:
            return messages, content
        function = lambda name, arguments: {"name": name, "arguments": arguments}
        messages.append(
            {
                "role": "assistant",
                "content": content,
                "tool_calls": [{"id": i, "type": "function", "function": function(n, a)} for i, n, a in calls],
            }
        )
        for identifier, name, arguments in calls:
            assert name == "get_weather" and "Oslo" in json.loads(arguments)["city"], (name, arguments)
            result = json.dumps({"temperature": 7, "sky": "rain"})
            messages.append({"role": "tool", "tool_call_id": identifier, "content": result})
    raise AssertionError(f"the model never answered: {messages}")


for ask in (whole, streamed):
    messages, answer = loop(ask)
    assert len(messages) >= 3, f"no tool was called: {answer}"
    assert answer.strip(), messages
    print(f"{ask.__name__}: {answer.strip()!r}")
