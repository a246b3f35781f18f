"""Files of a case of scripts/tokenizer-conformance, and the judgement of a program's answers. Standard library only."""
import json
import os
import shlex
import subprocess
import tempfile

RIGHT, DUE, NEEDLESS, WRONG = "right", "refused as due", "refused needlessly", "silently wrong"
LIMIT = 60  # seconds for all texts of a case


def document(case, models):
    """The tokenizer.json of a case: its members, and the vocabulary that it names."""
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return whole | case["file"] | {"model": models[case["vocabulary"]] | case.get("model", {})}


class Crashed(Exception):
    """The program ended by a signal, said nothing, or ran too long."""


class Refused(Exception):
    """The program refuses the file or a line."""


def lines_of(command, folder, options, lines):
    try:
        done = subprocess.run([*shlex.split(command), "--model", folder, *options], text=True, encoding="utf-8",
                              input="".join(json.dumps(line) + "\n" for line in lines), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT)
    except subprocess.TimeoutExpired as error:
        raise Crashed(f"no answer within {LIMIT} s") from error
    out = [json.loads(line) for line in done.stdout.split("\n") if line]
    errors = [line["error"] for line in out if "error" in line]
    if errors:
        raise Refused(errors[0])
    if len(out) != len(lines):
        if done.returncode < 0 or "tokenizer.json" not in done.stderr:
            raise Crashed(f"exit status {done.returncode}: {done.stderr.strip()}")
        raise Refused(done.stderr.strip())
    return out


def answers(command, file, texts):
    """[[ids, text of the ids]] by the program."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as out:
            json.dump(file, out)
        ids = lines_of(command, folder, ["--special", "--parse-special"], [{"text": text} for text in texts])
        texts = lines_of(command, folder, ["--decode"], ids)
    return [[each["ids"], text["text"]] for each, text in zip(ids, texts)]


def judge(command, case, models):
    """(verdict, reason)"""
    texts, expected = case["texts"], case.get("answers")
    try:
        got = answers(command, document(case, models), texts)
    except Refused as refusal:
        if expected is None and case["refused"] in str(refusal):
            return DUE, str(refusal)
        return NEEDLESS, str(refusal)
    except Crashed as crash:
        return WRONG, str(crash)
    if expected is None:
        return WRONG, f"accepted, must be refused for its {case['refused']}"
    for text, mine, theirs in zip(texts, got, expected):
        if mine != theirs:
            return WRONG, f"{text!r}: {mine}, the library has {theirs}"
    return RIGHT, ""
