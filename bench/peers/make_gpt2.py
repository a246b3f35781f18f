"""Writes GPT-2 124M with random weights (seed 1234): make_gpt2.py OUT [--copying]

- config.json and model.safetensors are for tenon and transformers.
- vocab.json and merges.txt are a placeholder vocabulary of 50,257 entries that the peers' converters need. It never encodes text.
- f32.gguf, bf16.gguf, q8_0.gguf and q4_0.gguf are for llama.cpp, with its tensor names for GPT-2.

With --copying, the first two layers are set so that the model copies: it goes on as the text went on after the latest three tokens
occurred before. The other layers add nothing. It costs what GPT-2 costs, and its answers repeat parts of the prompt, as those of a
trained model do that is asked to edit or to quote. It has no GGUF files.

Every matrix of a GGUF file, token_embd and output included, has the file's type, quantised by the gguf package. `llama-quantize
--pure` does the same; without --pure it would store the output of a Q4_0 file as Q6_K, which is slower. Positions, biases and norms
stay float32, as llama-quantize leaves them. The tied matrix is stored twice, so that llama.cpp can choose the layout of the output.
"""
import json
import os
import sys

import gguf
import gguf.quants
import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCAB = 50257


def bytes_to_unicode():
    """GPT-2's printable characters for the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return [chr(b) for b in shown] + [chr(256 + i) for i in range(len(hidden))]


def stand_in_vocabulary():
    letters = bytes_to_unicode()
    tokens, merges = list(letters), []
    for a in letters:
        for b in letters:
            if len(tokens) == VOCAB - 1:
                return tokens + ["<|endoftext|>"], merges
            tokens.append(a + b)
            merges.append(f"{a} {b}")
    raise AssertionError("256 x 256 pairs are more than enough")


def write_gguf(path, form, model, tokens, merges):
    c, kind = model.config, gguf.GGMLQuantizationType[form]
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_name("gpt2-124m-random")
    w.add_block_count(c.n_layer)
    w.add_context_length(c.n_positions)
    w.add_embedding_length(c.n_embd)
    w.add_feed_forward_length(4 * c.n_embd)
    w.add_head_count(c.n_head)
    w.add_layer_norm_eps(c.layer_norm_epsilon)
    w.add_file_type(gguf.LlamaFileType["ALL_F32" if form == "F32" else "MOSTLY_" + form])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.NORMAL] * (VOCAB - 1) + [gguf.TokenType.CONTROL])
    w.add_token_merges(merges)
    w.add_bos_token_id(VOCAB - 1)
    w.add_eos_token_id(VOCAB - 1)
    t = {k: v.detach().float() for k, v in model.state_dict().items()}

    def add(name, tensor):
        values = tensor.contiguous().numpy()
        if form == "F32" or tensor.dim() < 2 or name.startswith("position_embd"):
            w.add_tensor(name, values)
        else:
            w.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", t["transformer.wte.weight"])
    add("output.weight", t["transformer.wte.weight"])
    add("position_embd.weight", t["transformer.wpe.weight"])
    add("output_norm.weight", t["transformer.ln_f.weight"])
    add("output_norm.bias", t["transformer.ln_f.bias"])
    parts = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for layer in range(c.n_layer):
        for theirs, ours in parts.items():
            weight = t[f"transformer.h.{layer}.{theirs}.weight"]
            add(f"blk.{layer}.{ours}.weight", weight.T if weight.dim() == 2 else weight)  # Conv1D is [in, out]
            add(f"blk.{layer}.{ours}.bias", t[f"transformer.h.{layer}.{theirs}.bias"])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


CODE, PART, PAIRS = 320, 20, 32  # dimensions of a token's code; of its part that is compared; sines and cosines of a position
BEFORE = [CODE + i * PART for i in range(3)]  # where layer 0 writes the parts of the codes of the three tokens before
POSITION = CODE + 3 * PART


def copy_tokens(model):
    """Sets the weights of an induction head over three tokens. Every vector is a sum of codes of -1 and 1, of which two of different
    tokens are nearly orthogonal; positions are angles, so that a rotation moves them."""
    t, width = model.transformer, model.config.n_embd
    head_dim = width // model.config.n_head
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.zero_()
        for norm in (t.ln_f, *(n for layer in t.h for n in (layer.ln_1, layer.ln_2))):
            norm.weight.fill_(1)
        for layer in t.h:
            layer.attn.c_proj.weight.zero_()
            layer.mlp.c_proj.weight.zero_()
        t.wte.weight.zero_()
        t.wte.weight[:, :CODE] = torch.randint(0, 2, (VOCAB, CODE)) * 2.0 - 1
        frequency = torch.rand(PAIRS) * torch.pi
        angles = torch.arange(model.config.n_positions)[:, None] * frequency
        t.wpe.weight.zero_()
        t.wpe.weight[:, POSITION:POSITION + PAIRS] = angles.cos()
        t.wpe.weight[:, POSITION + PAIRS:POSITION + 2 * PAIRS] = angles.sin()
        first, second = t.h[0].attn, t.h[1].attn
        for attention in (first, second):
            attention.c_attn.weight.zero_()  # [inputs, queries | keys | values]
        at = torch.arange(PAIRS)
        for i, to in enumerate(BEFORE):  # head i reads the token i + 1 positions before
            q, k, v = (part * width + i * head_dim for part in range(3))
            turn = frequency * (i + 1)
            first.c_attn.weight[POSITION + at, q + at] = 4 * turn.cos()
            first.c_attn.weight[POSITION + PAIRS + at, q + at] = 4 * turn.sin()
            first.c_attn.weight[POSITION + at, q + PAIRS + at] = -4 * turn.sin()
            first.c_attn.weight[POSITION + PAIRS + at, q + PAIRS + at] = 4 * turn.cos()
            first.c_attn.weight[POSITION + torch.arange(2 * PAIRS), k + torch.arange(2 * PAIRS)] = 4
            for d in range(PART):
                first.c_attn.weight[d, v + d] = 1
                first.c_proj.weight[i * head_dim + d, to + d] = 0.7  # takes the norm's scale back
        own = [0, *BEFORE]
        for i in range(CODE // head_dim):  # these heads read the same token, and copy a part of its code each
            q, k, v = (part * width + i * head_dim for part in range(3))
            for d in range(PART):
                for before in range(3):
                    second.c_attn.weight[own[before] + d, q + before * PART + d] = 4
                    second.c_attn.weight[own[before + 1] + d, k + before * PART + d] = 4
            for d in range(head_dim):
                second.c_attn.weight[i * head_dim + d, v + d] = 1
                second.c_proj.weight[i * head_dim + d, i * head_dim + d] = 4


def main():
    out, copying = sys.argv[1], "--copying" in sys.argv[2:]
    torch.manual_seed(1234)
    model = GPT2LMHeadModel(GPT2Config(n_ctx=1024)).eval()
    if copying:
        copy_tokens(model)
    model.save_pretrained(out)
    tokens, merges = stand_in_vocabulary()
    with open(os.path.join(out, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump({token: i for i, token in enumerate(tokens)}, f, ensure_ascii=False)
    with open(os.path.join(out, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "\n".join(merges) + "\n")
    for form in () if copying else ("F32", "BF16", "Q8_0", "Q4_0"):
        write_gguf(os.path.join(out, form.lower() + ".gguf"), form, model, tokens, merges)


if __name__ == "__main__":
    main()
