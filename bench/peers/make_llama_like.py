"""Writes a model of Llama's kind with random weights (seed 1234): make_llama_like.py OUT qwen3-0.6b|smollm2-135m

- config.json and model.safetensors (bfloat16) are for tenon and transformers.
- bf16.gguf, q8_0.gguf and q4_0.gguf are for llama.cpp. They have no vocabulary, since peers are given ids.

As in make_gpt2.py, every matrix of a GGUF file has the file's type, and the tied matrix is stored twice, so that llama.cpp can choose
the layout of the output.
"""
import json
import os
import sys

import gguf
import gguf.quants
import numpy
import torch
from safetensors.torch import save_file

SHAPES = {
    "qwen3-0.6b": {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 1024, "num_hidden_layers": 28,
                   "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "rope_theta": 1000000,
                   "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "tie_word_embeddings": True},
    "smollm2-135m": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
                     "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "intermediate_size": 1536, "rope_theta": 100000,
                     "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}}


def tensors(c):
    """(name in the checkpoint, name in GGUF, shape), norms with one dimension."""
    d, q, kv, inner = c["hidden_size"], c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"], c["intermediate_size"]
    yield "model.embed_tokens.weight", "token_embd.weight", (c["vocab_size"], d)
    yield "model.norm.weight", "output_norm.weight", (d,)
    for layer in range(c["num_hidden_layers"]):
        theirs, ours = f"model.layers.{layer}.", f"blk.{layer}."
        yield theirs + "input_layernorm.weight", ours + "attn_norm.weight", (d,)
        yield theirs + "post_attention_layernorm.weight", ours + "ffn_norm.weight", (d,)
        if c["model_type"] == "qwen3":
            yield theirs + "self_attn.q_norm.weight", ours + "attn_q_norm.weight", (c["head_dim"],)
            yield theirs + "self_attn.k_norm.weight", ours + "attn_k_norm.weight", (c["head_dim"],)
        yield theirs + "self_attn.q_proj.weight", ours + "attn_q.weight", (q, d)
        yield theirs + "self_attn.k_proj.weight", ours + "attn_k.weight", (kv, d)
        yield theirs + "self_attn.v_proj.weight", ours + "attn_v.weight", (kv, d)
        yield theirs + "self_attn.o_proj.weight", ours + "attn_output.weight", (d, q)
        yield theirs + "mlp.gate_proj.weight", ours + "ffn_gate.weight", (inner, d)
        yield theirs + "mlp.up_proj.weight", ours + "ffn_up.weight", (inner, d)
        yield theirs + "mlp.down_proj.weight", ours + "ffn_down.weight", (d, inner)


def write_gguf(path, form, c, weights):
    kind = gguf.GGMLQuantizationType[form]
    w = gguf.GGUFWriter(path, c["model_type"])
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_key_length(c["head_dim"])
    w.add_value_length(c["head_dim"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_freq_base(c["rope_theta"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_vocab_size(c["vocab_size"])
    w.add_file_type(gguf.LlamaFileType["MOSTLY_" + form])
    w.add_tokenizer_model("none")
    for name, values in weights.items():
        for stored in [name, "output.weight"] if name == "token_embd.weight" else [name]:
            if values.ndim < 2:
                w.add_tensor(stored, values)
            else:
                w.add_tensor(stored, gguf.quants.quantize(values, kind), raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    out, c = sys.argv[1], SHAPES[sys.argv[2]]
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "config.json"), "w", encoding="utf-8") as file:
        json.dump(c, file, indent=1)
    random, checkpoint, weights = numpy.random.default_rng(1234), {}, {}
    for theirs, ours, shape in tensors(c):
        values = torch.ones(shape) if len(shape) == 1 else torch.from_numpy(random.standard_normal(shape, dtype=numpy.float32) * numpy.float32(0.02))
        checkpoint[theirs] = values.bfloat16()
        weights[ours] = checkpoint[theirs].float().numpy()
    save_file(checkpoint, os.path.join(out, "model.safetensors"), {"format": "pt"})
    for form in ("BF16", "Q8_0", "Q4_0"):
        write_gguf(os.path.join(out, form.lower() + ".gguf"), form, c, weights)


if __name__ == "__main__":
    main()
