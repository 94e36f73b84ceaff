"""Tasks that end in a JSON object."""

import json

from .lexicon import ADJ, CITIES, COLOURS, DAYS, FOODS, HOBBIES, JOBS, OBJECTS
from .phrases import simple

FIELDS = [
    ("name", lambda rng, bank: rng.choice(bank.names)),
    ("age", lambda rng, bank: rng.randint(5, 90)),
    ("city", lambda rng, bank: rng.choice(CITIES)),
    ("job", lambda rng, bank: rng.choice(JOBS)),
    ("colour", lambda rng, bank: rng.choice(COLOURS)),
    ("price", lambda rng, bank: rng.randint(1, 500)),
    ("item", lambda rng, bank: rng.choice(OBJECTS)),
    ("quantity", lambda rng, bank: rng.randint(1, 20)),
    ("day", lambda rng, bank: rng.choice(DAYS)),
    ("active", lambda rng, bank: rng.random() < 0.5),
    ("food", lambda rng, bank: rng.choice(FOODS)),
    ("hobby", lambda rng, bank: rng.choice(HOBBIES)),
    ("tags", lambda rng, bank: rng.sample(ADJ, rng.randint(1, 3))),
    ("email", lambda rng, bank: f"{rng.choice(bank.names).lower()}@example.com"),
]
TYPES = {str: "string", int: "integer", bool: "boolean", list: "array"}


def as_json(rng, bank):
    fs = rng.sample(FIELDS, rng.randint(2, 5))
    obj = {k: f(rng, bank) for k, f in fs}
    if rng.random() < 0.5:
        obj = {"name": rng.choice(bank.names), **{k: v for k, v in obj.items() if k != "name"}}

    def vals(v):
        return ("yes" if v else "no") if isinstance(v, bool) else (" and ".join(v) if isinstance(v, list) else str(v))

    items = list(obj.items())
    shuf = items[:]
    if rng.random() < 0.5:
        rng.shuffle(shuf)
    if "name" in obj and {"age", "city"} <= obj.keys() and len(obj) == 3 and rng.random() < 0.7:
        src = f"{obj['name']} is {obj['age']} years old and lives in {obj['city']}."
    else:
        src = rng.choice([", ", "; ", "\n"]).join(
            f"{k}: {vals(v)}" if rng.random() < 0.5 else f"the {k} is {vals(v)}" for k, v in shuf
        )
    keys = ", ".join(obj)
    schema = {
        "type": "object",
        "properties": {
            k: {"type": TYPES[type(v)]} if not isinstance(v, list) else {"type": "array", "items": {"type": "string"}}
            for k, v in items
        },
        "required": list(obj),
    }
    u = rng.choice(
        [
            "Return a JSON object with the keys {k}.\n\n{s}",
            "Extract the data as JSON with the keys {k}: {s}",
            "Write a JSON object with {k}. {s}",
            "Answer with JSON that follows this schema:\n{j}\n\n{s}",
            "Convert to JSON with keys {k}: {s}",
            "Fill in this JSON schema: {j}\n\nText: {s}",
        ]
    ).format(k=keys, s=src, j=json.dumps(schema))
    a = json.dumps(obj, ensure_ascii=False)
    return simple(rng, "json", u, a, f"The keys are {keys}. I write one JSON object.", {"json": obj})
