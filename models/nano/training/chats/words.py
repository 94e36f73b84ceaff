"""Tasks on words: copy, sort, spell, change case."""

import string

from .lexicon import ADJ, OBJECTS
from .phrases import simple


def phrase(rng, bank):
    k = rng.random()
    if k < 0.4:
        return " ".join(rng.choice(bank.words) for _ in range(rng.randint(1, 7)))
    if k < 0.7:
        return rng.choice(bank.sentences)
    if k < 0.8:
        return " ".join(str(rng.randint(0, 99)) for _ in range(rng.randint(2, 7)))
    if k < 0.9:
        return "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(rng.randint(4, 10)))
    return f"{rng.choice(bank.names)} has {rng.randint(2, 20)} {rng.choice(ADJ)} {rng.choice(OBJECTS)}s"


def copy(rng, bank):
    p = phrase(rng, bank)
    u = rng.choice(
        [
            "Repeat after me: {}",
            "Say: {}",
            "Repeat this: {}",
            "Copy this text exactly: {}",
            "Repeat the following text:\n{}",
            'Say "{}".',
            'Repeat "{}"',
            "Please repeat: {}",
            "Copy the following line.\n\n{}",
            "Write exactly this: {}",
            'Please say "{}" and nothing else.',
            "Echo: {}",
        ]
    ).format(p)
    return simple(
        rng, "copy", u, p, rng.choice(["I repeat the text exactly.", "The user wants me to repeat the text."])
    )


def sort(rng, bank):
    if rng.random() < 0.75:
        n = rng.randint(3, 6)
        ws = []
        while len(ws) < n:
            w = rng.choice(bank.words)
            if w not in ws:
                ws.append(w)
        s = sorted(ws)
        sep = rng.choice([", ", ", ", " "])
        u = rng.choice(
            [
                "Sort these words alphabetically: {}",
                "Sort the words: {}",
                "Put these words in alphabetical order: {}",
                "Sort alphabetically: {}",
                "Arrange in alphabetical order: {}",
            ]
        ).format(sep.join(ws))
        think = (
            "First letters: "
            + ", ".join(f"{w[0]} ({w})" for w in ws)
            + ". In order: "
            + ", ".join(w[0] for w in s)
            + "."
        )
    else:
        ws = rng.sample(range(100), rng.randint(3, 6))
        s = sorted(ws)
        d = rng.random() < 0.3
        if d:
            s = s[::-1]
        u = f"Sort these numbers from {'largest to smallest' if d else 'smallest to largest'}: " + ", ".join(
            map(str, ws)
        )
        think = f"I look for the {'largest' if d else 'smallest'} number first: {s[0]}."
    return simple(rng, "sort", u, ", ".join(map(str, s)), think)


def spell(rng, bank):
    w = rng.choice(bank.words + bank.names[: len(bank.words) // 3])
    k = rng.random()
    if k < 0.6:
        u = rng.choice(
            [
                "Spell the word {}.",
                "How do you spell {}?",
                "Spell {}.",
                'Spell "{}".',
                "Spell {} letter by letter.",
            ]
        ).format(w)
        return simple(rng, "spell", u, "-".join(w), f"I write each letter of {w}.")
    if k < 0.8:
        u = rng.choice(
            [
                "How many letters are in the word {}?",
                "How many letters does {} have?",
                "Count the letters in {}.",
            ]
        ).format(w)
        sp = ", ".join(f"{i} {c}" for i, c in enumerate(w, 1))
        return simple(rng, "spell", u, f"The word {w} has {len(w)} letters.", f"{sp}. That is {len(w)}.")
    u = (
        rng.choice(["What is the first letter of {}?", "Which letter does {} start with?"]).format(w)
        if k < 0.9
        else rng.choice(["What is the last letter of {}?", "Which letter does {} end with?"]).format(w)
    )
    z = w[0] if k < 0.9 else w[-1]
    return simple(
        rng,
        "spell",
        u,
        f"The {'first' if k < 0.9 else 'last'} letter of {w} is {z}.",
        f"{w} is spelled {'-'.join(w)}.",
    )


def case(rng, bank):
    p = " ".join(rng.choice(bank.words) for _ in range(rng.randint(1, 4)))
    k = rng.random()
    if k < 0.35:
        return simple(
            rng,
            "case",
            rng.choice(["Write in capital letters: {}", "Make this uppercase: {}", "Convert to uppercase: {}"]).format(
                p
            ),
            p.upper(),
            "I write every letter in capitals.",
        )
    if k < 0.6:
        return simple(
            rng,
            "case",
            rng.choice(["Write in lowercase: {}", "Make this lowercase: {}"]).format(p.upper()),
            p,
            "I write every letter in lowercase.",
        )
    ws = [rng.choice(bank.words) for _ in range(rng.randint(3, 6))]
    if k < 0.8:
        i = rng.choice([0, -1])
        n = "first" if i == 0 else "last"
        return simple(
            rng,
            "case",
            f"What is the {n} word in this list? {', '.join(ws)}",
            ws[i],
            f"The {n} word is {ws[i]}.",
        )
    return simple(
        rng,
        "case",
        rng.choice(["Reverse the order of these words: {}", "Write these words in reverse order: {}"]).format(
            " ".join(ws)
        ),
        " ".join(ws[::-1]),
        "I start with the last word.",
    )
