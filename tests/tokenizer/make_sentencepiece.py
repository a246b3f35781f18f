#!/usr/bin/env python3
r"""Writes sentencepiece/: small models of the library sentencepiece, and the ids that it gives for 400 texts with each.

    python3 -m venv VENV && VENV/bin/pip install sentencepiece==0.2.3 protobuf tokenizers==0.22.2
    VENV/bin/pip install transformers==4.57.6
    VENV/bin/python tests/tokenizer/make_sentencepiece.py
    VENV/bin/python tests/tokenizer/make_sentencepiece.py --fuzz 2000 [--seed 0]

--fuzz writes nothing. It compares N random texts with each model, and with models that have the rules nmt_nfkc, which are too large to
commit. It needs a C++ compiler (CXX, default g++). Exit status 1 if ids differ.

| model | kind | what it shows |
|---|---|---|
| bpe | BPE | byte fallback, spaces stay: Llama's settings |
| unigram | unigram | no byte fallback, extra spaces are removed, rules of a charsmap |
| symbols | BPE | user-defined symbols, no space in front: Gemma's settings |
| unigram_symbols | unigram | user-defined symbols, byte fallback, spaces stay |
| unused | BPE | pieces of the kind UNUSED are cut into their parts; extra spaces are removed |
| unigram.json | unigram | a tokenizer.json with a Unigram model, by the library tokenizers |
"""
import argparse
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import sentencepiece
import tokenizers
from make_fixtures import CORPUS, TEXTS
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = HERE / "sentencepiece"
LINES = [line for line in CORPUS if line.strip()]
SYMBOLS = ["<sep>", "caf\u00e9", "\u2581\u2581", "\u2581\u2581\u2581", "the", "<|turn|>", "  "]
# Texts and their replacements, as code points: fi ligature, no-break space, fullwidth A, an accent on its own, a deleted one.
RULES = "FB01\t66 69\nA0\t20\nFF21\t41\n65 301\tE9\n200B\t\n61 62 63\t63 62 61\n3000\t20 20\n"

BASE = {"character_coverage": 1.0, "minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False}
LLAMA = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True, "split_digits": True,
         "allow_whitespace_only_pieces": True}
