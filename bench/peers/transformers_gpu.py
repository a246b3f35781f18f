"""Measures transformers on a GPU, in the cases of transformers_cpu.py.

    transformers_gpu.py DIR|random DTYPE-eager|DTYPE-sdpa|DTYPE-compile

-compile: decodes with torch.compile in mode "reduce-overhead" (CUDA graphs) and a static cache. It has no prefill cases."""
import sys
import time

import torch
from transformers import StaticCache
from work import PROMPT, gpt2, long_prompt, median, serve

if not torch.cuda.is_available():
    sys.exit("torch sees no CUDA device")
dtype, kind = sys.argv[2].split("-")
attention = "eager" if kind == "eager" else "sdpa"
torch.manual_seed(1234)
model = gpt2(sys.argv[1], attn_implementation=attention, dtype=getattr(torch, dtype)).eval().to("cuda")
torch._dynamo.config.recompile_limit = 64  # one graph per batch and length
step = torch.compile(model.forward, mode="reduce-overhead", dynamic=False) if kind == "compile" else model.forward
caches = {}  # by batch and length, because a graph reads the cache that it was made with


def static_cache(batch, length):
    if (batch, length) not in caches:
        caches[batch, length] = StaticCache(config=model.config, max_cache_len=length)
    caches[batch, length].reset()
    return caches[batch, length]


def steps_of(batch, count, prompt):
    """Seconds of each step after the first, which reads the prompts. A step ends when its tokens are on the host."""
    past = static_cache(batch, len(prompt) + count) if kind == "compile" else None
    positions = torch.arange(len(prompt) + count, device="cuda")
    out = model(torch.tensor([prompt] * batch, device="cuda"), past_key_values=past, use_cache=True, logits_to_keep=1)
    past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
    for i in range(len(prompt), len(prompt) + count - 1):
        own = {"cache_position": positions[i:i + 1]} if kind == "compile" else {}
        torch.cuda.synchronize()
        begin = time.perf_counter()
        out = step(token[:, None], past_key_values=past, **own)
        past, token = out.past_key_values, out.logits[:, -1].argmax(-1).clone()
        token.tolist()
        yield time.perf_counter() - begin


@torch.no_grad()
def run(case, batch, tokens, context=0):
    if case == "prefill":
        x = torch.tensor([long_prompt(tokens)] * batch, device="cuda")
        model(x, logits_to_keep=1)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model(x, logits_to_keep=1).logits.argmax(-1).tolist()
        return batch * tokens / (time.perf_counter() - begin)
    prompt = long_prompt(context) if context else PROMPT
    list(steps_of(batch, tokens, prompt))  # warm-up: compiles and records the graphs
    return batch / median(list(steps_of(batch, tokens, prompt)))


serve("transformers", sys.argv[2], run)
