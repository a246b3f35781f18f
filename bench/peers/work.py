"""The work that every peer is given, and how it answers: a case a line in, a JSON line out, until the input ends.

A peer is a module that calls serve(cases, run): `run(case, batch)` does one round of the case and returns tokens per
second. One process a peer stays up for the whole comparison, so that rounds of all peers can be interleaved.
"""
import json
import sys

PROMPT = [464, 2068, 7586, 21831, 11687, 625, 262]  # 7 tokens, the same for all
DECODE_TOKENS = {1: 64, 8: 24, 32: 12, 128: 6}      # new tokens a round, by batch
PREFILL_TOKENS = 512


def median(values):
    return sorted(values)[len(values) // 2]


def serve(peer, run):
    print(json.dumps({"peer": peer, "ready": True}), flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        rate = run(ask["case"], ask["batch"])
        print(json.dumps({"peer": peer, "case": ask["case"], "batch": ask["batch"], "tok_s": round(rate, 2)}), flush=True)
