"""CTranslate2, float32: ctranslate2_cpu.py DIR (converts it beside DIR once). The rate is of the whole call, as it has no
steps to time: the prompt's 7 tokens are in it."""
import json
import os
import sys
import time

import ctranslate2
from work import DECODE_TOKENS, PREFILL_TOKENS, PROMPT, serve

source = sys.argv[1].rstrip("/")
converted = source + "-ct2"
if not os.path.exists(converted):
    ctranslate2.converters.TransformersConverter(source).convert(converted)
with open(source + "/vocab.json", encoding="utf-8") as f:
    names = {i: token for token, i in json.load(f).items()}
generator = ctranslate2.Generator(converted, device="cpu", compute_type="float32", intra_threads=2, inter_threads=1)


def run(case, batch):
    prompt = [names[i] for i in PROMPT]
    if case == "prefill":  # it scores all positions: there is no call for the last alone
        begin = time.perf_counter()
        generator.forward_batch([[names[(i * 7919) % 50000] for i in range(PREFILL_TOKENS)]])
        return PREFILL_TOKENS / (time.perf_counter() - begin)
    new = DECODE_TOKENS[batch]
    begin = time.perf_counter()
    out = generator.generate_batch([prompt] * batch, max_length=new, min_length=new, sampling_topk=1, end_token=[],
                                   include_prompt_in_result=False, max_batch_size=0)
    return sum(len(o.sequences_ids[0]) for o in out) / (time.perf_counter() - begin)


serve("ctranslate2", run)
