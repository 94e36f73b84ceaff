"""Questions about a passage, short or long."""

import re

from .lexicon import ANIMALS, CITIES, COLOURS, FOODS, HOBBIES, JOBS, OBJECTS, PLACES
from .phrases import cap, simple, with_article


def fact_pool(rng, bank, n):
    """n (sentence, question, answer, key, think) about invented people and things, with distinct subjects."""
    out, used = [], set()
    while len(out) < n:
        k, nm, o = rng.randrange(12), rng.choice(bank.names), rng.choice(OBJECTS)
        code = str(rng.randint(1000, 9999))
        city = rng.choice(CITIES)
        col = rng.choice(COLOURS)
        place = rng.choice(PLACES)
        job, food, hob = rng.choice(JOBS), rng.choice(FOODS), rng.choice(HOBBIES)
        w = rng.choice(bank.words)
        ani = rng.choice(ANIMALS)
        S = [
            (nm, f"{nm} lives in {city}.", f"Where does {nm} live?", f"{nm} lives in {city}.", city),
            (
                nm,
                f"{nm} is {with_article(job)}.",
                f"What is {nm}'s job?",
                f"{nm} is {with_article(job)}.",
                job,
            ),
            (nm, f"{nm} likes {food}.", f"What food does {nm} like?", f"{nm} likes {food}.", food),
            (nm, f"{nm} enjoys {hob}.", f"What does {nm} enjoy?", f"{nm} enjoys {hob}.", hob),
            (
                nm,
                f"{nm} has {with_article(col)} {o}.",
                f"What does {nm} have?",
                f"{nm} has {with_article(col)} {o}.",
                f"{col} {o}",
            ),
            (
                nm,
                f"{nm} is {int(code[:2])} years old.",
                f"How old is {nm}?",
                f"{nm} is {int(code[:2])} years old.",
                str(int(code[:2])),
            ),
            (o, f"The {o} is in the {place}.", f"Where is the {o}?", f"The {o} is in the {place}.", place),
            (o, f"The {o} is {col}.", f"What colour is the {o}?", f"The {o} is {col}.", col),
            (
                place,
                f"The code for the {place} is {code}.",
                f"What is the code for the {place}?",
                f"The code for the {place} is {code}.",
                code,
            ),
            (
                place,
                f"The password of the {place} is {w}.",
                f"What is the password of the {place}?",
                f"The password of the {place} is {w}.",
                w,
            ),
            (
                nm,
                f"{nm}'s {ani} is called {cap(w)}.",
                f"What is {nm}'s {ani} called?",
                f"{nm}'s {ani} is called {cap(w)}.",
                cap(w),
            ),
            (
                nm,
                f"{nm}'s phone number is {code[:3]}-{code}.",
                f"What is {nm}'s phone number?",
                f"{nm}'s phone number is {code[:3]}-{code}.",
                f"{code[:3]}-{code}",
            ),
        ]
        s, sent, q, a, key = S[k]
        if (s, k) in used:
            continue
        if any(s == x and k != y for x, y in used) and rng.random() < 0.5:
            continue
        used.add((s, k))
        out.append((sent, q, a, key))
    return out


def passage(rng, bank):
    fs = fact_pool(rng, bank, rng.randint(2, 8))
    sent, q, a, key = rng.choice(fs)
    body = " ".join(f[0] for f in fs)
    if rng.random() < 0.3:
        extra = [rng.choice(bank.sentences) for _ in range(rng.randint(1, 3))]
        xs = [f[0] for f in fs] + extra
        rng.shuffle(xs)
        body = " ".join(xs)
    u = rng.choice(
        [
            "{t}\n\n{q}",
            "Read the text and answer the question.\n\nText: {t}\n\nQuestion: {q}",
            "Text:\n{t}\n\n{q}",
            "{q}\n\n{t}",
            "Here is a text: {t}\n\nQuestion: {q}",
            "Answer from the text. {t} {q}",
        ]
    ).format(t=body, q=q)
    return simple(rng, "passage", u, a, f'The text says: "{sent}"', {"contains": key})


def long_passage(rng, bank, text=None, target=None):
    """Retrieval from a long padded context; target in characters."""
    target = target or int(2000 * 2 ** rng.uniform(0, 2.6))
    fs = fact_pool(rng, bank, rng.randint(1, 6))
    parts, size = [], 0
    if rng.random() < 0.6 and text:
        d = rng.choice(text)
        i = rng.randrange(max(1, len(d) - 200))
        pool = re.split(r"(?<=[.!?]) +|\n\n", d[i:])
        while size < target:
            if not pool:
                pool = re.split(r"(?<=[.!?]) +|\n\n", rng.choice(text))
            s = pool.pop(0)
            parts.append(s)
            size += len(s) + 1
    else:
        while size < target:
            s = rng.choice(bank.sentences) if rng.random() < 0.5 else fact_pool(rng, bank, 1)[0][0]
            if any(f[3] in s for f in fs):
                continue
            parts.append(s)
            size += len(s) + 1
    for f in fs:
        parts.insert(rng.randint(0, len(parts)), f[0])
    sent, q, a, key = rng.choice(fs)
    u = rng.choice(
        [
            "{t}\n\n{q}",
            "Read the text and answer the question.\n\nText: {t}\n\nQuestion: {q}",
            "Text:\n{t}\n\n{q}",
        ]
    ).format(t=" ".join(parts), q=q)
    return simple(rng, "long_passage", u, a, f'The text says: "{sent}"', {"contains": key}, p_sys=0.15)
