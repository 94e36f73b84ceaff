"""Tool calls: a definition to read, a call to write, a result to report."""

import json
from typing import NamedTuple

from .conversation import Conversation
from .facts import facts
from .lexicon import CAPITALS, CITIES, DAYS, GROUPS, OBJECTS, PLACES, PRODUCTS, WEATHER
from .numbers import arithmetic_small
from .phrases import assistant_says, cap, sys_maybe, tool_says, user_says
from .small_talk import greet, identity


class ToolCall(NamedTuple):
    """A tool, a request that needs it, and what comes of it."""

    description: str
    properties: dict
    required: list
    user: str
    arguments: dict
    result: object
    final: str


def parameter(kind, description, **more):
    """One property of a tool's JSON schema."""
    return {"type": kind, "description": description, **more}


def tool_specs(rng, bank):
    """A ToolCall for each well-known tool, by name."""
    city = rng.choice(CITIES)
    nm = rng.choice(bank.names)
    x, y = rng.randint(2, 99), rng.randint(2, 99)
    w = rng.choice(bank.words)
    hh = f"{rng.randint(6, 22):02d}:{rng.choice(['00', '15', '30', '45'])}"
    day = rng.choice(DAYS)
    n = rng.randint(2, 12)
    t = rng.randint(-5, 35)
    wt = rng.choice(WEATHER)
    prod = rng.choice(PRODUCTS)
    price = rng.randint(10, 900)
    lang = rng.choice(GROUPS["languages"][1:])
    msg = rng.choice(
        [
            "I will be late",
            "the meeting is moved",
            "dinner is ready",
            "call me back",
            "happy birthday",
            "see you tomorrow",
            f"the {rng.choice(OBJECTS)} is in the {rng.choice(PLACES)}",
        ]
    )
    rng.choice(range(2))  # not used: keeps the stream of random numbers of the published weights
    f1, f2 = rng.sample(["meters", "feet", "miles", "kilometers", "inches", "centimeters"], 2)
    room = rng.choice(PLACES)
    conv = rng.randint(1, 900)
    oid = f"{rng.choice('ABCDEFG')}{rng.randint(1000, 9999)}"
    st = rng.choice(["shipped", "delivered", "delayed", "cancelled"])
    c2 = rng.choice([c for c in CITIES if c != city])
    fn = rng.choice(["notes", "report", "todo", "data", "config", "readme", "log"]) + rng.choice(
        [".txt", ".md", ".json", ".csv"]
    )
    return {
        "get_weather": ToolCall(
            "Get the current weather for a city.",
            {"city": parameter("string", "The city name")},
            ["city"],
            rng.choice(
                [
                    "What is the weather in {c}?",
                    "How is the weather in {c} today?",
                    "Is it raining in {c}?",
                    "Tell me the weather in {c}.",
                    "What's the weather like in {c}?",
                ]
            ).format(c=city),
            {"city": city},
            {"temperature": t, "condition": wt},
            f"It is {t} degrees and {wt} in {city}.",
        ),
        "add_numbers": ToolCall(
            "Add two numbers.",
            {"a": parameter("integer", "First number"), "b": parameter("integer", "Second number")},
            ["a", "b"],
            rng.choice(
                [
                    "Use the tool to add {} and {}.",
                    "What is {} plus {}? Use a tool.",
                    "Add {} and {} with the tool.",
                ]
            ).format(x, y),
            {"a": x, "b": y},
            {"result": x + y},
            f"The result is {x + y}.",
        ),
        "get_time": ToolCall(
            "Get the current local time in a city.",
            {"city": parameter("string", "The city name")},
            ["city"],
            rng.choice(
                ["What time is it in {c}?", "Tell me the time in {c}.", "What is the local time in {c}?"]
            ).format(c=city),
            {"city": city},
            {"time": hh},
            f"It is {hh} in {city}.",
        ),
        "set_alarm": ToolCall(
            "Set an alarm.",
            {"time": parameter("string", "Time as HH:MM"), "day": parameter("string", "Day of the week")},
            ["time", "day"],
            rng.choice(
                [
                    "Set an alarm for {t} on {d}.",
                    "Wake me up at {t} on {d}.",
                    "I need an alarm on {d} at {t}.",
                ]
            ).format(t=hh, d=day),
            {"time": hh, "day": day},
            {"status": "ok"},
            f"The alarm is set for {hh} on {day}.",
        ),
        "send_message": ToolCall(
            "Send a text message to a person.",
            {
                "recipient": parameter("string", "Name of the person"),
                "text": parameter("string", "The message text"),
            },
            ["recipient", "text"],
            rng.choice(
                [
                    "Send a message to {n}: {m}",
                    "Tell {n}: {m}",
                    "Text {n} this: {m}",
                    'Send {n} the message "{m}".',
                ]
            ).format(n=nm, m=msg),
            {"recipient": nm, "text": msg},
            {"status": "sent"},
            f"The message to {nm} was sent.",
        ),
        "search_product": ToolCall(
            "Search the shop for a product.",
            {
                "query": parameter("string", "Product to look for"),
                "max_price": parameter("integer", "Highest price"),
            },
            ["query", "max_price"],
            rng.choice(
                [
                    "Find a {p} under {m} dollars.",
                    "Search for a {p} that costs at most {m} dollars.",
                    "I want a {p} for less than {m} dollars.",
                ]
            ).format(p=prod, m=price),
            {"query": prod, "max_price": price},
            {"found": n},
            f"I found {n} results for {prod} under {price} dollars.",
        ),
        "translate": ToolCall(
            "Translate a word into another language.",
            {
                "text": parameter("string", "Text to translate"),
                "language": parameter("string", "Target language"),
            },
            ["text", "language"],
            rng.choice(['Translate "{w}" into {l}.', "Translate {w} to {l}.", "How do you say {w} in {l}?"]).format(
                w=w, l=lang
            ),
            {"text": w, "language": lang},
            {"translation": w[::-1]},
            f'"{w}" in {lang} is "{w[::-1]}".',
        ),
        "get_order_status": ToolCall(
            "Look up the status of an order.",
            {"order_id": parameter("string", "The order number")},
            ["order_id"],
            rng.choice(["Where is my order {o}?", "What is the status of order {o}?", "Check order {o}."]).format(
                o=oid
            ),
            {"order_id": oid},
            {"status": st},
            f"Order {oid} is {st}.",
        ),
        "book_table": ToolCall(
            "Book a table at a restaurant.",
            {
                "people": parameter("integer", "Number of people"),
                "time": parameter("string", "Time as HH:MM"),
            },
            ["people", "time"],
            rng.choice(
                [
                    "Book a table for {n} people at {t}.",
                    "Reserve a table for {n} at {t}.",
                    "I need a table at {t} for {n} people.",
                ]
            ).format(n=n, t=hh),
            {"people": n, "time": hh},
            {"confirmed": True},
            f"Your table for {n} people at {hh} is booked.",
        ),
        "turn_on_light": ToolCall(
            "Turn on the light in a room.",
            {"room": parameter("string", "The room")},
            ["room"],
            rng.choice(
                [
                    "Turn on the light in the {r}.",
                    "Switch on the {r} light.",
                    "It is dark in the {r}. Turn on the light.",
                ]
            ).format(r=room),
            {"room": room},
            {"status": "on"},
            f"The light in the {room} is on.",
        ),
        "convert_units": ToolCall(
            "Convert a value between units.",
            {
                "value": parameter("number", "The value"),
                "from_unit": parameter("string", "Unit of the value"),
                "to_unit": parameter("string", "Unit wanted"),
            },
            ["value", "from_unit", "to_unit"],
            rng.choice(["Convert {} {} to {}.", "How much is {} {} in {}?", "Change {} {} into {}."]).format(x, f1, f2),
            {"value": x, "from_unit": f1, "to_unit": f2},
            {"result": conv},
            f"{x} {f1} is {conv} {f2}.",
        ),
        "find_flight": ToolCall(
            "Find a flight between two cities.",
            {
                "origin": parameter("string", "City of departure"),
                "destination": parameter("string", "City of arrival"),
                "day": parameter("string", "Day of the week"),
            },
            ["origin", "destination", "day"],
            rng.choice(
                [
                    "Find a flight from {a} to {b} on {d}.",
                    "I want to fly from {a} to {b} on {d}.",
                    "Is there a flight from {a} to {b} on {d}?",
                ]
            ).format(a=city, b=c2, d=day),
            {"origin": city, "destination": c2, "day": day},
            {"flight": oid, "departure": hh},
            f"Flight {oid} leaves {city} at {hh} on {day}.",
        ),
        "read_file": ToolCall(
            "Read a file from the disk.",
            {"path": parameter("string", "Path of the file")},
            ["path"],
            rng.choice(["Read the file {f}.", "What is in {f}?", "Show me the file {f}.", "Open {f}."]).format(f=fn),
            {"path": fn},
            w,
            f"The file {fn} says: {w}",
        ),
        "get_population": ToolCall(
            "Get the population of a country.",
            {"country": parameter("string", "The country")},
            ["country"],
            f"How many people live in {(cn := rng.choice(list(CAPITALS)))}?",
            {"country": cn},
            {"population": conv * 10000},
            f"{conv * 10000} people live in {cn}.",
        ),
        "play_music": ToolCall(
            "Play music of a style.",
            {"style": parameter("string", "Style of music", enum=["jazz", "rock", "classical", "pop"])},
            ["style"],
            rng.choice(["Play some {} music.", "I want to hear {} music.", "Put on {}."]).format(
                sty := rng.choice(["jazz", "rock", "classical", "pop"])
            ),
            {"style": sty},
            {"status": "playing"},
            f"I am playing {sty} music.",
        ),
    }


