#!/usr/bin/env python3
"""Writes gguf_experts/: mixtures of experts in GGUF files, with the weights and logits that transformers has for the same models.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0 torch==2.15.0 transformers==4.57.6
    VENV/bin/python tests/model/make_gguf_experts.py

make_gguf_experts.py NAME ... writes these files alone.

Names are gguf-py's. Keys, stacks and orders are those of llama.cpp's converter (conversion/base.py, llama.py, qwen.py, gpt_oss.py of
llama-cpp-python 0.3.36). Each <architecture>.json has:
    config       config.json of transformers
    weights      tensor: SHA-256 of its float32 values; what was quantised is decoded by gguf-py
    ids, logits  input tokens, and the last row of transformers' logits in float32 with these weights
"""
import hashlib
import json
import pathlib
import re
import sys

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

OUT = pathlib.Path(__file__).resolve().parent / "gguf_experts"
IDS = [3, 17, 40, 5, 5, 61, 22, 9, 33, 12]
SIZES = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
             max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=False)
# For each file: the architecture, the fields, and the types of the matrices of experts (gate, up, down) and of the others.
CASES = {
    "llama": ("llama", dict(model_type="mixtral", intermediate_size=64, num_local_experts=3, num_experts_per_tok=2, sliding_window=None),
              ("Q4_0", "Q4_0", "Q8_0"), "F16"),
    "llama_one_tensor_each": ("llama", dict(model_type="mixtral", intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
                                            sliding_window=None), ("Q5_0", "Q8_0", "MXFP4"), "Q8_0"),
    "olmoe": ("olmoe", dict(model_type="olmoe", num_key_value_heads=4, intermediate_size=32, num_experts=4, num_experts_per_tok=2,
                            norm_topk_prob=False), ("Q8_0", "Q4_1", "Q5_1"), "F32"),
    "qwen3moe": ("qwen3moe", dict(model_type="qwen3_moe", intermediate_size=64, moe_intermediate_size=32, num_experts=4,
                                  num_experts_per_tok=3, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[0], head_dim=16),
                 ("Q4_0", "MXFP4", "Q8_0"), "F16"),
    "qwen3moe_one_expert": ("qwen3moe", dict(model_type="qwen3_moe", intermediate_size=64, moe_intermediate_size=32, num_experts=1,
                                             num_experts_per_tok=1, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[]),
                            ("Q8_0", "Q8_0", "Q8_0"), "F16"),
    "gpt-oss": ("gpt-oss", dict(model_type="gpt_oss", intermediate_size=32, num_local_experts=3, num_experts_per_tok=2, sliding_window=4,
                                attention_bias=True, swiglu_limit=7.0, rope_theta=150000, layer_types=["sliding_attention", "full_attention"],
                                rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                                  original_max_position_embeddings=16)),
                ("MXFP4", "MXFP4", "MXFP4"), "F32"),
    "gpt-oss_mixed": ("gpt-oss", dict(model_type="gpt_oss", intermediate_size=32, num_local_experts=2, num_experts_per_tok=1, sliding_window=4,
                                      attention_bias=True, swiglu_limit=7.0, rope_theta=150000,
                                      layer_types=["sliding_attention", "full_attention"],
                                      rope_scaling=dict(rope_type="yarn", factor=2.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                                        original_max_position_embeddings=32)),
                      ("F32", "Q8_0", "F16"), "F16"),
    "qwen2moe": ("qwen2moe", dict(model_type="qwen2_moe", intermediate_size=64, moe_intermediate_size=32, num_experts=4,
                                  num_experts_per_tok=2, norm_topk_prob=False, shared_expert_intermediate_size=96, mlp_only_layers=[]),
                 ("Q4_0", "Q8_0", "Q8_0"), "F16"),
    # With transformers 5.24.0 alone.
    "lfm2moe": ("lfm2moe", dict(model_type="lfm2_moe", intermediate_size=64, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2,
                                num_dense_layers=1, layer_types=["conv", "full_attention"], tie_word_embeddings=True), ("Q4_0", "Q8_0", "Q8_0"), "F16"),
}
KINDS = {"gate": 0, "up": 1, "down": 2}
ARCHITECTURES = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
W = {"w1": "gate", "w3": "up", "w2": "down"}


