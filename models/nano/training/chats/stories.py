"""Short stories."""

from .conversation import Conversation
from .lexicon import ADJ, ANIMALS, COLOURS, DAYS, FOODS, JOBS, OBJECTS, PLACES, WEATHER
from .phrases import cap, sys_maybe, user_says, with_article


def story_text(rng, bank, hero=None, animal=None):
    n = hero or rng.choice(bank.names)
    a = animal or rng.choice(ANIMALS)
    pl, pl2 = rng.sample(PLACES, 2)
    o = rng.choice(OBJECTS)
    adj, adj2 = rng.sample(ADJ, 2)
    f = rng.choice(FOODS)
    m = rng.choice(bank.names)
    d = rng.choice(DAYS)
    c = rng.choice(COLOURS)
    w = rng.choice(WEATHER)
    pr = rng.choice(["he", "she"])
    ps = {"he": "his", "she": "her"}[pr]
    s1 = rng.choice(
        [
            f"Once upon a time there was {with_article(adj)} {a} called {n}. {cap(pr)} lived near the {pl}.",
            f"{n} was {with_article(adj)} {a} who lived in the {pl}.",
            f"Long ago, in a {pl} far away, there lived {with_article(adj)} {a} named {n}.",
            f"In the {pl} lived {with_article(a)} called {n}. Everyone said that {n} was very {adj}.",
        ]
    )
    s2 = rng.choice(
        [
            f"One {w} {d}, {n} found {with_article(c)} {o} in the {pl2}.",
            f"One day {n} walked to the {pl2} and saw {with_article(c)} {o} on the ground.",
            f"On {d} it was {w}, and {n} lost {ps} {c} {o} in the {pl2}.",
        ]
    )
    lost = "lost" in s2
    s3 = rng.choice(
        [
            f'"{"Where is my" if lost else "Whose is this"} {o}?" asked {n}.',
            f"{n} looked at the {pl2} and did not know what to do.",
            f'"I need some help," said {n}.',
        ]
    )
    s4 = rng.choice(
        [
            f'Then {m} the {rng.choice(ANIMALS)} came by and said, "I can help you."',
            f"A friend called {m} heard {n} and came running.",
            f"{m}, {with_article(adj2)} {rng.choice(JOBS)}, stopped and listened.",
        ]
    )
    s5 = rng.choice(
        [
            "They looked under the table, behind the door and near the old tree.",
            f"Together they asked everyone in the {pl}.",
            f"They walked all day, from the {pl} to the {pl2} and back.",
        ]
    )
    s6 = (
        rng.choice(
            [
                f"At last they found the {o} under a big leaf.",
                f"In the evening {m} saw something {c}. It was the {o}!",
            ]
        )
        if lost
        else rng.choice(
            [
                f"It belonged to an old {rng.choice(JOBS)}, who was very happy to have it back.",
                f"Nobody knew, so {n} kept the {o} and took good care of it.",
            ]
        )
    )
    s7 = rng.choice(
        [
            f"{n} was so happy that {pr} shared {ps} {f} with {m}.",
            f"They ate {f} together and laughed until the moon came up.",
            f"{n} said thank you and gave {m} a big hug.",
        ]
    )
    s8 = rng.choice(
        [
            f"From that day on, {n} and {m} were best friends.",
            f"That night {n} slept very well.",
            "And they all lived happily ever after.",
            f"{n} learned that it is good to ask for help.",
        ]
    )
    return " ".join([s1, s2, s3, s4, s5, s6, s7, s8])


def story(rng, bank):
    k = rng.random()
    a = rng.choice(ANIMALS)
    if k < 0.45:
        u, hero, kind = (
            rng.choice(
                [
                    "Tell me a short story about {}.",
                    "Write a short story about {}.",
                    "Tell me a story about {}.",
                    "Can you tell a story about {}?",
                ]
            ).format(with_article(a)),
            None,
            a,
        )
    elif k < 0.8:
        hero = rng.choice(bank.names)
        kind = a
        u = rng.choice(["Tell me a story about {} called {}.", "Write a short story about {} named {}."]).format(
            with_article(a), hero
        )
    else:
        u, hero, kind = (
            rng.choice(
                [
                    "Tell me a story.",
                    "Write a short story.",
                    "Tell me a short story, please.",
                    "I want to hear a story.",
                    "Once upon a time",
                ]
            ),
            None,
            None,
        )
    t = story_text(rng, bank, hero, kind)
    need = ([hero] if hero else []) + ([kind] if kind else [])
    think = (
        f"I write a short story about {with_article(kind)}" + (f" called {hero}" if hero else "") + "."
        if kind
        else "I write a short story with a happy ending."
    )
    return Conversation(sys_maybe(rng) + [user_says(u)], t, think, task="story", check={"story": need})