def random_tool(rng, bank):
    """An invented tool with random names, so that the model must read the definition."""
    verb, noun = (
        rng.choice("get find make open check list update remove save count".split()),
        rng.choice(bank.words),
    )
    names = rng.sample([w for w in rng.sample(bank.words, 12) if len(w) > 2], rng.randint(1, 3))
    props, args, said = {}, {}, []
    for p in names:
        if rng.random() < 0.5:
            v, t = rng.randint(1, 999), "integer"
        else:
            v, t = rng.choice([rng.choice(bank.names), rng.choice(CITIES), rng.choice(bank.words)]), "string"
        props[p] = parameter(t, f"The {p}")
        args[p] = v
        said.append(f"{p} {v}")
    name = f"{verb}_{noun}"
    u = rng.choice(
        ["{V} the {n} with {s}.", "{V} {n}: {s}.", "Use {f} with {s}.", "Please {v} the {n} for {s}."]
    ).format(V=cap(verb), v=verb, n=noun, f=name, s=" and ".join(said))
    return name, ToolCall(
        f"{cap(verb)} the {noun}.",
        props,
        list(props),
        u,
        args,
        {"status": "done"},
        f"The {noun} is done.",
    )


def tool_json(rng, name, spec):
    """The tool's definition as it stands in a request."""
    props = {k: dict(v) for k, v in spec.properties.items()}
    if rng.random() < 0.2:
        for v in props.values():
            v.pop("description", None)
    params = {"type": "object", "properties": props, "required": spec.required}
    function = {"name": name, "description": spec.description, "parameters": params}
    return {"type": "function", "function": function}


