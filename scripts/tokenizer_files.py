"""Files of a case of scripts/tokenizer-conformance, and the judgement of a program's answers. Standard library only."""
import json
import os
import shlex
import subprocess
import tempfile

RIGHT, DUE, NEEDLESS, WRONG = "right", "refused as due", "refused needlessly", "silently wrong"


def document(case, models):
    """The tokenizer.json of a case: its members, and the vocabulary that it names."""
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None}
    return whole | case["file"] | {"model": models[case["vocabulary"]] | case.get("model", {})}


class Refused(Exception):
    """The program takes the file or a line not."""


def lines_of(command, folder, options, lines):
    done = subprocess.run([*shlex.split(command), "--model", folder, *options], text=True, encoding="utf-8",
                          input="".join(json.dumps(line) + "\n" for line in lines), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    out = [json.loads(line) for line in done.stdout.split("\n") if line]
    errors = [line["error"] for line in out if "error" in line]
    if errors or len(out) != len(lines):
        raise Refused(errors[0] if errors else done.stderr.strip() or f"exit status {done.returncode}")
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
    if expected is None:
        return WRONG, f"accepted, must be refused for its {case['refused']}"
    for text, mine, theirs in zip(texts, got, expected):
        if mine != theirs:
            return WRONG, f"{text!r}: {mine}, the library has {theirs}"
    return RIGHT, ""
