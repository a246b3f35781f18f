"""The work of every peer, and its answers: one case per line of input, one JSON line per answer, until the input ends.

A peer is a program PEER DIR FORMAT that calls serve(peer, format, run). `run(case, batch, tokens)` runs one round and returns tokens
per second, or a dict with `tok_s` and more. `tokens` is the length of each of `batch` prompts (prefill), or the number of new tokens
per row (decode). On a GPU some cases also have a `context`, the length of the prompts. One process per peer and format stays up for
the whole comparison, so that rounds can be interleaved.
"""
import json
import sys

THREADS = 2
PROMPT = [464, 2068, 7586, 21831, 11687, 625, 262]  # 7 tokens, the same for all peers


def median(values):
    return sorted(values)[len(values) // 2]


def long_prompt(tokens):
    return [(i * 7919) % 49000 for i in range(tokens)]


def gpt2(where, **options):
    """transformers' GPT-2 from a folder, or with random weights for "random": GPT-2 124M."""
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
