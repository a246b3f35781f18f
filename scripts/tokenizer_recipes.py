"""Cases of scripts/tokenizer-conformance, and random ones. Needs tokenizers."""
import base64
import collections
import copy
import functools
import json
import random
import zlib

import tokenizers
from tokenizer_expressions import EXPRESSIONS, random_expression
from tokenizer_files import NEEDLESS, WRONG, document, judge

VERSIONS = {"tokenizers": tokenizers.__version__}
RANDOM = 150  # random cases in expected.json
META = "\u2581"
CORPUS = [
    "The miller kept three cats and a clock that ran backwards. It's late, he'd say, and we've been early all day.",
    "In 1904 the river froze for 17 days, and 3,250 people walked across it; nobody counted the 1000000 geese.",
    "Das Cafe an der Ecke, na\u00efve cr\u00e8me br\u00fbl\u00e9e. \u00dcber allem lag Schnee. STRASSE Stra\u00dfe \ufb01n \u01c5.",
    "\u0420\u0435\u043a\u0430 \u0437\u0430\u043c\u0451\u0440\u0437\u043b\u0430 \u0440\u0430\u043d\u043e. \u4eca\u5929\u7684\u6cb3\u6c34\u5f88\u51b7\uff0c\u732b\u5728\u7b49\u3002 \u5ddd\u306e\u6c34\u306f\u51b7\u305f\u3044\u3002 \u0928\u0926\u0940 \u0920\u0902\u0921\u0940 \u0939\u0948\u0964",
    "def main(argument):\n    for index in range(10):\n        print(index, argument)\n\n\treturn None\r\n",
]
WORDS = ["a", "b", "cat", "The", "MILLER", "it's", "we'VE", "1904", "3,250", "1000000", "na\u00efve", "cafe\u0301", "Stra\u00dfe", "\ufb01n", "\u01c5",
         "\u0420\u0435\u043a\u0430", "\u6cb3\u6c34", "\u5ddd\u306e\u6c34", "\u0928\u0926\u0940", "\u0939\u0948\u0964", "\U0001f600", "\u00b2", "\u2167", "\uff21\uff22", "\u0130", "\u017f", "\u212a", "\u2126", "\u1e69", "s\u0323\u0307", "\u0345", "\u200b",
         "\u200d", "\u00a0", "\u3000", "\ufeff", "\u2581", "<s>", "<unk>", "<x>", "word", "\u0c15\u0c4d\u0c3c", "a\u0898\u0301", "\U00011938", "\U00011935\U00011930", "ss", "\u00df", "\ufb06", "ff", "\ufb00", "Ass's", "_", ".", ",", "...", "!?", "'", "-", "\u20ac", "+", "=", "(", ")"]
SPACES = ["", "", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "   "]
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
FALLBACK = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": META}, "content": " "},
                                             {"type": "ByteFallback"}, {"type": "Fuse"}]}


# ------------------------------------------------------------------------------------------------- vocabularies


