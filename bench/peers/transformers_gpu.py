"""transformers on a GPU: transformers_gpu.py DIR|random DTYPE-eager|DTYPE-sdpa|DTYPE-compile. As transformers_cpu.py; -compile:
torch.compile with mode "reduce-overhead" (CUDA graphs) over a static cache."""
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, StaticCache
from work import PROMPT, long_prompt, median, serve

if not torch.cuda.is_available():
    sys.exit("torch sees no CUDA device")
dtype, kind = sys.argv[2].split("-")
attention = "eager" if kind == "eager" else "sdpa"
if sys.argv[1] == "random":
    torch.manual_seed(1234)
    model = GPT2LMHeadModel._from_config(GPT2Config(n_ctx=1024), attn_implementation=attention, dtype=getattr(torch, dtype))
else:
    model = GPT2LMHeadModel.from_pretrained(sys.argv[1], attn_implementation=attention, dtype=getattr(torch, dtype))
model = model.eval().to("cuda")
step = torch.compile(model.forward, mode="reduce-overhead", fullgraph=True) if kind == "compile" else model.forward


def steps_of(batch, count, prompt):
    """Seconds of each step behind the first, which reads the prompts. Each ends when its tokens are on the host."""
    past = StaticCache(config=model.config, max_cache_len=len(prompt) + count) if kind == "compile" else None
    out = model(torch.tensor([prompt] * batch, device="cuda"), past_key_values=past, use_cache=True)
    past, token = out.past_key_values, out.logits[:, -1].argmax(-1)
    for i in range(count - 1):
        begin = time.perf_counter()
        position = torch.tensor([len(prompt) + i], device="cuda")
        out = step(token[:, None], past_key_values=past, cache_position=position)
        past, token = out.past_key_values, out.logits[:, -1].argmax(-1).clone()
        token.tolist()
        yield time.perf_counter() - begin


@torch.no_grad()
def run(case, batch, tokens, context=0):
    if case == "prefill":
        x = torch.tensor([long_prompt(tokens)], device="cuda")
        model(x, logits_to_keep=1)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model(x, logits_to_keep=1).logits.argmax(-1).tolist()
        return tokens / (time.perf_counter() - begin)
    prompt = long_prompt(context) if context else PROMPT
    list(steps_of(batch, 8, prompt))  # compiled, and its graph recorded
    return batch / median(list(steps_of(batch, tokens, prompt)))


serve("transformers", sys.argv[2], run)
