#!/usr/bin/env python3
r"""Small tokenizers of every family that tenon reads, the results of Hugging Face's libraries with them, and a fuzz.

    make_fixtures.py             Writes data/<family>/{tokenizer.json,tokenizer_config.json,cases.jsonl,chats.jsonl}.
    make_fixtures.py --check     Writes nothing. Fails where the committed files differ from the libraries' results.
    make_fixtures.py --fuzz N    Compares N random texts per family (pieces, ids, decoded text), and N / 4 lists of ids.
    make_fixtures.py --classes   Compares every code point, alone and after others, in every pattern.

Needs tokenizers 0.22.2 and transformers 4.57.6 (other versions may train other vocabularies). --fuzz and --classes need a
C++ compiler: CXX, default g++; CXXFLAGS is added. The tokenizers are trained on the sentences below.

A line of chats.jsonl is a conversation and its ids (chats.py). A line of cases.jsonl is a text with these members:
- ids: without the tokens of the template;
- prompt_ids: with them;
- decoded: the text of "ids";
- parsed_ids and parsed_prompt_ids: spellings of special tokens become their ids.
An absent member equals "ids", and an absent "parsed_prompt_ids" equals "prompt_ids". The ids are those of transformers'
AutoTokenizer: with split_special_tokens=True, which keeps special tokens text, and with the default for the parsed ids.
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import chats

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE / "data"
INCLUDE = HERE.parents[1] / "include"

CORPUS = """
The miller kept three cats and a clock that ran backwards. "It's late," he'd say, "and we've been early all day."
They're not going to the market, she said; they'll stay, and I'm sure you'd rather stay too. Don't you think so?
In 1904 the river froze for 17 days, and 3,250 people walked across it. Nobody counted the 12 dogs, or 100000 geese.
def main(argument):\n    for index in range(10):\n        if index % 2 == 0:\n            print(index, argument)\n\n    return None\n
int main(void) {\n\tfor (int i = 0; i < 64; ++i) {\n\t\tsum += values[i] * 0.5;\n\t}\n\treturn sum;\n}\r\n\r\n
The caf\u00e9 on the cor\u00f1er serves cr\u00e8me br\u00fbl\u00e9e, na\u00efve as it sounds. \u00dcber allem stand die Stra\u00dfe im Schnee.
\u0420\u0435\u043a\u0430 \u0437\u0430\u043c\u0451\u0440\u0437\u043b\u0430 \u0440\u0430\u043d\u043e, \u0438 \u043b\u044e\u0434\u0438 \u0448\u043b\u0438 \u043f\u043e \u043b\u044c\u0434\u0443. \u4eca\u5929\u7684\u6cb3\u6c34\u5f88\u51b7\uff0c\u732b\u5728\u95e8\u53e3\u7b49\u3002\u6cb3\u6c34\u5f88\u51b7\u3001\u5f88\u6e05\u3002
\u5ddd\u306e\u6c34\u306f\u51b7\u305f\u3044\u3002\u732b\u306f\u5f85\u3063\u3066\u3044\u308b\u3002 \u0627\u0644\u0646\u0647\u0631 \u0628\u0627\u0631\u062f\u060c \u0648\u0627\u0644\u0642\u0637\u0629 \u062a\u0646\u062a\u0638\u0631. \u0928\u0926\u0940 \u0920\u0902\u0921\u0940 \u0939\u0948\u0964 \u092c\u093f\u0932\u094d\u0932\u0940 \u0909\u0927\u0930 \u0939\u0948\u0964
Well... the end, or not? Yes! (Or perhaps: no.) a+b=c; x != y && z <= 42 || w >> 7 # comment -- and so on... !!! ???
""".strip("\n").split("\n")

TEXTS = [
    "", " ", "  ", "   \n", "\n", "\n\n\n", "\r\n\r\n", "\r\n \r\n\t\r", " \n ", "a", " a", "a ", "  a  b  ", "\ta\t\tb", "\n a",
    "The miller kept three cats and a clock that ran backwards.",
    "It's late, he'd say; we've been early, they'll stay, I'm sure you're not. DON'T! WE'VE SAID IT'LL BE THEY'RE I'M HE'D",
    "'s 't 're 've 'm 'll 'd ''s 'S'T'RE'VE'M'LL'D 'rE 'Ve 'lL 'x 'r 'v 'l '", "it'\u017f 'don'\u017ft '\u212a '\u017f\u017f 's\u017f",
    "def f(a, b):\n    if a:\n        return b\n\n\n    x = [1, 22, 333, 4444]\n", "\tfor (i = 0; i < 10; ++i) {\n\t\tx[i] += 1;\n\t}\r\n",
    "1 12 123 1234 12345 123456 1234567890 3.14159 1,000,000 -7 0x1F 1e-9 v2.0a1", "a1b22c333d4444 5e6 \u00b2\u00b3\u00bd \u2167\u2168 \u0663\u0664\u0665\u0666 \u0967\u0968",
    "12 34  56   78\n90\n\n12", " 1 ", "1 a1 1a a 1",
    "caf\u00e9 cafe\u0301 na\u00efve \u00dcber Stra\u00dfe \ufb01n \u01c5 \u00aa\u00ba", "e\u0301\u0323 \u0323e\u0301 o\u0308\u0304 \u1e69 s\u0323\u0307 s\u0307\u0323 A\u030a \u212b \u2126 \u0340 \u0344",
    "\uac00\uac01 \u1100\u1161\u11a8 \u1100\u1161 \u0958 \u0929\u093c \u2adc \ufb1d \U0001d15e",
    "\u6cb3\u6c34\u5f88\u51b7\uff0c\u732b\u5728\u95e8\u53e3\u7b49\u3002\u4eca\u5929\u3001\u660e\u5929\uff01\uff1f\u300c\u732b\u300d\u2026\u2026", "\u5ddd\u306e\u6c34\u306f\u51b7\u305f\u3044\u3002\u30ab\u30bf\u30ab\u30ca\u3000\u732b", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4. \u1107\u1161",
    "\u0627\u0644\u0646\u0647\u0631 \u0628\u0627\u0631\u062f\u060c \u0648\u0627\u0644\u0642\u0637\u0629 \u062a\u0646\u062a\u0638\u0631\u061f \u0645\u0631\u062d\u0628\u0627\u06d4 \u060c\u060c \u06d4", "\u0928\u0926\u0940 \u0920\u0902\u0921\u0940 \u0939\u0948\u0964 \u092c\u093f\u0932\u094d\u0932\u0940\u0965 \u0964\u0964 \u0915\u094d\u0937",
    " .,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c()|[]{}", "a.b,c!d?e\u2026f\u3002g\uff0ch\u3001i\u0964j\u06d4k\u060cl(m)n|o[p]q", "a . b , c ! d ?  e", "((a)) |b| [c] {d} <e>", "wait... what?! (yes, really.) no -- maybe;", ". . .  ..\n.\n ,",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f1eb\U0001f1f7 1\ufe0f\u20e3 \u2764\ufe0f", "a\u200bb\u200cc\u200dd\u2060e\ufefff", "\u202eabc\u202c \u200fa",
    "a\u00a0b \u00a0 c\u2003d\u3000e\u2028f\u2029g\u0085h\u1680i\u202fj\u205fk", "\u00a0", "\u3000\u3000x", "a\u00a0\u00a0 b", "x \u2003y", "\x1c\x1d\x1e\x1f \x0b\x0c",
    "\x00\x01\x7f a\x00b", "\ud7ff\ue000\ufffd\uffff\U00010000\U0010ffff",
    "<s>", "</s> <unk> <s>", "<|endoftext|>", "a<|endoftext|>b", "<|begin_of_text|><|eot|>", " <pad>x", "<0x0A><0xFF>", "<0x41", "<s", "[INST] x [/INST]",
    "<tool>", "a<tool>b", " <tool> ", "<tool><tool>", "<tool", "<<tool>>", "<tool_x>", "<tool>\n  a", "<|to<tool>ol|>", "<|x<tool>|> <|x", "caf\u00e9!", "cafe\u0301! caf\u00e9 caf\u00e9!!",
    " <mask> a", "a <mask>\n<mask> <|user|> \n b", "a <tool>  <tool> b <left> c<left>", "cat cats (cat) concat cat\u0301 cat_ cat", "a  <left>",
    "newword", "a newword", "anewword newwordnewword", "ab cab  ab", "<eot>", "a <eot> b<eot>c", "</s>a </s> b", "<s> a<s>\n", "<s>[INST] a [/INST] b </s>",
    "<|im_start|>user\nWhat does cat <filename> do?<|im_end|>\n", "12 1234 a12b 1234567", "abc edc eeabc... .. 12ththth 34 a_b__c ~\n~ zZz~",
    "\u2581", "\u2581\u2581", "\u2581a", " \u2581a", "\u2581 a", "a\u2581b", "a \u2581 b", "a\u2581", "\u2581\u2581\u2581a b",
    "the" * 40, "x" * 100, " " * 70, "\n" * 33 + "a", "a b " * 20, "ab" * 50, "\u6cb3" * 30, "\u00e9" * 40, "=" * 65, "-=" * 30, "\U0001f600" * 9, "'" * 9, "1" * 40,
    "\u0100\u0120\u010a\u0142 \u0120the", "\u1c89\u1c8a \U0002ebf0 \U00010d40\U00010d41 \U0001e5f1", "Zsy\u1e9e \u0130\u0131 \ufb03\ufb06 \u01c4",
    "\u00d0\u00c9 \u0152\u0153 \u20ac\u00a3\u00a5 \u00bd\u00bc \u2122\u00ae", "x\u0300\u0301\u0302\u0303\u0304y", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u16a0\u16a1 \U00010330\U00010331 \U00012000",
    "http://example.org/a_b?c=d&e=%20#f", "mail@example.org", "C:\\path\\to\\file", "\\n \\u0041 \"quoted\" `tick` ~tilde^", "100% of $5.00 & #7 @8 *9 +1",
]

GPT2_BYTES = dict(zip(sorted(range(256), key=lambda b: not (33 <= b < 127 or 161 <= b <= 172 or 174 <= b <= 255)), itertools.chain(
    [chr(b) for b in range(256) if 33 <= b < 127 or 161 <= b <= 172 or 174 <= b <= 255], map(chr, range(256, 324)))))
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace("{1,3}", "")
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def special(text, **flags):
    return AddedToken(text, special=True, normalized=False, **flags)


def added(text, normalized=False):
    return AddedToken(text, special=False, normalized=normalized)


# ---------------------------------------------------------------- tokenizers

def trained(pre_tokenizer, size, alphabet, limit=None, normalizer=None):
    """(vocabulary by id, merges) of byte pairs over CORPUS."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    limits = {}
    if limit:  # the most frequent characters; the library breaks ties at random
        counts = collections.Counter("".join(CORPUS).replace(" ", "\u2581"))
        alphabet = sorted(counts, key=lambda c: (-counts[c], c))[:limit]
        limits = {"limit_alphabet": limit}
    tokenizer.train_from_iterator(CORPUS * 2, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet,
                                                                  show_progress=False, **limits))
    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)
    return vocabulary, [tuple(m) for m in model["merges"]]


