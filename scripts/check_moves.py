"""Moves in calls: what scripts/check-style --moves looks for.

A finding is a call that moves a variable in one argument and uses it in another. C++ does not say which argument is
evaluated first: g++ takes the last, clang++ the first. So f(std::move(x), g(x)) reads x after it was moved with one of
them. Calls that forward references (emplace, make_shared, ...) move nothing before all arguments are there.
"""
import re

FORWARDING = re.compile(r"(?:\bemplace\w*|\btry_emplace|\bmake_shared(?:<[^()]*>)?|\bmake_unique(?:<[^()]*>)?|\bmove|\bforward(?:<[^()]*>)?)\s*$")
CALL = re.compile(r"[\w>\])}]\s*\(")
MOVED = re.compile(r"std::move\((\w+)\)")


def arguments(text, at):
    """The arguments of the call whose '(' is at `at`, and [] if it is none: a `for`, or not closed."""
    out, begin, depth = [], at + 1, 0
    for i in range(at, len(text)):
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return out + [text[begin:i]]
        elif text[i] == "," and depth == 1:
            out.append(text[begin:i])
            begin = i + 1
        elif text[i] == ";" and depth == 1:
            return []
    return []


def uses(text, name):
    """Whether `text` names the variable itself, not a member of another object."""
    return re.search(r"(?<![\w.:])(?<!->)%s\b" % name, text) is not None


def findings(text):
    """(line, name) of each finding in C++ whose comments and texts are blank."""
    for call in CALL.finditer(text):
        if FORWARDING.search(text[: call.end() - 1][-80:]):
            continue
        parts = arguments(text, call.end() - 1)
        for i, part in enumerate(parts):
            for name in dict.fromkeys(MOVED.findall(part)):
                if any(uses(other, name) for j, other in enumerate(parts) if j != i):
                    yield text.count("\n", 0, call.start()) + 1, name
