#!/usr/bin/env python3
"""Replaces tenon_gpu_peer and adapters_gpu_peer where there is no GPU, to test bench/compare --gpu. Its figures are constants."""
import json
import sys

print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    ask = json.loads(line)
    answer = {"peer": "tenon", "format": sys.argv[2], "tok_s": 1000.0 * ask["batch"], "gb_s": 0, "gops": 0, "copy_gb_s": 1000.0, "stand_in": True}
    if ask["case"] in ("distinct", "one"):  # a step of 0.8 ms, and of 1 ms with adapters whose factors take 100 us to read
        answer |= {"plain_tok_s": 1250.0 * ask["batch"], "factor_bytes": 1e8}
    print(json.dumps(ask | answer), flush=True)
