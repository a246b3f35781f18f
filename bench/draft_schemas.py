#!/usr/bin/env python3
"""Counts the steps of answers to JSON schemas with guesses and without: `tenon run` with --draft suffix and none.
    bench/draft_schemas.py TENON MODEL SCHEMAS.jsonl... [--weights float32] [--tokens 200]
A line of SCHEMAS has an `id` and a `schema`; those of objects with required keys are used. MODEL is a chat model with
ChatML's template; its prompt does not contain the schema. Prints a JSON line for each schema, and one with the sums.
How many guesses a step verifies depends on the time that steps take, so numbers of steps vary a little. Exit status 1
if an answer differs."""
import argparse
import json
import statistics
import subprocess
import sys

PROMPT = "<|im_start|>user\nMake up a JSON object: {}.<|im_end|>\n<|im_start|>assistant\n"


def requires_keys(schema, root):
    """Whether the schema asks for an object with certain keys."""
    for _ in range(10):  # references to references
        if not isinstance(schema, dict):
            return False
        if not str(schema.get("$ref")).startswith("#/"):
            break
        place, schema = schema["$ref"], root
        for part in place.removeprefix("#/").split("/"):
            schema = schema.get(part) if isinstance(schema, dict) else None
    return isinstance(schema, dict) and bool(schema.get("required")) and bool(schema.get("properties"))


def answer(options, schema, draft):
    """The program's answer and the number of its steps."""
    request = {"id": "a", "prompt": PROMPT.format(schema.get("title", "an example")), "parse_special": True,
               "max_new_tokens": options.tokens, "schema": schema}
    command = [options.tenon, "run", "--model", options.model, "--weights", options.weights, "--draft", draft]
    done = subprocess.run(command, input=json.dumps(request) + "\n", capture_output=True, text=True)
    if done.returncode not in (0, 1):  # 1: the answer is an error
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout), json.loads(done.stderr.splitlines()[-1])["steps"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tenon")
    parser.add_argument("model")
    parser.add_argument("schemas", nargs="+")
    parser.add_argument("--weights", default="float32")
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()

    ratios, plain_steps, guessed_steps, differ = [], 0, 0, 0
    for path in options.schemas:
        for line in open(path, encoding="utf-8"):
            case = json.loads(line)
            if not requires_keys(case.get("schema"), case.get("schema")):
                continue
            plain, steps = answer(options, case["schema"], "none")
            if "error" in plain:
                print(json.dumps({"id": case["id"], "error": plain["error"]}), flush=True)
                continue
            guessed, fewer = answer(options, case["schema"], "suffix")
            differ += guessed != plain
            if "error" in guessed:
                print(json.dumps({"id": case["id"], "error with guesses": guessed["error"]}), flush=True)
                continue
            ratios.append(steps / fewer)
            plain_steps += steps
            guessed_steps += fewer
            print(json.dumps({"id": case["id"], "tokens": len(plain["output_ids"]), "plain": steps, "guessed": fewer,
                              "ratio": round(ratios[-1], 2), "equal": guessed == plain}), flush=True)
    if not ratios:
        sys.exit("no schema was answered")
    print(json.dumps({"schemas": len(ratios), "plain": plain_steps, "guessed": guessed_steps, "differ": differ,
                      "ratio_of_sums": round(plain_steps / guessed_steps, 2),
                      "median": round(statistics.median(ratios), 2), "least": round(min(ratios), 2)}))
    return differ > 0


sys.exit(main())
