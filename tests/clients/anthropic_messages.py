"""The official anthropic client against a running server (LILY_URL): messages, streaming, thinking, tools, counting."""

import os
import sys

try:
    import anthropic
except ImportError:
    print("skipped: no anthropic package")
    sys.exit(0)

client = anthropic.Anthropic(base_url=os.environ["LILY_URL"], api_key="none", max_retries=0, timeout=300)
ask = [{"role": "user", "content": "Who are you? Answer in one sentence."}]
settings = {"model": "local", "max_tokens": 200, "messages": ask, "system": "Be brief.", "extra_body": {"temperature": 0}}

answer = client.messages.create(**settings)
assert answer.content[0].type == "text" and answer.content[0].text, answer
assert answer.stop_reason in ("end_turn", "max_tokens")

with client.messages.stream(**settings) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
assert text == answer.content[0].text == final.content[0].text, (text, answer.content)
assert final.usage.output_tokens == answer.usage.output_tokens

thinking = client.messages.create(**settings, thinking={"type": "enabled", "budget_tokens": 1024})
assert thinking.content[0].type == "thinking" and thinking.content[0].thinking, thinking

count = client.messages.count_tokens(model="local", messages=ask, system="Be brief.")
total = answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
assert count.input_tokens == total, (count, answer.usage)

tool = {
    "name": "get_weather",
    "description": "The weather in a city now.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
weather = [{"role": "user", "content": "What is the weather in Oslo right now?"}]
calling = {"model": "local", "max_tokens": 300, "messages": weather, "tools": [tool], "extra_body": {"temperature": 0}}
for choice in ({"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "get_weather"}):
    call = client.messages.create(**calling, tool_choice=choice)
    assert call.stop_reason == "tool_use", (choice, call)
    block = next(block for block in call.content if block.type == "tool_use")
    assert block.name == "get_weather" and "Oslo" in block.input["city"], block

with client.messages.stream(**calling) as stream:
    for event in stream:
        pass
    final = stream.get_final_message()
assert [block.input for block in final.content if block.type == "tool_use"] == [block.input], final

result = {"type": "tool_result", "tool_use_id": block.id, "content": '{"temperature": 7, "sky": "rain"}'}
history = [*weather, {"role": "assistant", "content": call.content}, {"role": "user", "content": [result]}]
told = client.messages.create(**{**calling, "messages": history})
assert told.stop_reason == "end_turn" and "7" in told.content[-1].text, told

# The runner asks for a thread on the server, and does without one when it is told that there is none.
cities = []


@anthropic.beta_tool(**tool)
def get_weather(city: str) -> str:
    cities.append(city)
    return result["content"]


for streamed in (False, True):
    cities.clear()
    runner = client.beta.messages.tool_runner(**{**calling, "tools": [get_weather]}, stream=streamed)
    turns = [turn.get_final_message() if streamed else turn for turn in runner]
    assert [turn.stop_reason for turn in turns] == ["tool_use", "end_turn"], turns
    assert len(cities) == 1 and "Oslo" in cities[0] and "7" in turns[-1].content[-1].text, (cities, turns)

models = client.models.list()
model = models.data[0]
assert model.type == "model" and model.display_name and model.created_at.year >= 1970 and not models.has_next_page(), models
assert client.models.retrieve(model.id).id == model.id

try:
    client.messages.create(**{**settings, "messages": []})
except anthropic.BadRequestError as error:
    assert "messages" in error.body["error"]["message"], error
else:
    raise AssertionError("an empty conversation was taken")
print(f"anthropic {anthropic.__version__}: messages, streaming, thinking, tools, runner, models: {told.content[-1].text!r}")
