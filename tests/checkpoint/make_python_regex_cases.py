#!/usr/bin/env python3
"""Writes python_regex_cases.json beside this file: random patterns, and the answers of Python's re (3.11).

A case is [pattern, answers]. The answers are two digits per text: fullmatch and match. They are "invalid" where re
refuses the pattern, and "unsupported" where PythonRegex does not support it (backreferences, atomic groups, ...).
"""
import json
import os
import random
import re
import warnings

PARTS = r"""a b . 1 h _ - , A é attn mlp q_proj \. \- \d \w \W \D \s \S \b \B \A \Z ^ $ [ab] [^a] [a-h] [\d.] [^\w] []a] [a-]
[-a] [[] [^] [ [\b] [a-\d] ( ( ) ) ) | | (?: (?= (?! (?<= (?<! (?i) (?i: (?-i: (?P<n> (?#c) (?s) (?im-s: * + ? *? +? ?? {2} {1,}
{,2} {0,1} {1,2}? { } {,} {} \x61 \u0061 \141 \0 \n \q""".split()
LEFT_OUT = [r"(a)\1", r"a\1", "(?P<n>a)(?P=n)", "(?>a)", "a*+", "a{2}++", "(a)?(?(1)b|c)", r"\N{DIGIT ONE}", "(?x)a b", "(?i)é"]
TEXTS = ["a", "b", "ab", "aab", "h.1.a", "a.b", "1", "A", "aB.h1", "_", "h.11.attn.q_proj", "-", "a-b", "}{", "[", "]", "aa.bb.11",
         "mlp.a", "(", ")", "\\"]


def answers(pattern):
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError):
        return "invalid"
    return "".join(str(int(bool(way(text)))) for text in TEXTS for way in (compiled.fullmatch, compiled.match))


def main():
    warnings.simplefilter("ignore")
    draw = random.Random(7)
    cases = {pattern: "unsupported" for pattern in LEFT_OUT}
    while len(cases) < 1500:
        pattern = "".join(draw.choice(PARTS) for _ in range(draw.randint(1, 9)))
        pattern += ")" * max(0, pattern.count("(") - pattern.count(")")) if draw.random() < 0.8 else ""
        answer = answers(pattern)
        left_out = re.search(r"[*+?}]\+", pattern) or ("é" in pattern and "i" in pattern)
        if left_out or pattern in cases or (answer == "invalid" and draw.random() < 0.8):
            continue
        cases[pattern] = answer
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_regex_cases.json"), "w", encoding="utf-8") as file:
        lines = (json.dumps(case, separators=(",", ":")) for case in cases.items())
        file.write('{"texts": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(TEXTS), ",\n".join(lines)))


if __name__ == "__main__":
    main()
