// The settings: a form, what is kept of it, and what it adds to a request.

import { find } from "/web/dom.js";
import { load, save } from "/web/store.js";

const NUMBERS = ["temperature", "top_p", "top_k", "max_tokens", "seed"];

const EXAMPLE = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather in a city now.",
      parameters: {
        type: "object",
        properties: { city: { type: "string", description: "Name of the city." } },
        required: ["city"],
      },
    },
  },
];

export class Settings {
  #form = find("settings-form");

  constructor() {
    this.#fill(load("settings", {}));
    this.#form.addEventListener("input", () => this.#changed());
    this.#form.addEventListener("reset", () => setTimeout(() => this.#changed()));
    this.#form.addEventListener("submit", (event) => event.preventDefault());
    find("tools-example").addEventListener("click", () => {
      this.#field("tools").value = JSON.stringify(EXAMPLE, null, 2);
      this.#changed();
    });
    this.#tellTools();
  }

  // Shows the server's own values where nothing is set.
  showDefaults(defaults) {
    for (const [name, value] of Object.entries(defaults)) {
      const field = this.#field(name);
      if (field && value !== null) field.placeholder = String(value);
    }
  }

  reset() {
    this.#form.reset();
  }

  get system() {
    return this.#field("system").value;
  }

  // What a request carries beside its messages; throws an Error that says which field is wrong.
  fields() {
    const fields = {};
    for (const name of NUMBERS) {
      const field = this.#field(name);
      if (field.validity.badInput) throw new Error(`${field.parentElement.firstChild.textContent.trim()} is not a number.`);
      if (field.value !== "") fields[name] = Number(field.value);
    }
    const thinking = this.#field("thinking").value;
    if (thinking !== "") fields.enable_thinking = thinking === "on";
    const tools = this.#tools();
    if (tools.length > 0) fields.tools = tools;
    return fields;
  }

  #field(name) {
    return this.#form.elements.namedItem(name);
  }

  #fill(values) {
    for (const name of ["system", "thinking", "tools", ...NUMBERS]) {
      if (values[name] !== undefined) this.#field(name).value = values[name];
    }
  }

  #changed() {
    const values = {};
    for (const name of ["system", "thinking", "tools", ...NUMBERS]) {
      if (this.#field(name).value !== "") values[name] = this.#field(name).value;
    }
    save("settings", values);
    this.#tellTools();
  }

  // The tools as the wire has them; a bare { name, parameters } is wrapped.
  #tools() {
    const text = this.#field("tools").value;
    if (text.trim() === "") return [];
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new Error(`The tools are not JSON: ${error.message}`);
    }
    const list = Array.isArray(value) ? value : (value?.tools ?? [value]);
    if (!Array.isArray(list)) throw new Error("The tools are neither a list nor one definition.");
    return list.map((tool) => (tool && tool.type === undefined && tool.name ? { type: "function", function: tool } : tool));
  }

  #tellTools() {
    const note = find("tools-note");
    try {
      const names = this.#tools().map((tool) => tool?.function?.name ?? tool?.type ?? "unnamed");
      note.textContent = names.length > 0 ? `The model may call ${names.join(", ")}; you give the results.` : "";
      note.classList.remove("wrong");
    } catch (error) {
      note.textContent = error.message;
      note.classList.add("wrong");
    }
  }
}
