"""The work that every peer is given, and how it answers: a case a line in, a JSON line out, until the input ends.

A peer is a program PEER DIR FORMAT that calls serve(peer, format, run): `run(case, batch, tokens)` does one round and
returns tokens a second, or a dict with `tok_s` and more. `tokens` is the length of each of `batch` prompts of a prefill, or the
number of tokens that each row of a decode writes. On a GPU some cases have a `context` too, the length of the prompts before.
One process for a peer and format stays up for the whole comparison, so that rounds of all can be interleaved.
"""
import json
import sys

THREADS = 2
PROMPT = [464, 2068, 7586, 21831, 11687, 625, 262]  # 7 tokens, the same for all


def median(values):
    return sorted(values)[len(values) // 2]


def long_prompt(tokens):
    return [(i * 7919) % 50000 for i in range(tokens)]


def gpt2(where, **options):
    """transformers' GPT-2 of a folder, or with random weights: of 124M where that is "random"."""
    from transformers import GPT2Config, GPT2LMHeadModel
    if where == "random":
        return GPT2LMHeadModel._from_config(GPT2Config(n_ctx=1024), **options)
    return GPT2LMHeadModel.from_pretrained(where, **options)


def serve(peer, form, run):
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        found = run(**ask)
        if not isinstance(found, dict):
            found = {"tok_s": round(found, 2)}
        print(json.dumps(ask | {"peer": peer, "format": form} | found), flush=True)