def byte_level(pre_tokenizer, size=520, normalizer=None, ignore_merges=False, extra=()):
    vocabulary, merges = trained(pre_tokenizer, size, list(GPT2_BYTES.values()), normalizer=normalizer)
    vocabulary += [token for token in extra if token not in vocabulary]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges, ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer
    return tokenizer


def gpt2():
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([special("<|endoftext|>")])
    return tokenizer, {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
                       "unk_token": "<|endoftext|>", "model_max_length": 1024}


def starcoder():
    tokenizer = byte_level(pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                    pre_tokenizers.ByteLevel(add_prefix_space=False)]))
    tokenizer.add_special_tokens([special("<|endoftext|>"), special("<fim_prefix>"), special("<fim_middle>")])
    return tokenizer, {"tokenizer_class": "GPT2TokenizerFast", "eos_token": "<|endoftext|>", "bos_token": "<|endoftext|>",
                       "unk_token": "<|endoftext|>", "additional_special_tokens": ["<fim_prefix>", "<fim_middle>"]}


def llama3():
    # Whole pieces that no rules make, for ignore_merges.
    whole = ["\u0120backwards", "1904", "170", "\u0120naive", "((", "\u010a\u010a\u010a", "\u0120\u0120\u0120\u0120\u0120\u0120",
             "'" + "".join(GPT2_BYTES[byte] for byte in "\u017f".encode()), "'RE"]
    tokenizer = byte_level(split(LLAMA3), ignore_merges=True, extra=whole)
    tokenizer.add_special_tokens([special("<|begin_of_text|>"), special("<|end_of_text|>"), special("<|eot|>")])
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|>:1 $B:1",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>",
                       "eos_token": "<|eot|>", "clean_up_tokenization_spaces": True}


