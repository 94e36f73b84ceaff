"""Small pieces that every task uses: messages, politeness, articles."""

from .conversation import Conversation


def user_says(t):
    return {"role": "user", "content": t}


def assistant_says(t, **k):
    return {"role": "assistant", "content": t, **k}


def tool_says(t):
    return {"role": "tool", "content": t}


def cap(s):
    """The first letter in upper case."""
    return s[:1].upper() + s[1:]


SYSTEMS = [
    "You are a helpful assistant.",
    "You are lily-nano, a tiny demo model.",
    "You are a friendly assistant.",
    "Answer briefly.",
    "You are a helpful assistant. Keep your answers short.",
    "Be concise.",
    "You are a careful assistant who answers in plain English.",
]


def sys_maybe(rng, p=0.3):
    """A system message with probability p, as a list of none or one."""
    return [{"role": "system", "content": rng.choice(SYSTEMS)}] if rng.random() < p else []


def polite(rng, s):
    """The same request, often with a please or a can you."""
    x = rng.random()
    if x < 0.15:
        return "Please " + s[0].lower() + s[1:]
    if x < 0.25:
        return s.rstrip(".") + ", please."
    if x < 0.32:
        return "Can you " + s[0].lower() + s[1:].rstrip(".") + "?"
    if x < 0.36:
        return s.rstrip(".")
    return s


def simple(rng, task, user, answer, think, check=None, p_sys=0.3):
    """One question, one answer; the check is the exact answer unless another is given."""
    return Conversation(
        sys_maybe(rng, p_sys) + [user_says(user)], answer, think, task=task, check=check or {"exact": answer}
    )


def with_article(w):
    """The noun after "a" or "an"."""
    return ("an " if w[0].lower() in "aeiou" else "a ") + w