def encoded(values, name):
    """The bytes of a type, and the values that gguf-py decodes from them."""
    kind = gguf.GGMLQuantizationType[name]
    data = gguf.quantize(values, kind)
    return data, gguf.dequantize(data, kind).reshape(values.shape).astype(np.float32), kind


def permuted(weights, heads):
    """LlamaModel.permute"""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


def metadata(writer, architecture, fields):
    config = AutoConfig.for_model(**fields)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    if architecture == "lfm2moe":
        writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in config.layer_types])
        writer.add_layer_norm_rms_eps(config.norm_eps)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_leading_dense_block_count(config.num_dense_layers)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_vocab_size(config.vocab_size)
        writer.add_shortconv_l_cache(config.conv_L_cache)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(1e-5 if architecture == "olmoe" else config.rms_norm_eps)
        writer.add_rope_freq_base(config.rope_theta)
    writer.add_expert_count(fields.get("num_local_experts", fields.get("num_experts")))
    writer.add_expert_used_count(fields["num_experts_per_tok"])
    writer.add_key_length(fields["head_dim"])
    writer.add_value_length(fields["head_dim"])
    if architecture == "llama":
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(fields["head_dim"])
    if architecture in ("qwen2moe", "qwen3moe"):
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if architecture == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if architecture == "gpt-oss":
        scaling = fields["rope_scaling"]
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(scaling["factor"])
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(scaling["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(scaling["beta_slow"])
        writer.add_sliding_window(fields["sliding_window"])
        writer.add_expert_feed_forward_length(config.intermediate_size)


def apart(state):
    """A state dict of transformers 5, whose LFM2 has one tensor for all experts, with the names of files."""
    out = {}
    for key, value in state.items():
        stem, part = key.rsplit(".", 1)
        if not stem.endswith("feed_forward.experts"):
            out[key] = value
            continue
        names = ("w1", "w3") if part == "gate_up_proj" else ("w2",)
        for expert, each in enumerate(value):
            out.update({f"{stem}.{expert}.{name}.weight": rows for name, rows in zip(names, each.chunk(len(names)))})
    return out


def together(weights):
    """The inverse."""
    out, stacks = {}, {}
    for key, value in weights.items():
        found = re.fullmatch(r"(.*feed_forward\.experts)\.(\d+)\.(w\d)\.weight", key)
        if found:
            stacks.setdefault(found[1], {})[int(found[2]), found[3]] = value
        else:
            out[key] = value
    for stem, parts in stacks.items():
        experts = range(len(parts) // 3)
        out[stem + ".gate_up_proj"] = torch.stack([torch.cat([parts[e, "w1"], parts[e, "w3"]]) for e in experts])
        out[stem + ".down_proj"] = torch.stack([parts[e, "w2"] for e in experts])
    return out


class File:
    """A GGUF file that is written, and the weights of transformers that it stands for."""

    def __init__(self, name, architecture, model, fields, expert_kinds, kind):
        self.architecture, self.fields, self.expert_kinds, self.kind = architecture, fields, expert_kinds, kind
        self.names = gguf.get_tensor_name_map(ARCHITECTURES[architecture], fields["num_hidden_layers"])
        self.apart = name.endswith("one_tensor_each")
        self.writer = gguf.GGUFWriter(str(OUT / (name + ".gguf")), architecture)
        metadata(self.writer, architecture, fields)
        self.weights, stacks = {}, {}
        for key, value in apart(model.state_dict()).items():
            if "rotary_emb" in key or (key == "lm_head.weight" and fields["tie_word_embeddings"]):
                continue
            value = value.numpy()
            found = re.fullmatch(r"model\.layers\.(\d+)\.\w+\.experts\.(\d+)\.(\w+)\.weight", key)
            if found:
                part = W.get(found[3], found[3].removesuffix("_proj"))
                stacks.setdefault((int(found[1]), part), []).append((key, value))
            elif ".experts." in key:
                self.add_stacked(key, value)
            else:
                self.add_plain(key, value)
        for (layer, part), list_ in stacks.items():
            self.add_experts(layer, part, list_)
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    def write(self, name, values, kind):
        data, decoded, kind = encoded(np.ascontiguousarray(values), kind)
        self.writer.add_tensor(name, data, raw_dtype=None if kind.name in ("F32", "F16") else kind)
        return decoded

    def add_plain(self, key, value):
        heads = {"q_proj": self.fields["num_attention_heads"], "k_proj": self.fields["num_key_value_heads"]}
        turned = next((count for part, count in heads.items() if part in key), 0) if self.architecture == "llama" else 0
        name = key + ".weight" if key.endswith("sinks") else key + ".bias" if key.endswith("expert_bias") else key
        stored = self.names.get_name(name, try_suffixes=(".weight", ".bias"))
        dense = re.fullmatch(r"model\.layers\.(\d+)\.mlp\.(gate|up|down)_proj\.weight", key)
        if dense and not stored:  # gguf-py has no qwen3moe with layers without experts, which transformers has
            stored = f"blk.{dense[1]}.ffn_{dense[2]}.weight"
        if key.endswith("conv.conv.weight"):
            self.weights[key] = self.write(stored, value.squeeze(1), "F32").reshape(value.shape)
            return
        kind = self.kind if value.ndim == 2 and "ffn_gate_inp" not in stored else "F32"
        decoded = self.write(stored, permuted(value, turned) if turned else value, kind)
        if turned:  # the inverse of the permutation
            rows = permuted(np.arange(value.shape[0])[:, None], turned)[:, 0]
            plain = np.empty_like(decoded)
            plain[rows] = decoded
            decoded = plain
        self.weights[key] = decoded

    def add_experts(self, layer, part, list_):
        kind = self.expert_kinds[KINDS[part]]
        if self.apart:
            for expert, (key, value) in enumerate(list_):
                self.weights[key] = self.write(f"blk.{layer}.ffn_{part}.{expert}.weight", value, kind)
            return
        decoded = self.write(f"blk.{layer}.ffn_{part}_exps.weight", np.stack([value for _, value in list_]), kind)
        for (key, _), each in zip(list_, decoded):
            self.weights[key] = each

    def add_stacked(self, key, value):
        layer, bias = key.split(".")[2], key.endswith("_bias")
        suffix = "bias" if bias else "weight"
        rows = value if bias else value.transpose(0, 2, 1)
        parts = {"down": rows} if "down_proj" in key else {"gate": rows[:, ::2], "up": rows[:, 1::2]}
        out = np.empty(rows.shape, np.float32)
        for i, (part, each) in enumerate(parts.items()):
            out[:, i::len(parts)] = self.write(f"blk.{layer}.ffn_{part}_exps.{suffix}", each, "F32" if bias else self.expert_kinds[KINDS[part]])
        self.weights[key] = out if bias else out.transpose(0, 2, 1)


def main():
    OUT.mkdir(exist_ok=True)
    for at, (name, (architecture, more, expert_kinds, kind)) in enumerate(CASES.items()):
        if name not in (sys.argv[1:] or CASES):
            continue
        fields = dict(SIZES, **more)
        torch.manual_seed(100 + at)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields), attn_implementation="eager").eval()
        with torch.no_grad():
            for key, value in model.named_parameters():
                value.copy_(torch.randn_like(value) * (0.3 if value.ndim > 1 else 0.1) + (1.0 if "norm" in key else 0.0))
            for key, value in model.named_buffers():
                if key.endswith("expert_bias"):
                    value.copy_(torch.randn_like(value) * 0.2)
        file = File(name, architecture, model, fields, expert_kinds, kind)
        weights = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in file.weights.items()}
        missing = model.load_state_dict(together(weights), strict=False).missing_keys
        assert not [key for key in missing if "rotary" not in key and key != "lm_head.weight"], missing
        with torch.no_grad():
            logits = model(torch.tensor([IDS])).logits[0, -1].tolist()
        digests = {key: hashlib.sha256(value.numpy().tobytes()).hexdigest() for key, value in sorted(weights.items())}
        (OUT / (name + ".json")).write_text(json.dumps(dict(config=fields, weights=digests, ids=IDS, logits=logits), indent=1) + "\n")
        size = (OUT / (name + ".gguf")).stat().st_size
        assert size <= 100 * 1024, (name, size)
        print(name, size, "bytes,", len(weights), "tensors")


if __name__ == "__main__":
    main()
