"""Contracts of policies: what scripts/check-style --contracts looks for.

A finding is one of
  - a `requires { ... }` outside a concept: a hook of a policy without a name. ALLOWED lists those that ask no policy;
  - a concept outside core/concepts.h and core/concepts/, unless ELSEWHERE says why it stands where it stands;
  - a member that an axis's concept asks for and that the axis's error message does not name;
  - an entry of ALLOWED or ELSEWHERE that is no longer needed.
concepts() is also what scripts/policy-table writes into docs/policies.md.
"""
import pathlib
import re

PAGE = "include/tenon/core/concepts.h"
PAGES = (PAGE, "include/tenon/core/concepts/device.h")  # the first includes the others
FOLDERS = ("include/", "apps/", "server/", "src/")

# Concepts of the library's users that need types which core/ cannot name. {file: reason}
ELSEWHERE = {
    "include/tenon/core/elements.h": "elements of caches, which concepts.h includes",
    "include/tenon/core/constraint.h": "a request brings it; no axis of an engine",
    "include/tenon/core/logits_processor.h": "a request brings it; no axis of an engine",
    "include/tenon/ops/args.h": "the ops of a device, by the types of their arguments",
    "include/tenon/ops/change_args.h": "the ops of a device, by the types of their arguments",
    "include/tenon/ops/gate_rows_args.h": "the ops of a device, by the types of their arguments",
    "include/tenon/ops/convolve_args.h": "the ops of a device, by the types of their arguments",
    "include/tenon/model/traits.h": "a model family, by its configuration and its tensors",
    "include/tenon/weights/code.h": "codes of weights in files",
    "include/tenon/weights/codes.h": "codes of weights in files",
    "include/tenon/engine/service_loop.h": "what a service asks of its engine",
}
# Concepts of the library's own. {(file, name): reason}
OWN = {
    ("include/tenon/core/concepts/scheduler_hooks.h", "IsFunction"): "a part of SchedulerHooksFit",
    ("include/tenon/core/concepts/scheduler_hooks.h", "SchedulerHooksFit"): "hooks that would be ignored; it needs the concepts of the hooks",
    ("include/tenon/model/any_family.h", "ChoosesFamily"): "AnyFamily: one type for a list of families",
    ("include/tenon/schedule/any_scheduler.h", "PlansSteps"): "SchedulerPolicy without copyable, which depends on the class it guards",
    ("include/tenon/ops/cuda/columns.cuh", "HasColumns"): "layouts of the library that its kernels know",
    ("include/tenon/ops/cuda/mixture.cuh", "HasExperts"): "layouts of the library that its kernels know",
    ("include/tenon/ops/cuda/linear.cuh", "HasProduct"): "layouts of the library that its kernels know",
    ("include/tenon/ops/cuda/linear_tiles.cuh", "HasOperandTiles"): "NamesOperand whose tiles() the kernels can read",
    ("include/tenon/ops/cuda/sequences.cuh", "ViewOnDevice"): "ReadsTable of an element that the kernels know",
    ("include/tenon/ops/cuda/tensor_tiles.cuh", "HasTiles"): "layouts of the library that its kernels know",
}
# requires-expressions that choose code by a type of the library. {(file, expression): reason}
LAYOUT = "which of the library's layouts it is"
NORM = "LayerNormArgs has a bias, RmsNormArgs has none"
ALLOWED = {
    ("include/tenon/engine/any_engine.h", "requires(Engine & engine) { engine.adapters(); }"): "Engine has it if its adapter policy adds at run time",
    ("include/tenon/ops/cpu/kernels/linear.inc", "requires { weight.zero_points; }"): LAYOUT,
    ("include/tenon/ops/cpu/kernels/linear.inc", "requires { weight.scale_stride; }"): LAYOUT,
    ("include/tenon/weights/int8_exact.h", "requires { panels.zero_points; }"): LAYOUT,
    ("include/tenon/ops/cuda/rows.cuh", "requires { args.bias; }"): NORM,
    ("include/tenon/ops/cuda/rows.cuh", "requires { args.y.stride; }"): "the result is rows of floats, or tiles",
}
# The error message of an axis names each member of these concepts. {beginning of the message: concepts}
MESSAGES = {
    "tenon: Scheduler<P> got": ("SchedulerPolicy",),
    "tenon: Cache<P> got": ("CachePolicy", "CacheLedger", "CacheView", "LaysOutBlocks"),
    "tenon: Weights<P> got": ("StoresMatrix", "EncodesBlocks"),
    "tenon: Head<P> got": ("StoresMatrix", "EncodesBlocks"),
    "tenon: Adapter<P> got": ("AdapterPolicy",),
    "tenon: Draft<P> got": ("DraftPolicy",),
    "tenon: Attention<P> got": ("AttentionPolicy",),
    "tenon: Device<P> got": ("DevicePolicy", "MovesValues"),
    "tenon: Engine<Model, ...> needs": ("ModelTraits",),
}

STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
COMMENT = re.compile(r"//[^\n]*")
EXPRESSION = re.compile(r"\brequires\s*(?P<parameters>\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?\s*\{")
PARAMETER = re.compile(r"[\w>&*]\s+[&*]?\s*\w+\s*(?:\(|,|\)$)")
CONCEPT = re.compile(r"(?P<comment>(?:^///? [^\n]*\n)*)^template <[^\n]*>\s+concept (?P<name>\w+)\s*=", re.M)
MEMBER = re.compile(r"\b(?:[A-Z]::|[a-z]\w*\.|typename [A-Z]::)(?:template )?(\w+)")


def end_of(text, begin, last):
    """The position after the `last` character that closes what is open at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in "{(") - (text[i] in "})")
        if depth == 0 and text[i] == last:
            return i + 1
    return len(text)


def concepts(name, text):
    """[(concept, begin, end, comment, body)] of one file."""
    plain = COMMENT.sub(lambda m: " " * len(m[0]), text)
    found = []
    for m in CONCEPT.finditer(text):
        end = end_of(plain, m.end(), ";")
        comment = " ".join(line.lstrip("/ ").rstrip() for line in m["comment"].splitlines())
        found.append((m["name"], m.start("name"), end, comment, plain[m.end():end]))
    return found


def expressions(text):
    """[(begin, text on one line)] of the requires-expressions of one file; requires-clauses are none."""
    plain = COMMENT.sub(lambda m: " " * len(m[0]), text)
    found = []
    for m in EXPRESSION.finditer(plain):
        if m["parameters"] and not PARAMETER.search(m["parameters"]):
            continue  # a clause before a function's body
        end = end_of(plain, m.end() - 1, "}")
        found.append((m.start(), " ".join(plain[m.start():end].split())))
    return found


def members(body):
    """The members that a concept asks of its type or of a value."""
    return set(MEMBER.findall(body)) - {"same_as", "convertible_to"}


def messages(text):
    """The text of each static_assert."""
    plain = STRING.sub(lambda m: "_" * len(m[0]), text)
    for m in re.finditer(r"static_assert\(", plain):
        yield "".join(STRING.findall(text[m.end():end_of(plain, m.end() - 1, ")")]))


def findings(files):
    """[(file, line, message)] of {file: text}."""
    used, known, spoken = set(), {}, []
    for name, text in files.items():
        of_file = concepts(name, text)
        for concept, begin, end, comment, body in of_file:
            known[concept] = body
            line = text.count("\n", 0, begin) + 1
            if name in PAGES or name in ELSEWHERE or (name, concept) in OWN:
                used.add(name if name in ELSEWHERE else (name, concept))
                if (name, concept) not in OWN and not comment:
                    yield name, line, f"concept {concept} has no comment"
            else:
                yield name, line, f"concept {concept} belongs to {PAGE}, or to ELSEWHERE in scripts/check_contracts.py with a reason"
        for begin, expression in expressions(text):
            if any(b <= begin < e for _, b, e, _, _ in of_file):
                continue
            if (name, expression) in ALLOWED:
                used.add((name, expression))
                continue
            yield name, text.count("\n", 0, begin) + 1, f"`{expression}` asks for a member without a name: make it a concept of {PAGE}"
        spoken += messages(text)
    for entry in [*ELSEWHERE, *OWN, *ALLOWED]:
        if entry not in used:
            yield entry if isinstance(entry, str) else entry[0], 1, f"{entry}: delete this entry in scripts/check_contracts.py, it is not needed"
    for beginning, names in MESSAGES.items():
        said = [text for text in spoken if text.startswith(beginning)]
        missing = {m for concept in names for m in members(known.get(concept, ""))} - set(re.findall(r"\w+", " ".join(said)))
        if len(said) != 1 or not all(n in known for n in names):
            yield PAGE, 1, f"{len(said)} messages begin with `{beginning}`, or one of {', '.join(names)} is no concept"
        elif missing:
            yield PAGE, 1, f"the message `{beginning} ...` does not name {', '.join(sorted(missing))}"


def for_markdown(comment):
    """A comment as a cell of a table: outside backticks, what would be a tag is text."""
    parts = comment.replace("|", "\\|").split("`")
    return "`".join(part if i % 2 else part.replace("<", "\\<") for i, part in enumerate(parts))


def read(root, names):
    return {name: (pathlib.Path(root) / name).read_text(encoding="utf-8") for name in names if name.startswith(FOLDERS)}
