"""A few common facts."""

import string

from .lexicon import (
    CAPITALS,
    DAYS,
    GROUP_OF,
    GROUPS,
    LEGS,
    MONTH_DAYS,
    MONTHS,
    OPPOSITES,
    SOUNDS,
    THING_COLOUR,
)
from .phrases import cap, polite, simple, with_article


def facts(rng, bank):
    k = rng.randrange(13)
    if k <= 1:
        c, x = rng.choice(list(CAPITALS.items()))
        if k == 0:
            return simple(
                rng,
                "facts",
                rng.choice(
                    [
                        "What is the capital of {}?",
                        "Name the capital of {}.",
                        "capital of {}?",
                        "Which city is the capital of {}?",
                    ]
                ).format(c),
                f"The capital of {c} is {x}.",
                f"The capital of {c} is {x}.",
            )
        return simple(
            rng,
            "facts",
            f"{x} is the capital of which country?",
            f"{x} is the capital of {c}.",
            f"{x} is in {c}.",
        )
    if k == 2:
        t, c = rng.choice(list(THING_COLOUR.items()))
        return simple(
            rng,
            "facts",
            rng.choice(["What colour is {}?", "What color is {}?", "Which colour is {}?"]).format(t),
            f"{cap(t)} is {c}.",
            f"{cap(t)} is usually {c}.",
        )
    if k == 3:
        a, s = rng.choice(list(SOUNDS.items()))
        return simple(
            rng,
            "facts",
            f"What sound does {with_article(a)} make?",
            f"{cap(with_article(a))} says {s}.",
            f"{cap(with_article(a))} says {s}.",
        )
    if k in (4, 5):
        a, c = rng.choice(OPPOSITES)
        return simple(
            rng,
            "facts",
            rng.choice(["What is the opposite of {}?", "Give me the opposite of {}.", "Opposite of {}?"]).format(a),
            f"The opposite of {a} is {c}.",
            f"{cap(a)} and {c} are opposites.",
        )
    if k == 6:
        a, n = rng.choice(list(LEGS.items()))
        return simple(
            rng,
            "facts",
            f"How many legs does {with_article(a)} have?",
            f"{cap(with_article(a))} has {n} legs.",
            f"{cap(with_article(a))} has {n} legs.",
        )
    if k in (7, 8):
        L, what = (DAYS, "day") if k == 7 else (MONTHS, "month")
        i = rng.randrange(len(L))
        after = rng.random() < 0.6
        j = (i + (1 if after else -1)) % len(L)
        w = "after" if after else "before"
        return simple(
            rng,
            "facts",
            rng.choice(["What {w} comes {d} {x}?", "Which {w} is {d} {x}?"]).format(w=what, d=w, x=L[i]),
            f"{L[j]} comes {w} {L[i]}.",
            f"The {what} {w} {L[i]} is {L[j]}.",
        )
    if k == 9:
        g = rng.choice(list(GROUPS))
        n = rng.randint(2, 4)
        return simple(
            rng,
            "facts",
            polite(rng, rng.choice([f"Name {n} {g}.", f"List {n} {g}.", f"Give me {n} {g}."])),
            ", ".join(GROUPS[g][:n]),
            f"I list {n} {g}.",
        )
    if k == 10:
        w, g = rng.choice(list(GROUP_OF.items()))
        return simple(
            rng,
            "facts",
            rng.choice(
                [
                    f"What is {with_article(w) if w.islower() else w}?",
                    f"What kind of thing is {with_article(w) if w.islower() else w}?",
                ]
            ),
            f"{cap(with_article(w)) if w.islower() else w} is {with_article(g)}.",
            f"{cap(w)} belongs to the {g}s.",
        )
    if k == 11:
        i = rng.randrange(12)
        return simple(
            rng,
            "facts",
            f"How many days does {MONTHS[i]} have?",
            f"{MONTHS[i]} has {MONTH_DAYS[i]} days.",
            f"{MONTHS[i]} has {MONTH_DAYS[i]} days.",
        )
    q, a = rng.choice(
        [
            ("How many days are in a week?", "There are seven days in a week."),
            ("How many months are in a year?", "There are twelve months in a year."),
            ("List the days of the week.", ", ".join(DAYS)),
            ("List the months of the year.", ", ".join(MONTHS)),
            ("How many hours are in a day?", "There are 24 hours in a day."),
            ("How many minutes are in an hour?", "There are 60 minutes in an hour."),
            ("What is the first month of the year?", "The first month of the year is January."),
            ("Say the alphabet.", " ".join(string.ascii_uppercase)),
            ("What do bees make?", "Bees make honey."),
            ("What do cows give us?", "Cows give us milk."),
            ("What is the biggest planet?", "Jupiter is the biggest planet."),
            ("Which planet do we live on?", "We live on Earth."),
            ("What is water made of?", "Water is made of hydrogen and oxygen."),
            ("Where does the sun rise?", "The sun rises in the east."),
            ("Is the earth round?", "Yes, the earth is round."),
        ]
    )
    return simple(rng, "facts", q, a, "This is a simple fact that I know.")
