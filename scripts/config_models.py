"""The cases of scripts/config-conformance as folders of a model, and the comparison of an engine's answers.

A case has:
- name, config: the members of config.json;
- tensors: the index of its list of tensors, [name, shape] or [name with *, shape, number of layers];
- seed: of the weights;
- logits: for each prompt, and each position of the prompt's logits_at, the first COLUMNS logits;
- greedy: for each prompt, NEW_TOKENS tokens;
- or, in place of logits and greedy: refused, the reason, and field, words of which an error must contain one.
"""
import json
import math
import os
import re
import shlex
import struct
import subprocess
import zlib

NEW_TOKENS = 10
COLUMNS = 12  # of the logits, in expected.json
TOLERANCE = 1e-4  # of the largest logit
# The texts grow from 3 to 13 and from 14 to 24 tokens. Neither grows past 13, the trained length in cases of longrope.
PROMPTS = [{"input_ids": [3, 33, 7], "logits_at": [2]},
           {"input_ids": [17, 5, 44, 8, 29, 5, 60, 12, 9, 41, 23, 4, 51, 30], "logits_at": [6, 13]}]
POSITIONS = 24
RIGHT, DUE, NEEDLESS, WRONG = "right", "refused as due", "refused needlessly", "silently wrong"


# ------------------------------------------------------------------------------------------------------- weights

PERIOD = 4093  # a prime: rows of a matrix, and the experts of a layer, begin at different values


def random_values():
    """PERIOD multiples of 1/4096 in [-0.5, 0.5): the high bits of a linear congruential generator."""
    values, state = [], 1
    for _ in range(PERIOD):
        state = (state * 1103515245 + 12345) % 2**31
        values.append((state >> 19) / 4096 - 0.5)
    return values


def packed(values):
    return struct.pack(f"<{PERIOD}f", *values)


VALUES = random_values()
# Each is a multiple of 2**-15, which float32 holds exactly.
MATRIX, GAIN, BIAS = (packed([a + b * v for v in VALUES]) for a, b in ((0, 0.75), (1, 0.625), (0, 0.625)))


def weights(name, shape, seed):
    """The bytes of a tensor in float32. They depend on the name, the shape and the seed."""
    is_norm = name.endswith("weight") and ("norm" in name or len(shape) == 1)
    values = GAIN if is_norm else MATRIX if len(shape) > 1 else BIAS
    begin, size = zlib.crc32(f"{name} {seed}".encode()) % PERIOD, math.prod(shape)
    return (values * ((begin + size) // PERIOD + 1))[4 * begin:4 * (begin + size)]


def folded(tensors):
    """A list of [name, shape] in which the layers 0 to n - 1 of one shape are one [name with *, shape, n]."""
    groups = {}
    for name, shape in tensors:
        layer = re.search(r"(?<=\.)\d+(?=\.)", name)
        key = name[:layer.start()] + "*" + name[layer.end():] if layer else name
        groups.setdefault((key, tuple(shape)), []).append(int(layer[0]) if layer else None)
    out = []
    for (key, shape), layers in groups.items():
        if layers == list(range(len(layers))):
            out.append([key, list(shape), len(layers)])
        else:
            out += [[key if layer is None else key.replace("*", str(layer)), list(shape)] for layer in layers]
    return out


def unfolded(tensors):
    for name, shape, *layers in tensors:
        for layer in range(*layers) if layers else [0]:
            yield name.replace("*", str(layer)) if layers else name, shape


def write_model(folder, config, tensors, seed):
    """config.json and model.safetensors. `tensors`: folded or not."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    header, parts, end = {"__metadata__": {"format": "pt"}}, [], 0
    for name, shape in unfolded(tensors):
        parts.append(weights(name, shape, seed))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(parts[-1])]}
        end += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


# ------------------------------------------------------------------------------------------------------- answers


def ask(command, folder):
    """An answer for each prompt, or an error as text."""
    requests = [{"id": str(i), "max_new_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True, **prompt}
                for i, prompt in enumerate(PROMPTS)]
    process = subprocess.run([*shlex.split(command), "--model", folder, "--positions", str(POSITIONS)],
                             input="".join(json.dumps(request) + "\n" for request in requests),
                             capture_output=True, encoding="utf-8", timeout=120)
    if process.returncode < 0:
        return f"ended by signal {-process.returncode}"
    answers = {answer["id"]: answer for answer in map(json.loads, filter(None, process.stdout.split("\n")))}
    if len(answers) != len(requests):
        return (process.stderr.strip().split("\n") or [""])[-1] or f"exit status {process.returncode}, no answer"
    return next((each["error"] for each in answers.values() if "error" in each),
                [answers[request["id"]] for request in requests])


def difference(case, answers):
    """The difference of the answers from those of transformers; None if they agree."""
    for i, (prompt, answer) in enumerate(zip(PROMPTS, answers)):
        for at, want in zip(prompt["logits_at"], case["logits"][i]):
            got = answer.get("logits", {}).get(str(at), [])
            if len(got) < len(want):
                return f"prompt {i}: {len(got)} logits after position {at}"
            bound = TOLERANCE * max(map(abs, want))
            worst = max(abs(g - w) for g, w in zip(got, want))
            if not worst <= bound:
                return f"prompt {i}: a logit after position {at} is off by {worst:.2g}, allowed {bound:.2g}"
        got, want = answer.get("output_ids"), case["greedy"][i]
        if got != want:
            at = next((k for k, (g, w) in enumerate(zip(got, want)) if g != w), len(got))
            return f"prompt {i}: new tokens differ from number {at} on: {got[at:]}, not {want[at:]}"
    return None


def judge(case, answers):
    """(verdict, reason). `answers`: a result of ask()."""
    if "refused" in case:
        if not isinstance(answers, str):
            return WRONG, f"answered, and had to be refused: {case['refused']}"
        if answers.startswith("ended by signal"):
            return WRONG, answers
        named = any(word in answers for word in case["field"])
        return (DUE, answers) if named else (NEEDLESS, f"refused for something else than {case['field']}: {answers}")
    if isinstance(answers, str):
        return (WRONG if answers.startswith("ended by signal") else NEEDLESS), answers
    why = difference(case, answers)
    return (WRONG, why) if why else (RIGHT, "")