def bloom():
    tokenizer = byte_level(split(BLOOM))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([special(text) for text in ("<unk>", "<s>", "</s>", "<pad>")])
    return tokenizer, {"tokenizer_class": "BloomTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                       "pad_token": "<pad>", "add_prefix_space": False}


def qwen2():
    tokenizer = byte_level(split(QWEN2), normalizer=normalizers.NFC())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens([special("<|endoftext|>"), special("<|x<tool>|>")])
    tokenizer.add_tokens([added("<tool>"), added("<tool_x>"), added("caf\u00e9!", normalized=True), added("=" * 4)])
    return tokenizer, {"tokenizer_class": "Qwen2Tokenizer", "bos_token": None, "eos_token": "<|endoftext|>",
                       "pad_token": "<|endoftext|>", "unk_token": None, "add_bos_token": False, "add_prefix_space": False}


def shuffled():
    """Rules before the rules that make their parts: "ab a" before "a b" shows in abab in which order they are merged."""
    rng = random.Random(7)
    parts, rules = list("abcde\u0120t"), []
    while len(rules) < 90:
        left, right = rng.choice(parts), rng.choice(parts)
        for rule in [(left + right, left), (left, right)]:
            if rule not in rules and len("".join(rule)) <= 9:
                rules.append(rule)
                parts += [part for part in (left + right, "".join(rule)) if part not in parts]
    vocabulary = list(GPT2_BYTES.values())
    vocabulary += [part for part in dict.fromkeys(parts) if part not in vocabulary]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, rules))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast"}


