"""The official openai client against a running server (LILY_URL): chat, streaming, tools, structured output, limits,
errors, completions."""

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
ask = [{"role": "user", "content": "Who are you? Answer in one sentence."}]


def whole():
    answer = client.chat.completions.create(model=model, messages=ask, temperature=0, max_tokens=200)
    choice = answer.choices[0]
    assert choice.finish_reason in ("stop", "length"), choice
    assert (choice.message.content or "") + (choice.message.reasoning_content or ""), choice
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    return choice.message


def streamed(expected):
    stream = client.chat.completions.create(
        model=model, messages=ask, temperature=0, max_tokens=200, stream=True, stream_options={"include_usage": True}
    )
    content, reasoning, reasons, usage, ids = "", "", [], None, set()
    for chunk in stream:
        ids.add(chunk.id)
        usage = chunk.usage or usage
        for choice in chunk.choices:
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert content == (expected.content or ""), (content, expected.content)
    assert reasoning == (getattr(expected, "reasoning_content", None) or "")
    assert len(reasons) == 1 and len(ids) == 1 and usage.completion_tokens > 0


def without_thinking():
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "system", "content": "Be brief."}, *ask],
        temperature=0,
        max_completion_tokens=60,
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
    )
    message = answer.choices[0].message
    assert message.content and not getattr(message, "reasoning_content", None), message


def several_with_logprobs():
    answer = client.chat.completions.create(
        model=model, messages=ask, n=2, seed=7, temperature=1, max_tokens=5, logprobs=True, top_logprobs=3
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert 0 < len(choice.logprobs.content) <= 5
        assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in choice.logprobs.content)


weather = [{"role": "user", "content": "What is the weather in Oslo right now?"}]
tool = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city now.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def tools():
    """A call that the model makes by itself, one that it must make, and one that keeps to its schema."""
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("auto", "required", named):
        answer = client.chat.completions.create(
            model=model, messages=weather, tools=[tool], tool_choice=choice, temperature=0, max_tokens=400
        )
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls", choice
        arguments = json.loads(choice.message.tool_calls[0].function.arguments)
        assert "Oslo" in arguments["city"] and isinstance(arguments["days"], int), arguments
    quiet = client.chat.completions.create(
        model=model, messages=weather, tools=[tool], tool_choice="none", temperature=0, max_tokens=100
    )
    assert not quiet.choices[0].message.tool_calls


def structured_output():
    """Answers that parse, whether or not the model thinks first, whole and streamed."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 40}, "tiny": {"type": "boolean"}, "size": {"enum": ["S", "L"]}},
        "required": ["name", "tiny", "size"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "about", "schema": schema, "strict": True}}
    for thinking in (True, False):
        settings = {
            "model": model,
            "messages": [{"role": "user", "content": "Describe yourself as JSON with name, tiny and size."}],
            "temperature": 0,
            "max_tokens": 600,
            "response_format": form,
            "extra_body": {"chat_template_kwargs": {"enable_thinking": thinking}},
        }
        choice = client.chat.completions.create(**settings).choices[0]
        assert choice.finish_reason == "stop", choice
        value = json.loads(choice.message.content)
        assert set(value) == {"name", "tiny", "size"} and isinstance(value["tiny"], bool), value
        chunks = client.chat.completions.create(**settings, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == choice.message.content, (text, choice.message.content)
    ask_json = [{"role": "user", "content": "Give me a JSON object with the key fruit and the value apple."}]
    answer = client.chat.completions.create(
        model=model, messages=ask_json, temperature=0, max_tokens=300, response_format={"type": "json_object"}
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict), answer
    try:
        bad = {"type": "json_schema", "json_schema": {"name": "bad", "schema": {"type": "object", "not": {}}}}
        client.chat.completions.create(model=model, messages=ask, response_format=bad)
    except openai.BadRequestError as error:
        assert error.param == "response_format.json_schema.schema", error
    else:
        raise AssertionError("a schema that cannot be enforced was taken")


def errors():
    try:
        client.chat.completions.create(model=model, messages=ask, temperature=9)
    except openai.BadRequestError as error:
        assert error.param == "temperature", error
    else:
        raise AssertionError("a temperature of 9 was taken")
    try:
        client.models.retrieve("no-such-model")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error
    else:
        raise AssertionError("an unknown model was found")


def completions():
    answer = client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, temperature=0)
    assert answer.choices[0].text and answer.usage.completion_tokens <= 8
    stream = client.completions.create(model=model, prompt="Once upon a time", max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == answer.choices[0].text


def hanging_up():
    """A stream that is left early must not stand in the way of the next request."""
    stream = client.chat.completions.create(model=model, messages=ask, stream=True, logit_bias={}, max_tokens=100_000)
    next(iter(stream))
    stream.close()
    client.chat.completions.create(model=model, messages=ask, max_tokens=1)


streamed(whole())
for check in (without_thinking, several_with_logprobs, tools, structured_output, errors, completions, hanging_up):
    check()
print(f"openai {openai.__version__}: chat, tools, structured output, completions")
