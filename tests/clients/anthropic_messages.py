"""The official anthropic client against a running server (LILY_URL): messages, streaming, thinking, counting."""

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

try:
    client.messages.create(**{**settings, "messages": []})
except anthropic.BadRequestError as error:
    assert "messages" in error.body["error"]["message"], error
else:
    raise AssertionError("an empty conversation was taken")
print(f"anthropic {anthropic.__version__}: messages")
