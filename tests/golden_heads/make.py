#!/usr/bin/env python3
"""Makes the checkpoints and adapters of this folder, and the answers of transformers and PEFT.

    make.py [CASE ...]     needs transformers 4.57.6, peft 0.21.2 and torch; writes CASE/{config.json,model.safetensors,expected.json,adapters/}

Weights are random, rounded to bfloat16, stored in it, and run in float32. Each text is computed alone, without padding or a mask.
expected.json has {"kind": "sequence_classification", "rows": [{"input_ids", "logits", "label"}]} or {"kind": "embedding", "rows":
[{"input_ids", "last_token", "mean"}]}, and the same rows for each adapter under "adapters".
"""
import json
import os
import sys

import peft
import safetensors.torch
import torch
import transformers
from transformers import (AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification, GPT2Config, LlamaConfig, MistralConfig,
                          OPTConfig, Phi3Config, Qwen2Config, Qwen3Config)

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, PAD = 61, 58
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=96, rms_norm_eps=1e-5, bos_token_id=59, eos_token_id=60)
GPT2 = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=96, bos_token_id=59, eos_token_id=60)
LABELS = {"id2label": {0: "bad", 1: "good", 2: "neither"}, "label2id": {"bad": 0, "good": 1, "neither": 2}}
TEXTS = [[7, 3, 44, 12, 9], [21], [5, 6, 7, 8, PAD, PAD], [PAD, PAD, 30, 31, PAD, 32, PAD], [PAD, PAD],
         [(11 * i + 3) % 57 for i in range(40)]]

CLASSIFY, EMBED = AutoModelForSequenceClassification, AutoModel
# name: class of the base, its config, task of the answers, adapters {name: arguments of LoraConfig}
CASES = {
    "gpt2": (CLASSIFY, GPT2Config(**GPT2, **LABELS, pad_token_id=PAD), CLASSIFY, {}),
    "llama": (CLASSIFY, LlamaConfig(**LLAMA, **LABELS, pad_token_id=PAD), CLASSIFY, {}),
    "mistral_reward": (CLASSIFY, MistralConfig(**LLAMA, num_labels=1, sliding_window=7, pad_token_id=PAD), CLASSIFY, {}),
    "qwen2_two_labels": (CLASSIFY, Qwen2Config(**LLAMA), CLASSIFY, {}),
    "qwen3_tied": (CLASSIFY, Qwen3Config(**LLAMA, **LABELS, head_dim=8, tie_word_embeddings=True), CLASSIFY, {}),
    "opt_projected": (CLASSIFY, OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=40,
                                          word_embed_proj_dim=20, do_layer_norm_before=False, max_position_embeddings=96,
                                          pad_token_id=PAD, **LABELS), CLASSIFY, {}),
    "phi3": (CLASSIFY, Phi3Config(**LLAMA, **LABELS, pad_token_id=PAD), CLASSIFY, {}),
    "mistral_bare": (EMBED, MistralConfig(**LLAMA, sliding_window=None), EMBED, {}),
    "qwen3_bare": (EMBED, Qwen3Config(**LLAMA, head_dim=8, tie_word_embeddings=True), EMBED, {}),
}


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            spread = 0.1 if "norm" in name or "ln_" in name or name.endswith("bias") else 0.3
            centre = 1.0 if ("norm" in name or "ln_" in name) and name.endswith("weight") else 0.0
            p.copy_((centre + spread * torch.randn(p.shape, generator=generator)).bfloat16().float())


def rows_of(model, task):
    rows = []
    for ids in TEXTS:
        with torch.no_grad():
            out = model(torch.tensor([ids]))
        if task is CLASSIFY:
            logits = out.logits[0]
            rows.append({"input_ids": ids, "logits": logits.tolist(), "label": int(logits.argmax())})
        else:
            hidden = out.last_hidden_state[0]
            rows.append({"input_ids": ids, "last_token": hidden[-1].tolist(), "mean": hidden.double().mean(0).tolist()})
    return rows


def bfloat16_file(path):
    tensors = {k: v.bfloat16().contiguous() for k, v in safetensors.torch.load_file(path).items()}
    safetensors.torch.save_file(tensors, path, {"format": "pt"})


def make(name):
    kind, config, task, adapters = CASES[name]
    folder = os.path.join(HERE, name)
    torch.manual_seed(1)
    config._attn_implementation = "eager"
    model = kind.from_config(config).eval().float()
    randomise(model, 7)
    model.save_pretrained(folder)
    bfloat16_file(os.path.join(folder, "model.safetensors"))
    expected = {"kind": "sequence_classification" if task is CLASSIFY else "embedding"}
    if not adapters or task is EMBED:
        expected["rows"] = rows_of(model, task)
    for number, (adapter, arguments) in enumerate(adapters.items()):
        arguments = dict(arguments)
        labels = arguments.pop("num_labels", None)
        extra = {} if labels is None else {"num_labels": labels}
        base = task.from_pretrained(folder, attn_implementation="eager", **extra).eval().float()
        wrapped = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=5, **arguments)).eval()
        generator = torch.Generator().manual_seed(20 + number)
        with torch.no_grad():
            for parameter_name, p in wrapped.named_parameters():
                if "lora_" in parameter_name or "score.modules_to_save" in parameter_name:
                    p.copy_((0.3 * torch.randn(p.shape, generator=generator)).bfloat16().float())
        target = os.path.join(folder, "adapters", adapter)
        wrapped.save_pretrained(target)
        if os.path.exists(os.path.join(target, "README.md")):
            os.remove(os.path.join(target, "README.md"))
        bfloat16_file(os.path.join(target, "adapter_model.safetensors"))
        expected.setdefault("adapters", {})[adapter] = rows_of(wrapped, task)
    with open(os.path.join(folder, "expected.json"), "w") as out:
        json.dump(expected, out)
    print(name, transformers.__version__, peft.__version__)


for case in sys.argv[1:] or CASES:
    make(case)
