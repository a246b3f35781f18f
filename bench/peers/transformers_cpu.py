"""transformers: transformers_cpu.py DIR float32|bfloat16. Decode rates are medians of whole steps, with its KV cache."""
import sys
import time

import torch
from transformers import GPT2LMHeadModel
from work import PROMPT, THREADS, long_prompt, median, serve

torch.set_num_threads(THREADS)
form = sys.argv[2]
model = GPT2LMHeadModel.from_pretrained(sys.argv[1], dtype=getattr(torch, form)).eval()


def steps_of(batch, count):
    """Seconds of each step after the first, which reads the prompts."""
    out = model(torch.tensor([PROMPT] * batch))
    past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
    for _ in range(count - 1):
        begin = time.perf_counter()
        out = model(token[:, None], past_key_values=past)
        past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
        yield time.perf_counter() - begin


@torch.no_grad()
def run(case, batch, tokens):
    if case == "prefill":
        x = torch.tensor([long_prompt(tokens)])
        begin = time.perf_counter()
        model(x, logits_to_keep=1)
        return tokens / (time.perf_counter() - begin)
    if case == "experiment6":  # the queue of 32 requests, in synchronous batches of 8
        want = [100 if i % 8 == 0 else 10 for i in range(32)]
        begin = time.perf_counter()
        for first in range(0, 32, 8):
            for _ in steps_of(8, max(want[first:first + 8])):
                pass
        return sum(want) / (time.perf_counter() - begin)
    return batch / median(list(steps_of(batch, tokens)))


serve("transformers", form, run)
