"""Writes SmolLM2-135M-Instruct as a folder of Hugging Face in float32, and two random LoRA adapters, for the servers of docs/scoreboard.md.

    python bench/peers/make_smollm2.py OUT [GGUF]

Needs torch, transformers, gguf and peft. GGUF is the file that scripts/get-model fetches; its Q4_1 weights are decoded, so that all
servers have the same weights. The adapters are OUT/adapters/one and OUT/adapters/two, rank 8, with both factors random.
"""
import pathlib
import subprocess
import sys

import peft
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    out = pathlib.Path(sys.argv[1])
    gguf = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(subprocess.run(
        [sys.executable, ROOT / "scripts" / "get-model", "smollm2"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    model.save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(**source).save_pretrained(out)
    for seed, name in enumerate(("one", "two")):
        torch.manual_seed(seed)
        config = peft.LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
        adapted = peft.get_peft_model(model, config)
        for key, parameter in adapted.named_parameters():
            if "lora_" in key:
                parameter.data.normal_(0, 0.05)
        adapted.save_pretrained(out / "adapters" / name)
        model = adapted.unload()


if __name__ == "__main__":
    main()
