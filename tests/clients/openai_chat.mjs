// The official openai client for JavaScript against a running server (LILY_URL): chat, streaming, tools, responses, errors.
//
//     npm ci --prefix FOLDER && NODE_PATH=FOLDER/node_modules node tests/clients/openai_chat.mjs
//
// where FOLDER holds the package.json and package-lock.json of this folder.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

let OpenAI;
try {
  const found = createRequire(import.meta.url)("openai");
  OpenAI = found.OpenAI ?? found.default ?? found;
} catch {
  console.log("skipped: no openai package");
  process.exit(0);
}

const client = new OpenAI({ baseURL: `${process.env.LILY_URL}/v1`, apiKey: "none", maxRetries: 0, timeout: 300_000 });
const model = (await client.models.list()).data[0].id;
const messages = [{ role: "user", content: "Who are you? Answer in one sentence." }];
const settings = { model, messages, temperature: 0, max_tokens: 200 };

const whole = await client.chat.completions.create(settings);
assert.ok(whole.choices[0].message.content || whole.choices[0].message.reasoning_content);

let content = "";
let usage;
for await (const chunk of await client.chat.completions.create({
  ...settings,
  stream: true,
  stream_options: { include_usage: true },
})) {
  content += chunk.choices[0]?.delta.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(content, whole.choices[0].message.content);
assert.equal(usage.completion_tokens, whole.usage.completion_tokens);

const tool = {
  type: "function",
  function: {
    name: "get_weather",
    description: "The weather in a city now.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};
const runner = client.chat.completions.stream({
  model,
  temperature: 0,
  tools: [tool],
  messages: [{ role: "user", content: "What is the weather in Oslo right now?" }],
});
const final = await runner.finalChatCompletion();
assert.equal(final.choices[0].finish_reason, "tool_calls", JSON.stringify(final.choices[0]));
assert.match(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments).city, /Oslo/);

const schema = {
  type: "object",
  properties: { name: { type: "string", maxLength: 40 }, tiny: { type: "boolean" } },
  required: ["name", "tiny"],
  additionalProperties: false,
};
const structured = await client.chat.completions.create({
  ...settings,
  max_tokens: 600,
  response_format: { type: "json_schema", json_schema: { name: "about", schema, strict: true } },
});
assert.equal(structured.choices[0].finish_reason, "stop");
assert.deepEqual(Object.keys(JSON.parse(structured.choices[0].message.content)), ["name", "tiny"]);

const response = await client.responses.create({ model, input: "Who are you?", temperature: 0, max_output_tokens: 200 });
assert.ok(["completed", "incomplete"].includes(response.status));

await assert.rejects(client.chat.completions.create({ ...settings, temperature: 9 }), (error) => {
  assert.equal(error.status, 400);
  assert.equal(error.param, "temperature");
  return true;
});
console.log("openai for JavaScript: chat, streaming, tools, structured output, responses");
