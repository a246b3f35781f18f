"""The work that every peer is given, and how it answers: a case a line in, a JSON line out, until the input ends.

A peer is a program PEER DIR FORMAT that calls serve(peer, format, run): `run(case, batch, tokens)` does one round and
returns tokens a second. `tokens` is how long the prompt of a prefill is, and how many tokens a decode writes; on a GPU some
cases have a `context` too, the length of the prompts before. One process
for a peer and format stays up for the whole comparison, so that rounds of all can be interleaved.
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
        rate = run(**ask)
        print(json.dumps(ask | {"peer": peer, "format": form, "tok_s": round(rate, 2)}), flush=True)
