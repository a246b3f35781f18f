#!/usr/bin/env python3
"""Writes gguf_sentencepiece.json: a SentencePiece tokenizer as the metadata of a GGUF file, and its ids of some 400 texts.

    python3 -m venv VENV && VENV/bin/pip install sentencepiece==0.2.3 tokenizers
    VENV/bin/python tests/tokenizer/make_gguf_fixture.py

The library sentencepiece trains a BPE model with byte fallback, as Llama's, and encodes the texts.
"""
import io
import json
import pathlib
import random

import sentencepiece
from make_fixtures import CORPUS, TEXTS

HERE = pathlib.Path(__file__).resolve().parent
CONTROL, BYTE, UNKNOWN, NORMAL = 3, 6, 2, 1


def train(lines):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=620, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=1.0, minloglevel=2)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def kind(processor, i):
    if processor.is_unknown(i):
        return UNKNOWN
    return CONTROL if processor.is_control(i) else BYTE if processor.is_byte(i) else NORMAL


def texts(lines):
    rng = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz     .,:-0123456789TeErs\n\u00e9\u00df\u65e5\u20ac"
    # U+2581 is a space there, and spellings of control tokens are text.
    yield from (text for text in TEXTS if "\u2581" not in text and "<" not in text and len(text) < 200)
    for _ in range(300):
        line = rng.choice(lines)
        at = rng.randrange(len(line))
        yield line[at:at + 40] + "".join(rng.choice(letters) for _ in range(rng.randrange(20)))


def main():
    lines = [line for line in CORPUS if line.strip()]
    processor = train(lines)
    size = processor.get_piece_size()
    metadata = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [processor.id_to_piece(i) for i in range(size)],
        "tokenizer.ggml.scores": [processor.get_score(i) for i in range(size)],
        "tokenizer.ggml.token_type": [kind(processor, i) for i in range(size)],
        "tokenizer.ggml.bos_token_id": processor.bos_id(),
        "tokenizer.ggml.eos_token_id": processor.eos_id(),
        "tokenizer.ggml.unknown_token_id": processor.unk_id(),
    }
    cases = [[text, processor.encode(text), processor.decode(processor.encode(text))] for text in texts(lines)]
    with open(HERE / "gguf_sentencepiece.json", "w") as file:
        file.write('{"metadata": ' + json.dumps(metadata) + ',\n"cases": [\n')
        file.write(",\n".join(json.dumps(case) for case in cases) + "\n]}\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
