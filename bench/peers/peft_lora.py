"""PEFT: peft_lora.py DIR|random DTYPE[-cuda]. Decodes batches whose rows have different adapters on c_attn (adapter_names). Rates are from the median time of a whole step."""
import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from work import PROMPT, THREADS, gpt2, median, serve

torch.set_num_threads(THREADS)
dtype, _, device = sys.argv[2].partition("-")
device = device or "cpu"
wait = torch.cuda.synchronize if device == "cuda" else lambda: None
MIXED = [4] * 2 + [8] * 21 + [16] * 5 + [64] * 4  # ranks; their sum is that of 32 adapters of rank 16


def config(rank):
    return LoraConfig(r=rank, lora_alpha=16, target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False,
                      task_type="CAUSAL_LM")


model = get_peft_model(gpt2(sys.argv[1], dtype=getattr(torch, dtype)).to(device), config(16), adapter_name="0-16")
known = {"0-16"}


def adapter(which, rank):
    name = f"{which}-{rank}"
    if name not in known:
        model.add_adapter(name, config(rank))
        known.add(name)
    return name


def names_of(kind, batch):
    of_row = {"none": lambda i: "__base__",
              "shared": lambda i: adapter(0, 16),
              "distinct": lambda i: adapter(i, 16),
              "mixed": lambda i: adapter(i, MIXED[i % 32]),
              "one": lambda i: "__base__" if i else adapter(0, 16)}[kind]
    return [of_row(i) for i in range(batch)]


@torch.no_grad()
def run(case, batch, tokens):
    names = names_of(case, batch)
    model.eval()
    out = model(torch.tensor([PROMPT] * batch, device=device), adapter_names=names, use_cache=True)
    seconds = []
    for _ in range(tokens - 1):
        token = out.logits[:, -1].argmax(-1)
        wait()
        begin = time.perf_counter()
        out = model(token[:, None], past_key_values=out.past_key_values, adapter_names=names, use_cache=True)
        wait()
        seconds.append(time.perf_counter() - begin)
    return batch / median(seconds)


serve("peft", sys.argv[2], run)