def sentencepiece(size, limit, byte_fallback=True, ignore_merges=False):
    learned, merges = trained(pre_tokenizers.Metaspace(), size, [], limit=limit)
    vocabulary = ["<unk>", "<s>", "</s>"]
    if byte_fallback:
        vocabulary += [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary += learned
    # Runs of spaces, as SentencePiece's trainer makes them.
    for left in ("\u2581", "\u2581\u2581"):
        merges.append((left, left))
        vocabulary.append(left + left)
    return models.BPE({token: i for i, token in enumerate(vocabulary)}, merges, unk_token="<unk>", fuse_unk=True,
                      byte_fallback=byte_fallback, ignore_merges=ignore_merges)


def fallback_decoder(strip=True):
    return decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
                             + ([decoders.Strip(" ", 1, 0)] if strip else []))


SPECIAL = [special("<unk>"), special("<s>"), special("</s>")]


def llama2():
    tokenizer = Tokenizer(sentencepiece(260, 90))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = fallback_decoder()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1",
                                                             special_tokens=[("<s>", 1)])
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": True,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None}


def mistral():
    tokenizer = Tokenizer(sentencepiece(260, 90))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = fallback_decoder()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([added("<tool>"), added("ab", normalized=True)])
    # tokenizer.json has no template. The class builds one from tokenizer_config.json.
    return tokenizer, {"tokenizer_class": "LlamaTokenizerFast", "add_eos_token": True, "legacy": False,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def metaspace():
    """The older form: a prefix before each part, pieces at each space, unknown characters, no byte tokens."""
    tokenizer = Tokenizer(sentencepiece(210, 70, byte_fallback=False, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([added("<tool>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A $B </s>", special_tokens=[("</s>", 2)])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "unk_token": "<unk>"}


def plain_replace():
    """No prefix at all, and one <unk> for each unknown character."""
    tokenizer = Tokenizer(sentencepiece(210, 70, byte_fallback=False))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.decoder = fallback_decoder(strip=False)
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": False, "bos_token": "<s>", "eos_token": "</s>",
                       "unk_token": "<unk>", "pad_token": "<unk>"}


# ---- published pre-tokenizers and flags of added tokens, on smaller vocabularies

TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK_V3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+")
LATIN = ("A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d"
         "\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u1e00-\u1f15\U00010400-\U0001044f")
SMALL = 340


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def sequence(*steps):
    return pre_tokenizers.Sequence(list(steps))


def bytes_alone():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def prefix():
    """GPT-2's with add_prefix_space, and added tokens that take white space or stand alone."""
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), size=SMALL)
    tokenizer.add_special_tokens([special("<|endoftext|>"), special("<mask>", lstrip=True), special("<|user|>", rstrip=True)])
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False, rstrip=True), AddedToken("cat", single_word=True),
                          AddedToken("<left>", normalized=False, lstrip=True, rstrip=True)])
    return tokenizer, {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
                       "unk_token": "<|endoftext|>", "add_prefix_space": True}