@functools.cache
def models():
    """{name: model of tokenizer.json}: byte-level BPE, BPE of characters with byte fallback, and Unigram."""
    from tokenizers import Tokenizer, models as kinds, normalizers, pre_tokenizers, trainers
    out = {}
    quiet = dict(show_progress=False)
    bytes_model = Tokenizer(kinds.BPE())
    bytes_model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytes_model.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, **quiet))
    out["bytes"] = json.loads(bytes_model.to_str())["model"]
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = Tokenizer(kinds.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    pieces.normalizer = normalizers.Replace(" ", META)
    pieces.train_from_iterator(CORPUS[:3], trainers.BpeTrainer(vocab_size=460, special_tokens=["<unk>"] + fallback, **quiet))
    out["pieces"] = json.loads(pieces.to_str())["model"]
    unigram = Tokenizer(kinds.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.train_from_iterator(CORPUS[:3], trainers.UnigramTrainer(vocab_size=160, unk_token="<unk>", special_tokens=["<unk>"], **quiet))
    out["unigram"] = json.loads(unigram.to_str())["model"]
    return out


# ------------------------------------------------------------------------------------------------------- steps


def split(expression, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": behavior, "invert": invert}


def sequence(kind, steps):
    names = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
    return steps[0] if len(steps) == 1 else {"type": "Sequence", names[kind]: steps} if steps else None


# Rules of a SentencePiece model in the form that its trainer writes: A to a, BC to x, two spaces to one, e with U+0301 to E,
# U+200B to nothing, U+1F600 to ":)" and U+00C4 to "Ae".
RULES = base64.b64encode(zlib.decompress(base64.b64decode(
    "eNol03mUTmUcB/DnfQ3nOI5/nGTfxYydsjSGTGNfQ3aJw4hEES1KvcNYalCjrNkqe1lKliLLsWQZOdY2S+aUhCxlbePzcs/9nO99nueP77nn/m"
    "5ICCFkhlB2MnlDiIQQK0BawRDcsZwG0ZBhP7/nTJlPxhKjIcuhK7agZDTMSoiGmHUe60I2C/MARXiQYhSlBMUpRUnKUJpylKUC5XmIilSmEkkk"
    "UpUqVKcaNalBbWrxMHWoyyPUpx6P0oCGJNOIFB6jMak0IY3HSU+JhqayBc1pRUva0Jp2tKUD7enIE3SmE114km50pQfd6UVPnqI3T9Mn3p8dCX"
    "1l/3j/+/rlAJ5hIIMZxBCeZSjP8TzDGM4LvMgIRjGSl3mJV3mF1xjNGF7nTd4gI/4hGcdYxt8fiTCRCbzFJLJ4mykYl/AOU8nmXd5jGtPxGmEm"
    "M5jNLD5gDvOYywLm8yEL+ZiPWMwilrKE5SzjE1awkk9ZzSo+Yw1r+Zx1fMEG1vMlG9nEV3zNZrayhe1sYwe5KZGwS+7kG3azlz3sZx8HyOEg33"
    "KIKwmRcEQe5hhH+Y7j/MD3/MSPnOQEpznFGX6O96+JhFz5K7/wG2f5nXNc4Dx/cJHLXOJqvJ+/+JPrXOMmN7jNLf7hb/7jX+7wf7j38yUnhdT0"
    "0Cz0Myh3ASTPjgY="))).decode()


def draw_normalizer(draw):
    kind = draw.choice(["Precompiled", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "Strip", "Prepend", "Replace", "Replace"])
    if kind == "Strip":
        return {"type": kind, "strip_left": draw.random() < 0.5, "strip_right": draw.random() < 0.5}
    if kind == "Precompiled":
        return {"type": kind, "precompiled_charsmap": RULES}
    if kind == "Prepend":
        return {"type": kind, "prepend": draw.choice([" ", "_", "ab"])}
    if kind == "Replace":
        pattern = draw.choice([{"Regex": " {2,}"}, {"Regex": "\\d+"}, {"Regex": "[\u2018\u2019]|'"}, {"Regex": "\\p{Lu}(?=\\p{Ll})"},
                               {"Regex": "(?<=a)b"}, {"String": "a"}, {"String": "  "}, {"String": "\u00a0"}])
        return {"type": kind, "pattern": pattern, "content": draw.choice(["", " ", "x", "\u2581", "yy"])}
    return {"type": kind}


def draw_cut(draw):
    kind = draw.choice(["Split"] * 6 + ["Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit"])
    behavior = draw.choice(["Isolated"] * 3 + ["Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"])
    if kind == "Split":
        if draw.random() < 0.2:
            return split("", behavior, draw.random() < 0.2) | {"pattern": {"String": draw.choice([" ", "a", "..", "\n"])}}
        expression = draw.choice(list(EXPRESSIONS.values())) if draw.random() < 0.5 else random_expression(draw)
        return split(expression, behavior, draw.random() < 0.2)
    if kind == "Digits":
        return {"type": kind, "individual_digits": draw.random() < 0.5}
    if kind == "Punctuation":
        return {"type": kind, "behavior": behavior}
    return {"type": kind} | ({"delimiter": draw.choice("a .\u6cb3")} if kind == "CharDelimiterSplit" else {})


def draw_added(draw, vocabulary):
    count = len(models()[vocabulary]["vocab"])
    out = []
    for text in draw.sample(["<s>", "<x>", "word", "qit", "\n\n", "na\u00efve", "MILLER"], draw.randint(0, 3)):
        flag = lambda share: draw.random() < share
        out.append({"id": count + len(out), "content": text, "single_word": flag(0.2), "lstrip": flag(0.2), "rstrip": flag(0.2),
                    "normalized": flag(0.4), "special": flag(0.4)})
    return out


def draw_post_processor(draw, added):
    if not added or draw.random() < 0.5:
        return None
    token, number = added[0]["content"], added[0]["id"]
    pieces = [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    if draw.random() < 0.3:
        pieces.append(pieces[0])
    return {"type": "TemplateProcessing", "single": pieces, "pair": pieces + [{"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def metaspace(draw):
    scheme = draw.choice(["always", "first", "never"])
    return {"type": "Metaspace", "replacement": META, "prepend_scheme": scheme, "split": draw.random() < 0.7}


def random_case(seed):
    draw = random.Random(seed)
    vocabulary = draw.choice(["bytes", "bytes", "bytes", "pieces", "unigram"])
    steps = [draw_normalizer(draw) for _ in range(draw.choice([0, 0, 1, 1, 2, 3]))]
    cuts = [draw_cut(draw) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
    if vocabulary == "bytes":
        cuts.append(BYTE_LEVEL | {"use_regex": draw.random() < 0.4, "add_prefix_space": draw.random() < 0.2})
        decoder = BYTE_LEVEL
    elif vocabulary == "pieces" and draw.random() < 0.6:
        steps.append({"type": "Replace", "pattern": {"String": " "}, "content": META})
        cuts, decoder = cuts[:1] if draw.random() < 0.3 else [], FALLBACK
    else:
        cuts, decoder = [metaspace(draw)], metaspace(draw)
    added = draw_added(draw, vocabulary)
    file = {"normalizer": sequence("normalizer", steps), "pre_tokenizer": sequence("pre_tokenizer", cuts), "decoder": decoder,
            "added_tokens": added, "post_processor": draw_post_processor(draw, added)}
    model = {"ignore_merges": True} if vocabulary == "bytes" and draw.random() < 0.2 else {}
    return {"name": f"random {seed}", "vocabulary": vocabulary, "file": file, "model": model, "texts": texts(draw, 8)}


def texts(draw, count):
    return ["".join(draw.choice(SPACES) + draw.choice(WORDS) for _ in range(draw.randint(1, 12))) + draw.choice(SPACES)
            for _ in range(count)]


# ------------------------------------------------------------------------------------------------------- cases


class Failure(Exception):
    """The library refuses the file, or fails at a text."""


def expected(case):
    try:
        library = tokenizers.Tokenizer.from_str(json.dumps(document(case, models())))
        out = []
        for text in case["texts"]:
            ids = library.encode(text).ids
            out.append([ids, library.decode(ids, skip_special_tokens=False)])
        return out
    except BaseException as error:  # a panic of the library is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        raise Failure(str(error)) from error


def case_of_bytes(name, normalizer=(), cuts=(), **more):
    draw = random.Random(name)
    file = {"normalizer": sequence("normalizer", list(normalizer)), "pre_tokenizer": sequence("pre_tokenizer", [*cuts, BYTE_LEVEL]),
            "decoder": BYTE_LEVEL}
    return {"name": name, "vocabulary": "bytes", "file": file | more, "texts": texts(draw, 8)}


def named_cases():
    for name, expression in EXPRESSIONS.items():
        yield case_of_bytes(f"expression: {name}", cuts=[split(expression)])
    for behavior in ("Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        for name in ("words", "groups of three digits", "an empty match"):
            yield case_of_bytes(f"{behavior}: {name}", cuts=[split(EXPRESSIONS[name], behavior)])
            yield case_of_bytes(f"{behavior}, inverted: {name}", cuts=[split(EXPRESSIONS[name], behavior, True)])
    for kind in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt"):
        yield case_of_bytes(f"normalizer: {kind}", [{"type": kind}])
    for kind in ("Whitespace", "WhitespaceSplit"):
        yield case_of_bytes(f"pre_tokenizer: {kind}", cuts=[{"type": kind}])
    yield case_of_bytes("normalizer: Precompiled", [{"type": "Precompiled", "precompiled_charsmap": RULES}])
    yield case_of_bytes("pre_tokenizer: CharDelimiterSplit", cuts=[{"type": "CharDelimiterSplit", "delimiter": "a"}])


# {name: (changes, word of the error)}
REFUSED = {
    "StripAccents": ({"normalizer": {"type": "StripAccents"}}, "normalizer"),
    "a Precompiled that is no map": ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": ""}}, "normalizer"),
    "BertPreTokenizer": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "BertPreTokenizer"}, BYTE_LEVEL]}},
                         "BertPreTokenizer"),
    "a reference to a group": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split("(a)\\1"), BYTE_LEVEL]}}, "\\1"),
    "a decoder of words": ({"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}, "decoder"),
    "an unknown member": ({"added_vocabulary": []}, "added_vocabulary"),
}


def cases(_):
    out = []
    for case in [*named_cases(), *(random_case(seed) for seed in range(RANDOM))]:
        try:
            out.append(case | {"answers": expected(case)})
        except Failure as failure:
            print(f"left out: {case['name']}: {failure}")
    for name, (changes, word) in REFUSED.items():
        out.append(case_of_bytes(f"refused: {name}", **changes) | {"refused": word})
    return out


# ------------------------------------------------------------------------------------------------------ search


def shorter(case):
    """Cases with one step or text less."""
    if len(case["texts"]) > 1:
        for text in case["texts"]:
            yield case | {"texts": [text]}
        return
    for member, parts in (("normalizer", "normalizers"), ("pre_tokenizer", "pretokenizers")):
        step = case["file"][member] or {}
        for i in range(len(step.get(parts, []))):
            less = copy.deepcopy(case)
            del less["file"][member][parts][i]
            yield less
    for member, value in (("normalizer", None), ("added_tokens", []), ("post_processor", None)):
        if case["file"].get(member):
            yield case | {"file": case["file"] | {member: value}}
    text = case["texts"][0]
    for i in range(len(text)):
        yield case | {"texts": [text[:i] + text[i + 1:]]}


def smallest(case, is_wrong):
    while True:
        less = next((each for each in shorter(case) if is_wrong(each)), None)
        if less is None:
            return case
        case = less


def search(args):
    counts, reasons = collections.Counter(), collections.Counter()

    def verdict(case):
        try:
            return judge(args.cmd, case | {"answers": expected(case)}, models())
        except Failure as failure:
            return "refused by the library", str(failure)

    first, last = map(int, args.seeds.split(":"))
    for seed in range(first, last):
        case = random_case(seed)
        what, reason = verdict(case)
        counts[what] += 1
        if what == WRONG:
            case = smallest(case, lambda each: verdict(each)[0] == what)
            print(f"{what}: {json.dumps(case, ensure_ascii=False)}\n  {verdict(case)[1]}", flush=True)
        elif what == NEEDLESS:
            reasons[reason.rsplit('" has ', 1)[-1][:100]] += 1
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    for reason, count in reasons.most_common():
        print(f"  {count} refused: {reason}")
    return 1 if counts[WRONG] else 0
