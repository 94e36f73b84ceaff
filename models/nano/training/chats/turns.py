"""Conversations of several turns."""

from .conversation import Conversation
from .facts import facts
from .lexicon import ANIMALS, CITIES, COLOURS
from .numbers import arithmetic, arithmetic_small, compare, count
from .phrases import assistant_says, cap, sys_maybe, user_says, with_article
from .small_talk import greet, identity
from .words import case, copy, sort, spell


def memory(rng, bank):
    n = rng.choice(bank.names)
    num = rng.randint(2, 999)
    col = rng.choice(COLOURS)
    city = rng.choice(CITIES)
    ani = rng.choice(ANIMALS)
    pn = rng.choice(bank.names)
    M = [
        (
            [f"My name is {n}.", f"Hi, I'm {n}.", f"Hello, I am {n}."],
            f"Hello, {n}! Nice to meet you. How can I help you today?",
            ["What is my name?", "Do you remember my name?", "What's my name?", "Who am I?"],
            f"Your name is {n}.",
            n,
        ),
        (
            [
                f"My favourite number is {num}.",
                f"Remember the number {num}.",
                f"Please remember this number: {num}.",
            ],
            f"OK, I will remember the number {num}.",
            ["What is the number?", "Which number did I tell you?", "What number did I ask you to remember?"],
            f"The number is {num}.",
            str(num),
        ),
        (
            [f"My favourite colour is {col}.", f"I like the colour {col} best."],
            f"{cap(col)} is a nice colour!",
            ["What is my favourite colour?", "Which colour do I like best?"],
            f"Your favourite colour is {col}.",
            col,
        ),
        (
            [f"I live in {city}.", f"My home is in {city}."],
            f"{city} sounds like a nice place to live.",
            ["Where do I live?", "In which city do I live?"],
            f"You live in {city}.",
            city,
        ),
        (
            [f"I have {with_article(ani)} called {pn}.", f"My {ani} is called {pn}."],
            f"{pn} is a lovely name for {with_article(ani)}.",
            [f"What is my {ani} called?", f"What is the name of my {ani}?"],
            f"Your {ani} is called {pn}.",
            pn,
        ),
    ]
    picked = rng.sample(range(len(M)), rng.choice([1, 1, 2, 3]))
    msgs = sys_maybe(rng, 0.25)
    seq = [("m", i) for i in picked] + [("d", None)] * rng.choice([0, 1, 1, 2, 3])
    first = seq.pop(0)
    rng.shuffle(seq)
    seq = [first] + seq
    for kind, i in seq:
        if kind == "m":
            msgs += [user_says(rng.choice(M[i][0])), assistant_says(M[i][1])]
        else:
            sub = rng.choice([greet, facts, arithmetic_small, count, copy])(rng, bank)
            if (
                "name is" in sub.messages[-1]["content"]
                or "I am " in sub.messages[-1]["content"]
                or "I'm" in sub.messages[-1]["content"]
            ):
                continue
            msgs += [sub.messages[-1], assistant_says(sub.answer)]
    i = rng.choice(picked)
    q, a, key = rng.choice(M[i][2]), M[i][3], M[i][4]
    return Conversation(
        msgs + [user_says(q)], a, f"The user told me earlier: {key}.", task="memory", check={"contains": key}
    )


def multi(rng, bank):
    """Several unrelated turns, the last one answered."""
    subs = [
        rng.choice([greet, facts, arithmetic, count, copy, identity, sort, spell, compare, case])(rng, bank)
        for _ in range(rng.randint(2, 4))
    ]
    msgs = sys_maybe(rng, 0.2)
    for s in subs[:-1]:
        msgs += [s.messages[-1], assistant_says(s.answer)]
    last = subs[-1]
    return Conversation(msgs + [last.messages[-1]], last.answer, last.think, task="multi_turn", check=last.check)
