"""Plain language in comments and pages: what scripts/check-style --language looks for.

A finding is one of
  - an opening that hides the subject: a sentence that begins with "Of", "Whoever", "Behind", "So many", "As if" or "What";
  - a word for which the field has another one, see WORDS;
  - a sentence of more than 35 words (25 are the aim; 35 are the limit).
"""
import re

SENTENCE_WORDS = 35
OPENINGS = re.compile(r"(?:Of|Whoever|Whose|Behind|So (?:many|much|long)|As if|What|Those (?:of|that|which))\b(?!.*\?$)")
WORDS = [  # (expression, what to write)
    (re.compile(r"\bso (?:many|much)\b(?! (?:that|as|more|less|faster|slower))", re.I), "the number or amount of"),
    (re.compile(r"\bwhoever\b", re.I), "who it is: the caller, the request, the thread"),
    (re.compile(r"(?<!left )(?<!leave )(?<!leaves )(?<!hidden )(?<!from )\bbehind\b(?! (?:a|the) (?:proxy|switch|firewall|flag|compile-time))", re.I),
     "after"),
    (re.compile(r"\b(?:asks|asked|asking) beside\b", re.I), "prefetches"),
    (re.compile(r"\bnobody\b", re.I), "no request, no thread, ..."),
    (re.compile(r"\bsomebody\b", re.I), "another request, a caller, ..."),
]
LITERAL = re.compile(r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|(?P<comment>//[^\n]*|/\*.*?\*/)', re.S)
HASH_LITERAL = re.compile(r'"""(?P<doc>.*?)"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>(?<![\w$&{])#(?!!)[^\n]*)', re.S)
CODE = {".h", ".cuh", ".inc", ".cpp", ".cu"}
HASH = {".py", ".sh", ".cmake"}


def code_blocks(text):
    """(first line, text) of each run of comment lines."""
    lines = {}
    for found in LITERAL.finditer(text):
        if not found["comment"]:
            continue
        first = text.count("\n", 0, found.start()) + 1
        alone = not text[text.rfind("\n", 0, found.start()) + 1:found.start()].strip()
        for i, line in enumerate(found["comment"].split("\n")):
            lines[first + i] = (re.sub(r"^\s*(?:///?<?|/?\*+/?)\s?", "", line).rstrip(), alone)
    return blocks(lines)


def hash_blocks(text):
    lines = {}
    for found in HASH_LITERAL.finditer(text):
        comment = found["comment"] or found["doc"]
        before = text[text.rfind("\n", 0, found.start()) + 1:found.start()]
        if not comment or found["doc"] and before.strip() not in ("", "r"):  # other multi-line strings are no docstrings
            continue
        first = text.count("\n", 0, found.start()) + 1
        indent = len(before) - len(before.lstrip()) if found["doc"] else 1
        for i, line in enumerate(comment.split("\n")):
            line = line.lstrip("#")
            lines[first + i] = (line[min(indent, len(line) - len(line.lstrip())):].rstrip(), bool(found["doc"]) or not before.strip())
    return blocks(lines)


def blocks(lines):
    """Joins adjacent lines; an empty line, a list item, an indented line or a trailing comment begins another block."""
    block, begin, last, last_alone, indented = [], 0, -1, False, False
    for number in sorted(lines):
        line, alone = lines[number]
        item = re.match(r"\s*(?:[-*|]|\d+\.|\[|---|==)", line)
        was_indented, indented = indented, bool(re.match(r"\s{2}", line)) and not (block and re.match(r"[-*]|\d+\.", block[0]))
        if number != last + 1 or not line.strip() or not alone or not last_alone or item or indented or was_indented:
            if block:
                yield begin, " ".join(block)
            block, begin = [], number
        if line.strip():
            block.append(line.strip())
        last, last_alone = number, alone
    if block:
        yield begin, " ".join(block)


def page_blocks(text):
    """(first line, text) of each paragraph or list item outside code, tables and comments."""
    text = re.sub(r"<!--.*?-->|^```.*?^```(?=\s)", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S | re.M)
    block, begin = [], 0
    for number, line in enumerate(text.split("\n"), 1):
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+", line)
        if not line.strip() or line.lstrip().startswith(("|", "#", ">")) or item:
            if block:
                yield begin, " ".join(block)
            block = []
            line = line[item.end():] if item else ("" if line.lstrip().startswith(("|", "#", ">")) else line)
        if line.strip():
            begin = begin if block else number
            block.append(line.strip())
    if block:
        yield begin, " ".join(block)


def sentences(block):
    block = re.sub(r"`[^`]*`", "`x`", block)
    block = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", block)
    block = re.sub(r"\b(e\.g|i\.e|cf|vs|al|Fig|No)\.", r"\1", block)
    return [s for s in re.split(r"(?<=[.!?:;])[\"')*]*\s+(?=[\"'(*`A-Z0-9])", block) if s.strip()]


def findings(name, text):
    """(line, message) of each finding in one file."""
    suffix = "." + name.rsplit(".", 1)[-1] if "." in name.rsplit("/", 1)[-1] else ""
    if suffix in CODE:
        found = code_blocks(text)
    elif suffix == ".md":
        found = page_blocks(text)
    elif suffix in HASH or text.startswith("#!") or name.endswith("CMakeLists.txt"):
        found = hash_blocks(text)
    else:
        return
    for line, block in found:
        plain = re.sub(r'"[^"]*"|`[^`]*`', '""', block)
        for expression, instead in WORDS:
            for hit in expression.finditer(plain):
                yield line, f'"{hit[0]}": write {instead}'
        for sentence in sentences(block):
            if OPENINGS.match(sentence.lstrip("*\"'( ")):
                yield line, f'begins with "{sentence[:40]}": name the subject first'
            words = len(re.findall(r"[A-Za-z][\w'-]*", sentence))
            if words > SENTENCE_WORDS:
                yield line, f'a sentence of {words} words: "{sentence[:50]}..."'
