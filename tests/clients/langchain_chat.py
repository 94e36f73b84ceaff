"""LangChain's OpenAI model against a running server (LILY_URL): chat, streaming, bound tools, structured output."""

import os
import sys

try:
    from langchain_openai import ChatOpenAI
except ImportError:
    print("skipped: no langchain-openai package")
    sys.exit(0)

settings = {"base_url": os.environ["LILY_URL"] + "/v1", "api_key": "none", "max_retries": 0, "timeout": 300}
chat = ChatOpenAI(model="local", temperature=0, max_tokens=400, **settings)

answer = chat.invoke("Who are you? Answer in one sentence.")
assert answer.content and answer.usage_metadata["output_tokens"] > 0, answer
streamed = "".join(chunk.content for chunk in chat.stream("Who are you? Answer in one sentence."))
assert streamed == answer.content, (streamed, answer.content)


def get_weather(city: str) -> str:
    """The weather in a city now."""
    return f"7 degrees in {city}"


call = chat.bind_tools([get_weather]).invoke("What is the weather in Oslo right now?").tool_calls[0]
assert call["name"] == "get_weather" and "Oslo" in call["args"]["city"], call

schema = {
    "title": "about",
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 40}, "tiny": {"type": "boolean"}},
    "required": ["name", "tiny"],
    "additionalProperties": False,
}
value = chat.with_structured_output(schema, method="json_schema").invoke("Describe yourself as JSON.")
assert isinstance(value["tiny"], bool), value
print("langchain-openai: chat, streaming, tools, structured output")
