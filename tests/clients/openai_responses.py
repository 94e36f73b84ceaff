"""The official openai client against a running server (LILY_URL): the responses API."""

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
settings = {"model": model, "temperature": 0, "max_output_tokens": 200, "reasoning": {"effort": "none"}}

first = client.responses.create(input="Who are you?", instructions="Be brief.", **settings)
assert first.status in ("completed", "incomplete") and first.output_text, first
assert client.responses.retrieve(first.id).output_text == first.output_text
assert client.responses.input_items.list(first.id).data[0].content[0].text == "Who are you?"

several = [{"role": "user", "content": str(number)} for number in range(5)]
listed = client.responses.create(input=several, **settings)
for order in ("asc", "desc"):
    pages = client.responses.input_items.list(listed.id, limit=2, order=order, include=["message.output_text.logprobs"])
    texts = [item.content for item in pages]
    assert sorted(texts, reverse=order == "desc") == texts and len(texts) == 5, (order, texts)

with client.responses.stream(input="Who are you?", instructions="Be brief.", **settings) as stream:
    text = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
    final = stream.get_final_response()
assert text == final.output_text == first.output_text, (text, final.output_text)

second = client.responses.create(input="And what can you do?", previous_response_id=first.id, **settings)
assert second.usage.input_tokens > first.usage.input_tokens
client.responses.delete(first.id)
try:
    client.responses.retrieve(first.id)
except openai.NotFoundError:
    pass
else:
    raise AssertionError("a deleted response is still there")

schema = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
tool = {"type": "function", "name": "get_weather", "description": "The weather.", "parameters": schema, "strict": True}
called = client.responses.create(
    input="What is the weather in Oslo right now?", tools=[tool, {"type": "web_search"}], tool_choice="required", **settings
)
call = next(item for item in called.output if item.type == "function_call")
assert "Oslo" in json.loads(call.arguments)["city"], call
answered = client.responses.create(
    input=[{"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees, rain"}],
    previous_response_id=called.id,
    tools=[tool],
    **settings,
)
assert answered.output_text, answered

form = {"format": {"type": "json_schema", "name": "place", "schema": schema, "strict": True}}
value = json.loads(client.responses.create(input="Oslo, 3 days, as JSON.", text=form, **settings).output_text)
assert set(value) == {"city", "days"} and isinstance(value["days"], int), value
print(f"openai {openai.__version__}: responses, tools, structured output")
