"""Measures CTranslate2: ctranslate2_cpu.py DIR float32|int8.

Converts the model once, into the folder DIR-ct2. Weights are quantised to int8 when they are loaded. Decode rates are new
tokens per second of the whole call, which also reads the prompt of 7 tokens: CTranslate2 exposes no single steps."""
import json
import os
import sys
import time

import ctranslate2
from work import PROMPT, THREADS, long_prompt, serve

source, form = sys.argv[1].rstrip("/"), sys.argv[2]
converted = source + "-ct2"
if not os.path.exists(converted):
    ctranslate2.converters.TransformersConverter(source).convert(converted)
with open(source + "/vocab.json", encoding="utf-8") as f:
    names = {i: token for token, i in json.load(f).items()}
generator = ctranslate2.Generator(converted, device="cpu", compute_type=form, intra_threads=THREADS, inter_threads=1)


def run(case, batch, tokens):
    if case == "prefill":  # it scores all positions, because no call scores the last one only
        prompt = [names[i] for i in long_prompt(tokens)]
        begin = time.perf_counter()
        generator.forward_batch([prompt])
        return tokens / (time.perf_counter() - begin)
    prompt = [names[i] for i in PROMPT]
    begin = time.perf_counter()
    out = generator.generate_batch([prompt] * batch, max_length=tokens, min_length=tokens, sampling_topk=1, end_token=[],
                                   include_prompt_in_result=False, max_batch_size=0)
    return sum(len(o.sequences_ids[0]) for o in out) / (time.perf_counter() - begin)


serve("ctranslate2", form, run)
