"""Writes SmolLM2-135M-Instruct as a folder of Hugging Face in float32, and two random LoRA adapters, for the servers of docs/scoreboard.md.

    python bench/peers/make_smollm2.py OUT [GGUF]

Needs torch, transformers, gguf and peft. GGUF is the file that scripts/get-model fetches; its Q4_1 weights are decoded, so that all
servers have the same weights. The adapters are OUT/adapters/one and OUT/adapters/two, rank 8, with both factors random.
"""
import pathlib
import subprocess
import sys

import gguf
import peft
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tokenizer_of(path):
    """SmolLM2's tokenizer from the file's vocabulary: each digit alone, then ByteLevel. transformers' own conversion splits other tokens."""
    reader = gguf.GGUFReader(path)
    read = lambda key: reader.fields["tokenizer." + key].contents()
    names, kinds = read("ggml.tokens"), read("ggml.token_type")
    out = tokenizers.Tokenizer(tokenizers.models.BPE({name: i for i, name in enumerate(names)},
                                                     [tuple(merge.split(" ")) for merge in read("ggml.merges")]))
    pre = tokenizers.pre_tokenizers
    out.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    out.decoder = tokenizers.decoders.ByteLevel()
    out.add_special_tokens([tokenizers.AddedToken(name, normalized=False, special=True) for name, kind in zip(names, kinds) if kind == 3])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=out, bos_token=names[read("ggml.bos_token_id")], eos_token=names[read("ggml.eos_token_id")],
        pad_token=names[read("ggml.eos_token_id")], clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"])
    fast.chat_template = read("chat_template")
    return fast


def main():
    out = pathlib.Path(sys.argv[1])
    path = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else pathlib.Path(subprocess.run(
        [sys.executable, ROOT / "scripts" / "get-model", "smollm2"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
    model = transformers.AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=torch.float32)
    model.save_pretrained(out)
    tokenizer_of(path).save_pretrained(out)
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
