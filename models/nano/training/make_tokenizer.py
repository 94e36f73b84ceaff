"""Train the byte-level BPE: Qwen3.5's pre-tokenizer, Qwen3.6's added tokens in their order."""

import argparse
import random
import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from chats.conversation import render
from chats.sampler import Sampler
from chats.stories import story_text

BASE_VOCAB = 5056  # 5,089 with the added tokens; the model has 5,120 rows
REGEX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|object_ref_start|>",
    "<|object_ref_end|>",
    "<|box_start|>",
    "<|box_end|>",
    "<|quad_start|>",
    "<|quad_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
]
# Added tokens that a text may contain: not special.
PLAIN = {
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
}


def corpus(data, chats):
    """Chats, stories, text, and every word and name on its own."""
    sampler, rng = Sampler(data, 123), random.Random(5)
    for i in range(chats):
        yield "".join(render(*sampler.chat()))
        if i % 6 == 0:
            yield rng.choice(sampler.text)
        if i % 4 == 0:
            yield story_text(rng, sampler.bank)
    for word in sampler.bank.words:
        yield f"{word} {word} {word} {word.capitalize()}"
    for name in sampler.bank.names:
        yield f"{name} {name}"


def main(data, out, chats, vocabulary):
    tokenizer = Tokenizer(models.BPE(byte_fallback=False, fuse_unk=False))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(REGEX), behavior="isolated", invert=False)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    byte_level = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    tokenizer.decoder = decoders.ByteLevel(**byte_level)
    tokenizer.post_processor = processors.ByteLevel(**byte_level)
    special = re.compile("|".join(map(re.escape, SPECIAL)))
    tokenizer.train_from_iterator(
        (special.sub("\n", document) for document in corpus(data, chats)),
        trainers.BpeTrainer(
            vocab_size=vocabulary,
            show_progress=False,
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            max_token_length=24,
        ),
    )
    assert tokenizer.get_vocab_size() == vocabulary, "the corpus is too small for this vocabulary"
    tokenizer.add_tokens([AddedToken(s, special=s not in PLAIN, normalized=False) for s in SPECIAL])
    tokenizer.save(out)
    print(f"{tokenizer.get_vocab_size()} tokens, the first added one is {tokenizer.token_to_id(SPECIAL[0])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="the DATA folder")
    parser.add_argument("out", help="tokenizer.json to write (put it into DATA)")
    parser.add_argument("--chats", type=int, default=26000, help="chats to train on")
    parser.add_argument("--vocabulary", type=int, default=BASE_VOCAB, help="tokens without the added ones")
    main(**vars(parser.parse_args()))
