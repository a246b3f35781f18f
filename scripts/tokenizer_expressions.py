"""Regular expressions for scripts/tokenizer-conformance: kinds that tokenizers have, and random ones."""

# Each shows what one kind of pre-tokenizer needs.
EXPRESSIONS = {
    "words": r"\w+|[^\w\s]+",
    "words with marks": r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "words with spaces": r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+",
    "capitals": r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|\s+",
    "contractions without case": r"(?i)'(?:s|t|re|ve|m|ll|d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s+",
    "groups of three digits": r"\d{1,3}(?=(?:\d{3})*\b)",
    "an empty match": r"(?=(\d{3})+(?!\d))",
    "digits by their end": r"(?<=\d)(?=(?:\d{3})+\b)",
    "Han alone": r"\p{Han}+|[\p{L}&&[^\p{Han}]]+|\p{N}+|[^\p{L}\p{N}]",
    "scripts": r"[\p{Hiragana}\p{Katakana}]+|\p{Cyrillic}+|[\p{Devanagari}\p{M}]+|\p{Latin}+",
    "codes": r"[\x{4e00}-\x{9fff}]+|[\u3040-\u30ff]+|\x41|[\x61-\x63]+",
    "classes of POSIX": r"[[:alpha:]]+|[[:digit:]]+|[[:punct:]]|[[:^alnum:]]+",
    "lazy": r".+?(?=\s|$)|\s+?",
    "atomic": r"(?>a+|\w+)\b|\s",
    "a lookbehind of two lengths": r"(?<!\d|\d,)\p{L}+|(?<=l|er) ?\w",
    "lines": r"^\s+|\S+$|[^\n]+|\n+",
    "a named group": r"(?<word>\p{L}+)|(?<rest>\P{L})",
    "a hundred spaces": r"\s{100}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s|\S+",
}

SETS = [r"\s", r"\S", r"\d", r"\D", r"\w", r"\W", r"\p{L}", r"\p{N}", r"\p{Han}", r"\P{L}", r"\p{^M}", r"\h", r"\p{Lu}", r"\p{Word}"]
IN_CLASSES = SETS + ["[:alpha:]", "[:^alpha:]", "[:punct:]", "[:word:]", "[:lower:]", "a-c", "0-9", r"\x{41}-\x{5a}", "a", "b", "_", "'", r"\n"]
CHARACTERS = ["a", "b", "t", "s", "S", "f", "i", r"\x73", "1", " ", "_", "'", "A", "\u00e9", "\u6cb3", ".", r"\.", r"\n", r"\x41", r"\u6cb3", "\u00b2"]
PLACES = ["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z"]
REPEATS = ["?", "*", "+", "??", "*?", "+?", "?+", "*+", "++", "{2}", "{1,2}", "{2,}", "{,2}", "{2}+", "{1,3}?", "{2}?", "{0,1}"]


def random_class(draw, depth=0):
    out = "[" + ("^" if draw.random() < 0.3 else "")
    for i in range(draw.randint(1, 3)):
        kind = draw.random()
        if kind < 0.8:
            out += draw.choice(IN_CLASSES)
        elif kind < 0.9 and depth < 2:
            out += random_class(draw, depth + 1)
        elif i > 0:
            out += "&&" + draw.choice([r"\p{L}", "a-c", "[^a]", r"\w"])
        else:
            out += r"\-"
    return out + "]"


def random_atom(draw, depth):
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(CHARACTERS)
    if kind < 0.5:
        return draw.choice(SETS)
    if kind < 0.65:
        return random_class(draw)
    if kind < 0.72:
        return draw.choice(PLACES)
    if depth == 3:
        return draw.choice("ab")
    if kind < 0.86:
        return draw.choice(["(", "(?:", "(?:", "(?>", "(?i:", "(?-i:", "(?<n>"]) + random_expression(draw, depth + 1) + ")"
    if kind < 0.95:
        return draw.choice(["(?=", "(?!"]) + random_expression(draw, depth + 1) + ")"
    return draw.choice(["(?<=", "(?<!"]) + "|".join(draw.choice(["a", "b1", " ", r"\w\s", "[ab]"]) for _ in range(draw.randint(1, 2))) + ")"


def random_expression(draw, depth=0):
    """An expression that the library may refuse, for a repeat of a place."""
    alternatives = []
    for _ in range(draw.choice([1, 1, 1, 2, 2, 3])):
        atoms = [random_atom(draw, depth) for _ in range(draw.randint(1, 3))]
        alternatives.append("".join(each + (draw.choice(REPEATS) if draw.random() < 0.35 and each not in PLACES else "")
                                    for each in atoms))
    return "|".join(alternatives)