def tekken():
    tokenizer = byte_level(split(TEKKEN), size=SMALL, ignore_merges=True)
    tokenizer.add_special_tokens([special(text) for text in ("<unk>", "<s>", "</s>", "[INST]", "[/INST]")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[
        ("<s>", tokenizer.token_to_id("<s>"))])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


def deepseek_llm():
    steps = sequence(isolated("[\r\n]"), isolated("\\s?[" + LATIN + "]+"), isolated("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
                     isolated("\\s+$"), isolated("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                     pre_tokenizers.Digits(individual_digits=True), bytes_alone())
    tokenizer = byte_level(steps, size=SMALL, normalizer=normalizers.Sequence([]))
    tokenizer.add_special_tokens([special("<\uff5cbegin\u2581of\u2581sentence\uff5c>"), special("<\uff5cend\u2581of\u2581sentence\uff5c>")])
    tokenizer.add_tokens([added("\u00fe", normalized=True), added("\u00f6", normalized=True)])
    return tokenizer, {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "legacy": True, "unk_token": None,
                       "bos_token": {"__type": "AddedToken", "content": "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "lstrip": False,
                                     "normalized": True, "rstrip": False, "single_word": False},
                       "eos_token": "<\uff5cend\u2581of\u2581sentence\uff5c>"}


def deepseek_v3():
    steps = sequence(isolated(r"\p{N}{1,3}"), isolated("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), isolated(DEEPSEEK_V3), bytes_alone())
    tokenizer = byte_level(steps, size=SMALL)
    tokenizer.add_special_tokens([special("<s>"), special("</s>")])
    return tokenizer, {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", "unk_token": None}


def deepseek_coder():
    steps = sequence(isolated("[\r\n]"), isolated(r"\s?\p{L}+"), isolated(r"\s?\p{P}+"), isolated("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                     pre_tokenizers.Digits(individual_digits=True), bytes_alone())
    tokenizer = byte_level(steps, size=SMALL)
    tokenizer.add_special_tokens([special("<s>"), special("</s>")])
    return tokenizer, {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "bos_token": "<s>", "eos_token": "</s>", "unk_token": None}


def falcon():
    steps = sequence(pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
                     pre_tokenizers.Digits(individual_digits=False), isolated("[0-9][0-9][0-9]"))
    tokenizer = byte_level(steps, size=SMALL)
    tokenizer.add_special_tokens([special(">>TITLE<<"), special("<|endoftext|>")])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>", "add_prefix_space": False}


def midm():
    steps = sequence(pre_tokenizers.Split(Regex(LLAMA3), "removed", invert=True), bytes_alone())
    tokenizer = byte_level(steps, size=SMALL)
    tokenizer.add_special_tokens([special("<s>"), special("<|im_end|>")])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "<|im_end|>"}


def without_bytes(tokenizer, lost, **more):
    """The model without the tokens of some bytes, and of what is made of them."""
    model = json.loads(tokenizer.to_str())["model"]
    lost = {GPT2_BYTES[byte] for byte in lost}
    vocabulary = [token for token in sorted(model["vocab"], key=model["vocab"].get) if not lost & set(token)]
    merges = [tuple(pair) for pair in model["merges"] if not lost & set("".join(pair))]
    return models.BPE({token: i for i, token in enumerate(vocabulary)}, merges, **more)


HOLES = [0, 1, 2, 3, 11, 12, 28, 29, 0x7F, 0xAD, 0xE4]


def holes():
    """SmolLM2's kind: bytes without a token are dropped."""
    steps = sequence(pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer = byte_level(steps, size=SMALL)
    tokenizer.model = without_bytes(tokenizer, HOLES + [ord("q"), ord("b")])
    tokenizer.add_special_tokens([special("<|endoftext|>"), special("<|im_start|>"), special("<|im_end|>"), special("<filename>")])
    return tokenizer, {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>",
                       "unk_token": "<|endoftext|>"}


def holes_unknown():
    """Bytes without a token become the unknown one, one for a run."""
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), size=SMALL)
    tokenizer.model = without_bytes(tokenizer, HOLES + [ord("q"), ord("b"), ord("x")], unk_token="!", fuse_unk=True)
    # The second token starts in white space that the first takes. The library then returns both.
    tokenizer.add_special_tokens([special("<|endoftext|>"), special("<|user|>", rstrip=True)])
    tokenizer.add_tokens([added("  <"), AddedToken("<left>", normalized=False, lstrip=True, rstrip=True)])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}


def behaviors():
    """Each behavior of Split, by a regular expression and by a string."""
    split_by = lambda pattern, behavior, invert=False: pre_tokenizers.Split(pattern, behavior, invert)
    steps = sequence(split_by(Regex("[a-c]+"), "merged_with_next"), split_by("e", "merged_with_previous"),
                     split_by(Regex(r"(?:\d{2}|t(?=h))|\.{2,}"), "contiguous"), split_by(Regex(r"\P{L}*\p{Ll}+(?!\S)"), "isolated", True),
                     split_by(Regex(r"_+|~$"), "removed"), pre_tokenizers.Punctuation("merged_with_next"), bytes_alone())
    tokenizer = byte_level(steps, size=SMALL)
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast"}


def llama2_added():
    """Tokens that are looked for after normalization, special ones too."""
    tokenizer, config = llama2()
    tokenizer.add_tokens([added("newword", normalized=True), added("ab", normalized=True), AddedToken("cat", single_word=True)])
    tokenizer.add_special_tokens([AddedToken("<eot>", special=True, normalized=True), AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    return tokenizer, config


def gemma():
    """Spaces replaced by the normalizer, and a Split that finds none."""
    tokenizer = Tokenizer(sentencepiece(260, 90))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = fallback_decoder(strip=False)
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([added("\n\n"), added("\u2581\u2581\u2581")])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


FAMILIES = {each.__name__: each for each in
            (gpt2, starcoder, llama3, bloom, qwen2, shuffled, llama2, mistral, metaspace, plain_replace,
             prefix, tekken, deepseek_llm, deepseek_v3, deepseek_coder, falcon, midm, holes, holes_unknown, behaviors,
             llama2_added, gemma)}


def tokenizer_json(name, tokenizer):
    """As the library writes it, in the forms that older versions wrote too."""
    out = json.loads(tokenizer.to_str())
    if name in ("gpt2", "llama2"):  # merges as strings; GPT-2's file has no type
        out["model"]["merges"] = [" ".join(merge) for merge in out["model"]["merges"]]
    if name == "gpt2":
        del out["model"]["type"]
        out["model"]["continuing_subword_prefix"] = out["model"]["end_of_word_suffix"] = out["model"]["unk_token"] = ""
    if name == "metaspace":
        out["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True, "str_rep": "\u2581"}
        out["decoder"] = {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True}
    if name == "plain_replace":
        out["model"]["fuse_unk"] = False
        out["truncation"] = {"direction": "Right", "max_length": 8, "strategy": "LongestFirst", "stride": 0}
        out["padding"] = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "<unk>"}
    return out


def reference(folder, text_is_text=True):
    from transformers import AutoTokenizer
    from transformers.utils import logging
    logging.set_verbosity_error()
    return AutoTokenizer.from_pretrained(folder, split_special_tokens=text_is_text)


def texts_of(name):
    """TEXTS, and for the rules in disorder what they are about."""
    rng = random.Random(8)
    some = lambda: "".join(rng.choice("abcde t") for _ in range(rng.randint(4, 24)))
    return list(dict.fromkeys(TEXTS + ([some() for _ in range(60)] if name == "shuffled" else [])))


def chat_cases(name, peer):
    rng, reference_of = random.Random(f"chats {name}"), chats.Reference(peer)
    for form in chats.FAMILIES[name]:
        for i in range(12):
            yield reference_of.case(rng, form, quotes=i % 3 == 0)


def build(name, folder):
    """Writes the files of one family into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer, config = FAMILIES[name]()
    write = lambda file, value: (folder / file).write_text(json.dumps(value, separators=(",", ":")) + "\n")
    write("tokenizer.json", tokenizer_json(name, tokenizer))
    write("tokenizer_config.json", config)
    peer, parsing = reference(folder), reference(folder, text_is_text=False)
    lines = []
    for text in texts_of(name):
        ids = peer(text, add_special_tokens=False)["input_ids"]
        prompt = peer(text)["input_ids"]
        decoded = peer.decode(ids, clean_up_tokenization_spaces=False)
        case = {"text": text, "ids": ids}
        if prompt != ids:
            case["prompt_ids"] = prompt
        if decoded != text:
            case["decoded"] = decoded
        parsed, parsed_prompt = parsing(text, add_special_tokens=False)["input_ids"], parsing(text)["input_ids"]
        if parsed != ids:
            case["parsed_ids"], case["parsed_prompt_ids"] = parsed, parsed_prompt
        lines.append(json.dumps(case, separators=(",", ":")) + "\n")
    (folder / "cases.jsonl").write_text("".join(lines))
    if name in chats.FAMILIES:
        (folder / "chats.jsonl").write_text("".join(json.dumps(case, separators=(",", ":")) + "\n" for case in chat_cases(name, parsing)))


def check():
    wrong = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in FAMILIES:
            build(name, pathlib.Path(temporary) / name)
            for file in sorted(path.name for path in (pathlib.Path(temporary) / name).iterdir()):
                if (pathlib.Path(temporary) / name / file).read_bytes() != (DATA / name / file).read_bytes():
                    wrong.append(f"{name}/{file}")
    print("differ: " + ", ".join(wrong) if wrong else "all as committed")
    return bool(wrong)


# ---------------------------------------------------------------- the comparison with tenon

PROGRAM = r"""
#include <iostream>
#include "tenon/tokenizer/bpe.h"
int main(int, char** argv) try {
  const auto tokenizer = tenon::Tokenizer::load(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.is_object()) {  // the bytes of each piece
      const auto text = json.at("text").get<std::string>();
      auto out = nlohmann::json::array();
      for (std::size_t at = 0, end; at < text.size(); at = end) {
        end = tenon::piece_end(static_cast<tenon::Pattern>(json.at("pattern").get<int>()), text, at);
        out.push_back(end - at);
      }
      std::cout << out.dump() << "\n";
      continue;
    }
    if (json.is_array()) {
      std::cout << nlohmann::json(tenon::sanitize_utf8(tokenizer.decode(json.get<std::vector<int>>()))).dump() << "\n";
      continue;
    }
    const auto text = json.get<std::string>();
    const auto ids = tokenizer.encode(text);
    std::cout << nlohmann::json({ids, tokenizer.encode_prompt(text), tenon::sanitize_utf8(tokenizer.decode(ids)),
                                 tokenizer.encode_prompt(text, true)})
                     .dump()
              << "\n";
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
"""


def compiled(folder):
    source, program = pathlib.Path(folder) / "peer.cpp", pathlib.Path(folder) / "peer"
    source.write_text(PROGRAM)
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", f"-I{INCLUDE}", str(source), "-o", str(program),
                    *os.environ.get("CXXFLAGS", "").split(), "-lutf8proc"], check=True)
    return program


def ask(program, family, rows):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    done = subprocess.run([program, DATA / family], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


PATTERNS = ["gpt2", "starcoder", "llama3", "qwen2", "bloom"]  # as tenon::Pattern


def piece_differences(program, name, peer, texts):
    """The texts that tenon and the library cut into other pieces."""
    if name not in PATTERNS:
        return []
    mine = ask(program, name, [{"text": text, "pattern": PATTERNS.index(name)} for text in texts])
    cut = lambda text: [len(text[begin:end].encode()) for _, (begin, end) in peer.pre_tokenizer.pre_tokenize_str(text)]
    return [text for text, lengths in zip(texts, mine) if lengths != cut(text)]


# Marks assigned after Unicode 9 are left out of texts for NFC, because the library's tables do not know them.
ALPHABETS = [
    list(" \n\t\r'"), list("abcdestSTREVMLDlv"), list("0123456789"), list(".,!?()|[]-=<>{};:\"/\\_#"),
    list("\u00e9\u017f\u212a\u00df\u0130\u01c5\ufb01\u4e2d\u6cb3\u3042\uac00\u0416\u05d0\u0928\u0627\U0002000b\u1c89"),
    list("\u0663\u0967\u00b2\u00bd\u2167\u2460\uff11\U0001d7ce\U00010d40"),
    list("\u00a0\u0085\u1680\u2003\u2028\u2029\u202f\u205f\u3000\x0b\x0c\x1c"),
    list("\u0301\u0323\u0308\u0327\u0344\u093c\u094d\u064b\u05b0\u200d\ufe0f\u1161\u11a8\u1100"),
    list("\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c\u2581\u0120\u010a\u0100"),
    list("\U0001f600\U0001f468\x00\x7f\ufffd\ufeff\ue000\U0010ffff"),
    ["'s", "'S", "'\u017f", "'re", "'RE", "'ll", "'Ve", "don't", "the", " the", "  ", "\r\n", "    ", "backwards", " backwards", "1904", "ab",
     "<mask>", "<|user|>", "<left>", "cat", " newword", "newword", "<eot>", "<|im_end|>", "[INST]", "<filename>",
     "<s>", "</s>", "<unk>", "<|endoftext|>", "<tool>", "<tool_x>", "<|x<tool>|>", "<|x", "<0x41>", "caf\u00e9!", "cafe\u0301!", "====", "\u2581\u2581"],
]


def random_text(rng, name):
    if name == "shuffled" and rng.random() < 0.8:
        return "".join(rng.choice("abcde t") for _ in range(rng.randint(0, 24)))
    pools = rng.sample(ALPHABETS, rng.randint(1, len(ALPHABETS)))
    return "".join(rng.choice(rng.choice(pools)) for _ in range(rng.randint(0, 24)))


def fuzz(count, seed, only):
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        program = compiled(temporary)
        for name in only or FAMILIES:
            rng = random.Random(f"{seed} {name}")
            peer = reference(DATA / name)._tokenizer
            parsing = reference(DATA / name, text_is_text=False)._tokenizer
            for each in peer, parsing:
                each.no_truncation()
                each.no_padding()
            differences = replaced = texts = lists = 0
            while texts < count:
                rows = [random_text(rng, name) for _ in range(min(20000, count - texts))]
                plain, full = peer.encode_batch(rows, add_special_tokens=False), peer.encode_batch(rows)
                parsed = parsing.encode_batch(rows)
                for row, mine, ids, prompt, special in zip(rows, ask(program, name, rows), plain, full, parsed):
                    theirs = [ids.ids, prompt.ids, peer.decode(ids.ids, skip_special_tokens=False), special.ids]
                    if mine != theirs:
                        differences += 1
                        if differences <= 3:
                            print(f"{name}: {row!r}\n  tenon   {mine}\n  library {theirs}")
                pieces = piece_differences(program, name, peer, rows)
                differences += len(pieces)
                for text in pieces[:3]:
                    print(f"{name}: other pieces of {text!r}")
                texts += len(rows)
            size = peer.get_vocab_size()
            while lists < count // 4:
                rows = [[rng.randrange(size) for _ in range(rng.randint(0, 8))] for _ in range(min(20000, count // 4 - lists))]
                for row, mine in zip(rows, ask(program, name, rows)):
                    theirs = peer.decode(row, skip_special_tokens=False)
                    if "\ufffd" in theirs and peer.token_to_id("<0x00>") is not None:
                        replaced += 1  # docs/tokenizers.md: bytes that are not UTF-8
                    elif mine != theirs:
                        differences += 1
                        if differences <= 3:
                            print(f"{name}: {row}\n  tenon   {mine!r}\n  library {theirs!r}")
                lists += len(rows)
            print(f"{name}: {texts} texts, {lists} lists of ids ({replaced} of them no UTF-8): {differences} differences", flush=True)
            failures += differences
    return bool(failures)


def classes():
    """Every code point between others, in every pattern: is it a letter, a number, a space, in Bloom's set?"""
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    contexts = ["{}", "a{}b", " {}1", "'{}x", "1{}\n", ".{} {}", "{}{}\r", "  {}", "\u4e2d{}!"]
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        program = compiled(temporary)
        for name in PATTERNS:
            peer = reference(DATA / name)._tokenizer
            wrong = set()
            for context in contexts:
                texts = {context.format(point, point): point for point in points}
                wrong.update(ord(texts[text]) for text in piece_differences(program, name, peer, list(texts)))
            print(f"{name}: {len(points)} code points in {len(contexts)} contexts, {len(wrong)} are cut otherwise: "
                  + " ".join(f"{c:X}" for c in sorted(wrong)[:40]), flush=True)
            failures += len(wrong)
    return bool(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--classes", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", action="append", choices=sorted(FAMILIES))
    options = parser.parse_args()
    if options.check:
        return check()
    if options.fuzz:
        return fuzz(options.fuzz, options.seed, options.family)
    if options.classes:
        return classes()
    for name in options.family or FAMILIES:
        build(name, DATA / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