def tools(rng, bank):
    """A request with tools: it needs a call, two calls, an answer from a result, or none of them."""
    specs = tool_specs(rng, bank)
    for _ in range(2):
        n, s = random_tool(rng, bank)
        specs[n] = s
    names = list(specs)
    k = rng.choice([1, 2, 2, 3, 3, 4])
    rand = names[-2:]
    chosen = rng.sample(names, k)
    name = rng.choice(chosen)
    if rng.random() < 0.3 and rand[0] not in chosen:
        chosen[0] = name = rand[0]
    rng.shuffle(chosen)
    tl = [tool_json(rng, n, specs[n]) for n in chosen]
    user, args, result, final = specs[name][3:]
    think = f"The tool {name} fits. " + ", ".join(f"{k} is {v}" for k, v in args.items()) + "."
    system = sys_maybe(rng, 0.25)
    mode = rng.random()
    if mode < 0.3:
        rng.choice(range(5))  # not used: keeps the stream of random numbers of the published weights
    if mode < 0.5:
        return Conversation(
            system + [user_says(user)],
            "",
            think,
            tl,
            [(name, args)],
            task="tool_call",
            check={"call": [[name, args]]},
        )
    if mode < 0.58 and k > 1:
        n2 = rng.choice([c for c in chosen if c != name])
        s2 = specs[n2]
        u = user + rng.choice([" ", "\n", " Then: "]) + s2.user
        return Conversation(
            system + [user_says(u)],
            "",
            f"I need {name} and {n2}.",
            tl,
            [(name, args), (n2, s2.arguments)],
            task="tool_parallel",
            check={"call": [[name, args], [n2, s2.arguments]]},
        )
    if mode < 0.88:
        res = json.dumps(result) if not isinstance(result, str) else result
        msgs = system + [
            user_says(user),
            assistant_says("", think=think, calls=[(name, args)]),
            tool_says(res),
        ]
        return Conversation(
            msgs,
            final,
            f"The tool returned {res}. I answer the user.",
            tl,
            task="tool_result",
            check={"exact": final},
        )
    if mode < 0.94:
        sub = rng.choice([greet, identity, facts, arithmetic_small])(rng, bank)
        return Conversation(
            system + sub.messages[-1:],
            sub.answer,
            "No tool is needed. " + sub.think,
            tl,
            task="tool_none",
            check={"exact": sub.answer},
        )
    res = json.dumps(result) if not isinstance(result, str) else result
    other = rng.choice(chosen)
    s2 = specs[other] if other != name else None
    if s2 is None:
        sub = rng.choice([greet, facts])(rng, bank)
        msgs = system + [
            user_says(user),
            assistant_says("", calls=[(name, args)]),
            tool_says(res),
            assistant_says(final),
            sub.messages[-1],
        ]
        return Conversation(
            msgs,
            sub.answer,
            "No tool is needed. " + sub.think,
            tl,
            task="tool_none",
            check={"exact": sub.answer},
        )
    msgs = system + [
        user_says(user),
        assistant_says("", calls=[(name, args)]),
        tool_says(res),
        assistant_says(final),
        user_says(s2.user),
    ]
    think2 = f"The tool {other} fits. " + ", ".join(f"{k} is {v}" for k, v in s2.arguments.items()) + "."
    return Conversation(
        msgs,
        "",
        think2,
        tl,
        [(other, s2.arguments)],
        task="tool_call",
        check={"call": [[other, s2.arguments]]},
    )