MODELS = {
    "bpe": {"model_type": "bpe", "vocab_size": 620, **LLAMA},
    "unigram": {"model_type": "unigram", "vocab_size": 400, "normalization_rule_tsv": RULES},
    "symbols": {"model_type": "bpe", "vocab_size": 620, **LLAMA, "add_dummy_prefix": False, "user_defined_symbols": SYMBOLS,
                "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "bos_piece": "<bos>", "eos_piece": "<eos>"},
    "unigram_symbols": {"model_type": "unigram", "vocab_size": 560, **LLAMA, "user_defined_symbols": SYMBOLS,
                        "control_symbols": ["<ctl>"]},
    "unused": {"model_type": "bpe", "vocab_size": 500, "normalization_rule_name": "identity"},
}
LARGE = {  # for --fuzz alone
    "nfkc": {"model_type": "unigram", "vocab_size": 400},
    "nfkc_bpe": {"model_type": "bpe", "vocab_size": 400, "normalization_rule_name": "nfkc_cf", "byte_fallback": False},
}


def train(name, options):
    model = io.BytesIO()
    options = {**BASE, **options}
    with tempfile.TemporaryDirectory() as folder:
        if "normalization_rule_tsv" in options:
            rules = pathlib.Path(folder) / "rules.tsv"
            rules.write_text(options["normalization_rule_tsv"])
            options["normalization_rule_tsv"] = str(rules)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(LINES), model_writer=model, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    proto.trainer_spec.ClearField("user_defined_symbols")  # only the pieces count
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # the path of this machine
    if name == "unused":
        rng = random.Random(3)
        for piece in proto.pieces:
            if piece.type == 1 and len(piece.piece) > 1 and rng.random() < 0.3:
                piece.type = 5
    return proto.SerializeToString(deterministic=True)


def texts(count, seed):
    rng = random.Random(seed)
    special = ["\u2581", "  ", "   ", "\n", "\t", "\u00a0", "\ufb01", "\uff21", "e\u0301", "\u200b", "abc", "\u3000", "\u20ac", "\u65e5\u672c",
               "\U0001f600", "\x00", "\x7f", "<s>", "</s>", "<unk>", "<0x41>", "<ctl>", "0123456789", "aaaaaaaa", "\u0430\u0431", "\u1e9b\u0323",
               *SYMBOLS]
    letters = "abcdefghijklmnopqrstuvwxyz     .,:-0123456789TeErs\n\u00e9\u00df"
    out = [text for text in TEXTS if len(text) < 120] if seed == 0 else []
    while len(out) < count:
        parts = []
        for _ in range(rng.randrange(1, 6)):
            kind = rng.random()
            if kind < 0.4:
                line = rng.choice(LINES)
                at = rng.randrange(len(line))
                parts.append(line[at:at + rng.randrange(1, 30)])
            elif kind < 0.7:
                parts.append("".join(rng.choice(letters) for _ in range(rng.randrange(12))))
            elif kind < 0.9:
                parts.append(rng.choice(special))
            else:
                parts.append(chr(rng.choice([rng.randrange(32, 0x250), rng.randrange(0x2000, 0x3100), rng.randrange(0xf900, 0x10000)])))
        out.append("".join(parts))
    return out[:count]


def train_json():
    """A tokenizer.json with a Unigram model."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Replace("``", '"')
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=400, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def reference(model):
    if isinstance(model, bytes):
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        return processor.encode, processor.decode
    return lambda text: model.encode(text).ids, None


def write(name, model, number):
    encode, decode = reference(model)
    with open(FOLDER / f"{name}.cases.json", "w") as file:
        rows = []
        for text in texts(400, number):
            ids = encode(text)
            rows.append(json.dumps([text, ids]))
        file.write("[\n" + ",\n".join(rows) + "\n]\n")
    if isinstance(model, bytes):
        (FOLDER / f"{name}.model").write_bytes(model)
    else:
        model.save(str(FOLDER / f"{name}.json"), pretty=False)


FLAGS = {"lstrip": False, "normalized": False, "single_word": False, "special": True}
# A model, whether the fast class is the reference, and tokenizer_config.json. The fast class of Gemma searches user-defined symbols in
# the raw text alone.
CLASSES = [
    ("bpe", True, {"tokenizer_class": "LlamaTokenizer"}),
    ("bpe", True, {"tokenizer_class": "LlamaTokenizerFast", "legacy": False, "add_bos_token": False, "add_eos_token": True}),
    ("bpe", True, {"tokenizer_class": "LlamaTokenizer", "add_prefix_space": True, "pad_token": "<|pad|>", "added_tokens_decoder": {
        "620": {"content": "<|turn|>", "rstrip": True, **FLAGS}, "621": {"content": "<|pad|>", "rstrip": False, **FLAGS}}}),
    ("symbols", False, {"tokenizer_class": "GemmaTokenizer"}),
]


def write_classes():
    """The ids of the classes of transformers: whole prompts, with special tokens."""
    from transformers import AutoTokenizer

    out = []
    for model, fast, config in CLASSES:
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tokenizer.model").write_bytes((FOLDER / f"{model}.model").read_bytes())
            (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
            tokenizer = AutoTokenizer.from_pretrained(folder, use_fast=fast)
        more = ["a<s>b", "<s> x", "a <|turn|>  b", " a</s> ", "<bos>x<eos>", "", " "]
        cases = [[text, tokenizer(text)["input_ids"]] for text in [*texts(100, 9), *more]]
        out.append({"model": model, "config": config, "cases": cases})
    (FOLDER / "classes.json").write_text("[\n" + ",\n".join(json.dumps(each) for each in out) + "\n]\n")


PROGRAM = r"""
#include <iostream>
#include <nlohmann/json.hpp>
#include "tenon/tokenizer/bpe.h"
int main(int, char** argv) try {
  const auto tokenizer = tenon::Tokenizer::load(argv[1]);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << nlohmann::json(tokenizer.encode(nlohmann::json::parse(line).get<std::string>())).dump() << "\n";
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
"""


def fuzz(count, seed):
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "check.cpp").write_text(PROGRAM)
        subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O1", f"-I{ROOT / 'include'}", str(folder / "check.cpp"), "-o",
                        str(folder / "check"), "-lutf8proc"], check=True)
        every = {**{name: train(name, options) for name, options in {**MODELS, **LARGE}.items()}, "unigram.json": train_json()}
        for name, model in every.items():
            encode, _ = reference(model)
            place = folder / name
            place.mkdir()
            if isinstance(model, bytes):
                (place / "tokenizer.model").write_bytes(model)
            else:
                model.save(str(place / "tokenizer.json"))
            cases = texts(count, seed + 1000)
            if name == "unigram.json":  # special tokens in a text are ordinary characters there
                cases = [text for text in cases if not any(token in text for token in ("<s>", "</s>", "<unk>"))]
            lines = "".join(json.dumps(text) + "\n" for text in cases)
            done = subprocess.run([folder / "check", place], input=lines, stdout=subprocess.PIPE, text=True, check=True)
            found = [json.loads(line) for line in done.stdout.splitlines()]
            bad = [(text, mine, encode(text)) for text, mine in zip(cases, found, strict=True) if mine != encode(text)]
            for text, mine, theirs in bad[:3]:
                print(f"{name}: {text!r}\n  tenon   {mine}\n  library {theirs}")
            print(f"{name}: {len(cases)} texts, {len(bad)} differences", flush=True)
            wrong += len(bad)
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.fuzz:
        return fuzz(options.fuzz, options.seed)
    FOLDER.mkdir(exist_ok=True)
    for number, (name, settings) in enumerate(MODELS.items()):
        write(name, train(name, settings), number)
    write("unigram_json", train_json(), len(MODELS))
    write_classes()
    return 0


if __name__ == "__main__":
    sys.exit(main())
