"""Tasks on numbers: count, calculate, compare."""

from .lexicon import OBJECTS
from .phrases import polite, simple


def count(rng, bank):
    k = rng.random()
    if k < 0.6:
        lo = rng.choice([1, 1, 1, rng.randint(0, 90)])
        hi = lo + rng.randint(2, 19)
        st = 1
        u = rng.choice(
            [
                "Count from {} to {}.",
                "Count up from {} to {}.",
                "List the numbers from {} to {}.",
                "Write the numbers {} to {}.",
            ]
        ).format(lo, hi)
        xs = list(range(lo, hi + 1))
    elif k < 0.8:
        hi = rng.randint(4, 30)
        lo = max(0, hi - rng.randint(3, 15))
        u = rng.choice(["Count down from {} to {}.", "Count backwards from {} to {}."]).format(hi, lo)
        xs = list(range(hi, lo - 1, -1))
    else:
        st = rng.choice([2, 5, 10])
        lo = st * rng.randint(0, 5)
        hi = lo + st * rng.randint(3, 9)
        word = {2: "twos", 5: "fives", 10: "tens"}[st]
        u = f"Count by {word} from {lo} to {hi}."
        xs = list(range(lo, hi + 1, st))
    return simple(rng, "count", polite(rng, u), ", ".join(map(str, xs)), f"I start at {xs[0]} and stop at {xs[-1]}.")


def add_think(x, y):
    """Column addition, the thought before a sum."""
    a, c = [int(d) for d in str(x)[::-1]], [int(d) for d in str(y)[::-1]]
    names, carry, steps = ["ones", "tens", "hundreds", "thousands"], 0, []
    for i in range(max(len(a), len(c))):
        p, q = (a[i] if i < len(a) else 0), (c[i] if i < len(c) else 0)
        s = p + q + carry
        steps.append(f"{names[i]}: {p} + {q}" + (f" + {carry}" if carry else "") + f" = {s}")
        carry = s // 10
    return "; ".join(steps) + f". So {x} + {y} = {x + y}."


def arithmetic(rng, bank, thinking=True):
    k = rng.random()
    if k < 0.55:
        hi = rng.choice([9, 20, 50, 99, 99]) if not thinking else rng.choice([9, 20, 99, 99, 999])
        x, y = rng.randint(0, hi), rng.randint(0, hi)
        u = rng.choice(
            [
                "What is {} + {}?",
                "What is {} plus {}?",
                "{} + {} = ?",
                "Add {} and {}.",
                "Calculate {} + {}.",
                "How much is {} plus {}?",
                "{} + {}",
                "{}+{}?",
            ]
        ).format(x, y)
        a = rng.choice(["{x} + {y} = {s}"]).format(x=x, y=y, s=x + y)
        return simple(rng, "arithmetic", u, a, add_think(x, y))
    if k < 0.8:
        x = rng.randint(1, rng.choice([10, 20, 50]))
        y = rng.randint(0, x)
        u = rng.choice(
            [
                "What is {} - {}?",
                "What is {} minus {}?",
                "{} - {} = ?",
                "Calculate {} - {}.",
                "How much is {} minus {}?",
            ]
        ).format(x, y)
        return simple(rng, "arithmetic", u, f"{x} - {y} = {x - y}", f"{y} + {x - y} = {x}, so {x} - {y} = {x - y}.")
    if k < 0.9:
        x, y = rng.randint(1, 10), rng.randint(1, 10)
        u = rng.choice(["What is {} times {}?", "{} * {} = ?", "What is {} x {}?", "Multiply {} by {}."]).format(x, y)
        return simple(rng, "arithmetic", u, f"{x} * {y} = {x * y}", f"From the table, {x} * {y} = {x * y}.")
    n = rng.choice(bank.names)
    x, y = rng.randint(2, 20), rng.randint(1, 15)
    o = rng.choice(OBJECTS) + "s"
    if rng.random() < 0.5 and x > y:
        u = f"{n} has {x} {o} and gives away {y}. How many {o} does {n} have left?"
        return simple(rng, "arithmetic", u, f"{n} has {x - y} {o} left.", f"{x} - {y} = {x - y}.")
    u = f"{n} has {x} {o} and finds {y} more. How many {o} does {n} have now?"
    return simple(rng, "arithmetic", u, f"{n} has {x + y} {o} now.", f"{x} + {y} = {x + y}.")


def compare(rng, bank):
    hi = rng.choice([20, 100, 1000])
    x, y = rng.sample(range(hi), 2)
    big = rng.random() < 0.6
    u = rng.choice(
        ["Which number is {}, {} or {}?", "Which is {}: {} or {}?", "What is the {} number, {} or {}?"]
    ).format("larger" if big else "smaller", x, y)
    z = (max if big else min)(x, y)
    o = x + y - z
    return simple(
        rng,
        "compare",
        u,
        f"{z} is {'larger' if big else 'smaller'} than {o}.",
        f"{z} {'>' if big else '<'} {o}.",
    )


def arithmetic_small(rng, bank):
    x, y = rng.randint(1, 9), rng.randint(1, 9)
    return simple(rng, "arithmetic", f"What is {x} + {y}?", f"{x} + {y} = {x + y}", f"{x} + {y} = {x + y}.")
