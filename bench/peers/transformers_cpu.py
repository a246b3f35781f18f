"""transformers, float32: transformers_cpu.py DIR. Decode rates are medians of whole steps, with its KV cache."""
import sys
import time

import torch
from transformers import GPT2LMHeadModel
from work import DECODE_TOKENS, PREFILL_TOKENS, PROMPT, median, serve

torch.set_num_threads(2)
model = GPT2LMHeadModel.from_pretrained(sys.argv[1], dtype=torch.float32).eval()


@torch.no_grad()
def run(case, batch):
    if case == "prefill":
        x = torch.randint(0, 50257, (1, PREFILL_TOKENS))
        begin = time.perf_counter()
        model(x, logits_to_keep=1)
        return PREFILL_TOKENS / (time.perf_counter() - begin)
    if case == "experiment6":  # the queue of 32 requests by synchronous batches of 8, in seconds
        want = [100 if i % 8 == 0 else 10 for i in range(32)]
        begin = time.perf_counter()
        for first in range(0, 32, 8):
            out = model(torch.tensor([PROMPT] * 8))
            past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
            for _ in range(max(want[first:first + 8]) - 1):
                out = model(token[:, None], past_key_values=past)
                past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
        return sum(want) / (time.perf_counter() - begin)
    out = model(torch.tensor([PROMPT] * batch))
    past, token, steps = out.past_key_values, out.logits[:, -1].argmax(-1), []
    for _ in range(DECODE_TOKENS[batch] - 1):
        begin = time.perf_counter()
        out = model(token[:, None], past_key_values=past)
        past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
        steps.append(time.perf_counter() - begin)
    return batch / median(steps)


serve("transformers", run)
