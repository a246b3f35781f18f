#!/usr/bin/env python3
"""Makes the checkpoints of this folder and transformers' answers.

    make.py [CASE ...]        needs transformers 4.57.6, torch and peft; writes CASE/{config.json,model.safetensors,expected.json}

With transformers 5.24.0 it makes the cases of families and fields that are new there: LFM2 with experts, Ministral 3, and windows of Qwen2-MoE.

Each checkpoint has random weights in the shapes of a family, a few thousand parameters. There is one case for each switch of
config.json that the library honours. Weights are rounded to bfloat16, stored in it, and run in float32.

expected.json has, for some prompts: the logits after some positions, the mean negative log-likelihood, and the greedy continuation.
The continuation comes from a cache that is fed token by token, and has the margin of each choice over the next one.
"""
import json
import os
import sys

import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import (ArceeConfig, AutoModelForCausalLM, AutoModelForImageTextToText, BloomConfig, Cohere2Config, CohereConfig, Ernie4_5_MoeConfig, Ernie4_5Config, Exaone4Config,
                          FalconConfig, Gemma3Config, Glm4Config, GlmConfig, GPTBigCodeConfig, GPTNeoConfig, GptOssConfig, GraniteMoeConfig, GraniteMoeHybridConfig,
                          HeliumConfig, HunYuanDenseV1Config, Idefics3Config, Lfm2Config, LlamaConfig, MinistralConfig, Mistral3Config, MistralConfig,
                          MixtralConfig, MptConfig, NemotronConfig, Olmo3Config, OlmoConfig, OlmoeConfig, OPTConfig, Qwen2_5_VLConfig, Qwen2Config, Qwen2MoeConfig, Qwen2VLConfig, Qwen3MoeConfig,
                          Qwen3VLConfig, SmolLM3Config, SmolVLMConfig)

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 61
LLAMA = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
TINY_VISION = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, image_size=8, patch_size=8)
LAYER_NORMS = {key: value for key, value in LLAMA.items() if key != "rms_norm_eps"}
LFM2 = dict(**{key: value for key, value in LLAMA.items() if key not in ("rms_norm_eps", "num_hidden_layers")}, norm_eps=1e-5,
            num_hidden_layers=3, pad_token_id=0)
GRANITE4 = dict(**LLAMA, layer_types=["attention"] * 2, num_local_experts=0, shared_intermediate_size=40, embedding_multiplier=3.0,
                attention_multiplier=0.2, residual_multiplier=0.7, logits_scaling=2.0, mamba_n_heads=4, mamba_d_state=8)
QWEN2_MOE = dict(**LLAMA, moe_intermediate_size=20, shared_expert_intermediate_size=44, num_experts=5, num_experts_per_tok=2)
BIGCODE = dict(vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=96, bos_token_id=1, eos_token_id=2)

CASES = {
    "llama_linear": LlamaConfig(**LLAMA, rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "llama_dynamic": LlamaConfig(**{**LLAMA, "max_position_embeddings": 32}, rope_scaling={"rope_type": "dynamic", "factor": 4.0}),
    "llama_llama3": LlamaConfig(**LLAMA, rope_theta=500.0, rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 24}),
    "llama_biases_tied": LlamaConfig(**LLAMA, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama_head_dim": LlamaConfig(**LLAMA, head_dim=12, hidden_act="gelu"),
    "mistral_no_window": MistralConfig(**LLAMA, sliding_window=None, head_dim=10),
    "mistral_window7": MistralConfig(**LLAMA, sliding_window=7),
    "gptbigcode_mha": GPTBigCodeConfig(**BIGCODE, multi_query=False),
    "gptbigcode_relu": GPTBigCodeConfig(**BIGCODE, n_inner=50, activation_function="relu", scale_attn_weights=False),
    "bloom_6_heads": BloomConfig(vocab_size=VOCAB, hidden_size=48, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2),
    "gpt_neo": GPTNeoConfig(vocab_size=VOCAB, hidden_size=32, num_layers=3, attention_types=[[["global", "local"], 1], [["local"], 1]],
                            num_heads=4, intermediate_size=40, window_size=6, max_position_embeddings=96, bos_token_id=1, eos_token_id=2),
    "granite4_rope": GraniteMoeHybridConfig(**GRANITE4, position_embedding_type="rope", tie_word_embeddings=True),
    "granite4_nope": GraniteMoeHybridConfig(**GRANITE4),
    "ernie45": Ernie4_5Config(**{**LLAMA, "rope_theta": 500.0}, head_dim=10, use_bias=True),
    "ernie45_moe": Ernie4_5_MoeConfig(**{**LLAMA, "num_hidden_layers": 3, "rope_theta": 500.0}, use_bias=True, moe_num_experts=6, moe_k=2,
                                      moe_intermediate_size=20, moe_num_shared_experts=2, moe_layer_start_index=1, moe_norm_min=0.8),
    "exaone4": Exaone4Config(**LLAMA, sliding_window=None, layer_types=["full_attention"] * 2),
    "exaone4_window": Exaone4Config(**LLAMA, sliding_window=7, layer_types=["sliding_attention", "full_attention"]),
    "qwen2": Qwen2Config(**LLAMA, tie_word_embeddings=True),
    "mixtral_window7": MixtralConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=2, sliding_window=7),
    "olmoe_normalised": OlmoeConfig(**LLAMA, num_experts=6, num_experts_per_tok=2, norm_topk_prob=True),
    "qwen3_moe_sparse": Qwen3MoeConfig(**LLAMA, head_dim=10, moe_intermediate_size=20, num_experts=5, num_experts_per_tok=3,
                                       norm_topk_prob=False, decoder_sparse_step=2),
    "qwen2_moe": Qwen2MoeConfig(**QWEN2_MOE, decoder_sparse_step=1, mlp_only_layers=[0]),
    "gpt_oss": GptOssConfig(**LLAMA, head_dim=10, num_local_experts=4, num_experts_per_tok=2, sliding_window=7, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 32}),
    "granitemoe": GraniteMoeConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=2, embedding_multiplier=3.0, attention_multiplier=0.2,
                                   residual_multiplier=0.7, logits_scaling=2.0, tie_word_embeddings=True),
    "mixtral_relu": MixtralConfig(**LLAMA, num_local_experts=4, num_experts_per_tok=2, hidden_act="relu"),
    "cohere_norms": CohereConfig(**{**LLAMA, "num_key_value_heads": 1}, use_qk_norm=True),  # weights [4, 8] and [1, 8]
    "smollm3_layer_types": SmolLM3Config(**LLAMA, pad_token_id=0, use_sliding_window=False, sliding_window=7, no_rope_layers=[0, 1],
                                         layer_types=["sliding_attention", "full_attention"]),
    "ministral": MinistralConfig(**LLAMA, head_dim=8, sliding_window=7, layer_types=["sliding_attention", "full_attention"]),
    "olmo3": Olmo3Config(**LLAMA, pad_token_id=0, sliding_window=7, layer_types=["sliding_attention", "full_attention"], rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    "cohere2": Cohere2Config(**LAYER_NORMS, pad_token_id=0, sliding_window=7, layer_types=["sliding_attention", "full_attention"]),
    "glm": GlmConfig(**LLAMA, pad_token_id=0, head_dim=12),
    "glm4": Glm4Config(**LLAMA, pad_token_id=0, head_dim=8, attention_bias=False),
    "nemotron": NemotronConfig(**LAYER_NORMS, head_dim=12, attention_bias=True, mlp_bias=True),
    "arcee": ArceeConfig(**LLAMA, mlp_bias=True, rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    "helium": HeliumConfig(**LLAMA, pad_token_id=0, head_dim=8, attention_bias=True),
    "olmo_clipped": OlmoConfig(**LLAMA, pad_token_id=0, clip_qkv=0.7),
    "olmoe_clipped": OlmoeConfig(**LLAMA, num_experts=4, num_experts_per_tok=2, clip_qkv=0.9, hidden_act="quick_gelu"),
    "mpt_clipped": MptConfig(vocab_size=VOCAB, d_model=32, n_heads=4, n_layers=2, max_seq_len=128, attn_config={"clip_qkv": 0.7},
                             bos_token_id=1, eos_token_id=2),
    "gemma3_images": Gemma3Config(text_config=dict(**LLAMA, head_dim=8, sliding_window=7, layer_types=["sliding_attention", "full_attention"]),
                                  vision_config=dict(**TINY_VISION, model_type="siglip_vision_model", hidden_act="gelu"), mm_tokens_per_image=1,
                                  eos_token_id=[2, 5]),
    "mistral3_images": Mistral3Config(text_config=dict(**LLAMA, model_type="mistral", head_dim=8, sliding_window=None),
                                      vision_config=dict(**TINY_VISION, model_type="pixtral", head_dim=4), eos_token_id=2),
    "qwen2_vl": Qwen2VLConfig(text_config=dict(**LLAMA, rope_scaling={"type": "mrope", "mrope_section": [1, 1, 2]}),
                              vision_config=dict(depth=1, embed_dim=8, hidden_size=32, num_heads=2, mlp_ratio=1)),
    "qwen2_5_vl": Qwen2_5_VLConfig(text_config=dict(**LLAMA, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mrope_section": [2, 1, 1]}),
        vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=32, fullatt_block_indexes=[0])),
    "qwen3_vl": Qwen3VLConfig(text_config=dict(**LLAMA, head_dim=8, rope_scaling={
        "rope_type": "default", "mrope_interleaved": True, "mrope_section": [2, 1, 1]}),
        vision_config=dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[0],
                           num_position_embeddings=4)),
    "smolvlm": SmolVLMConfig(text_config=dict(**LLAMA, model_type="llama", tie_word_embeddings=True), vision_config=TINY_VISION, pad_token_id=0),
    "idefics3": Idefics3Config(text_config=dict(**LLAMA, model_type="llama", attention_bias=True), vision_config=TINY_VISION, pad_token_id=0),
    "hunyuan": HunYuanDenseV1Config(**LLAMA, pad_token_id=0, head_dim=12, attention_bias=True, tie_word_embeddings=True, rope_scaling={
        "type": "dynamic", "alpha": 50.0, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1}),
    "lfm2": Lfm2Config(**LFM2, layer_types=["conv", "full_attention", "conv"], block_multiple_of=8, block_ffn_dim_multiplier=1.3),
    "lfm2_biases": Lfm2Config(**LFM2, layer_types=["full_attention", "conv", "full_attention"], conv_bias=True, conv_L_cache=4,
                              block_auto_adjust_ff_dim=False, tie_word_embeddings=False),
    "llama_relu2": LlamaConfig(**LLAMA, hidden_act="relu2"),
    "opt_350m": OPTConfig(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=40, word_embed_proj_dim=20,
                          do_layer_norm_before=False, max_position_embeddings=96, bos_token_id=1, eos_token_id=2, pad_token_id=1),
    "falcon_rw": FalconConfig(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2, num_attention_heads=6, alibi=True, bias=True,
                              multi_query=False, parallel_attn=False, new_decoder_architecture=False, max_position_embeddings=128,
                              bos_token_id=1, eos_token_id=2),
}

if transformers.__version__.startswith("5."):
    from transformers import Lfm2MoeConfig, Ministral3Config
    LFM2_MOE = dict(**LFM2, layer_types=["conv", "full_attention", "conv"], moe_intermediate_size=20, num_experts=5, num_experts_per_tok=2)
    GROWING = dict(pad_token_id=0, head_dim=12, rope_parameters={
        "rope_type": "yarn", "type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 16, "beta_fast": 4.0,
        "beta_slow": 0.5, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3})
    CASES = {
        # Its layers of a window are those that layer_types names, in this version alone.
        "qwen2_moe_window": Qwen2MoeConfig(**QWEN2_MOE, norm_topk_prob=True, qkv_bias=False, use_sliding_window=True, sliding_window=7,
                                           layer_types=["full_attention", "sliding_attention"]),
        "lfm2_moe": Lfm2MoeConfig(**LFM2_MOE, num_dense_layers=1, routed_scaling_factor=1.5),
        "lfm2_moe_sigmoids": Lfm2MoeConfig(**LFM2_MOE, num_dense_layers=0, use_expert_bias=False, norm_topk_prob=False, conv_bias=True,
                                           tie_word_embeddings=False),
        "ministral3": Ministral3Config(**LLAMA, **GROWING),
        # The head is tied by the field outside of text_config.
        "ministral3_images": Mistral3Config(text_config=dict(**LLAMA, **GROWING, model_type="ministral3", sliding_window=20), tie_word_embeddings=True,
                                            vision_config=dict(**TINY_VISION, model_type="pixtral", head_dim=4), eos_token_id=2),
    }


def randomise(model):
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.25)
        elif "norm" in name or "ln_" in name:
            parameter.data.normal_(1 if name.endswith("weight") else 0, 0.1)
        else:
            parameter.data.normal_(0, 0.1)
        parameter.data = parameter.data.to(torch.bfloat16).to(torch.float32)
    for name, buffer in model.named_buffers():
        if name.endswith("expert_bias"):
            buffer.data.normal_(0, 0.2)
            buffer.data = buffer.data.to(torch.bfloat16).to(torch.float32)


def cache_of(out):
    return out.cache if hasattr(out, "cache") else out.past_key_values  # the name in transformers 5


def answer(model, prompt, steps):
    def run(ids, begin, **more):
        if hasattr(model.config, "vision_config"):  # Qwen-VL takes 0 for its first position where generate() gives one
            more["cache_position"] = torch.arange(begin, begin + len(ids))
        return model(torch.tensor([ids]), use_cache=True, **more)

    with torch.no_grad():
        out = run(prompt, 0)
        logits = out.logits[0].double()
        nll = -torch.log_softmax(logits[:-1], -1)[range(len(prompt) - 1), prompt[1:]].mean() if len(prompt) > 1 else None
        greedy, margins, row, past = [], [], logits[-1], cache_of(out)
        for _ in range(steps):
            best = torch.topk(row, 2)
            greedy.append(int(best.indices[0]))
            margins.append(round(float(best.values[0] - best.values[1]), 5))
            # Granite 4 returns no cache without one. That of LFM2 loses a position of texts shorter than its taps (mended in 5).
            reads_cache = past is not None and not model.config.model_type.startswith("lfm2")
            next_ids = [greedy[-1]] if reads_cache else prompt + greedy
            out = run(next_ids, len(prompt) + len(greedy) - len(next_ids), past_key_values=past if reads_cache else None)
            row, past = out.logits[0, -1].double(), cache_of(out)
    positions = sorted({0, len(prompt) // 2, len(prompt) - 1})
    return {"input_ids": prompt,
            "logits_at": {str(p): [round(float(x), 5) for x in logits[p]] for p in positions},
            "nll_mean": None if nll is None else round(float(nll), 6),
            "greedy_ids": greedy, "greedy_margins": margins}


# Adapters of PEFT with the modules that no other case has.
ADAPTERS = {"lfm2_biases": {
    "all": dict(target_modules=["in_proj", "out_proj", "q_proj", "v_proj", "w1", "w2", "w3"]),
    "dora": dict(target_modules=["in_proj", "w2"], use_dora=True)},
    "ernie45_moe": {"shared": dict(target_modules=r".*(k_proj|shared_experts\.(gate|up|down)_proj)")},
    "lfm2_moe": {"all": dict(target_modules=["in_proj", "out_proj", "q_proj", "v_proj", "w1", "w2", "w3"])},
    "qwen2_moe": {
    "shared": dict(target_modules=r".*(v_proj|shared_expert\.(gate|up|down)_proj)"),
    "dora": dict(target_modules=r".*(o_proj|shared_expert\.(up|down)_proj)", use_dora=True)}}


def make_adapter(model, folder, name, more):
    torch.manual_seed(len(name))
    model = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, **more)).eval()
    for parameter_name, parameter in model.named_parameters():
        if "lora_B" in parameter_name:
            parameter.data.normal_(0, 0.2)
    adapter = os.path.join(folder, "adapters", name)
    model.save_pretrained(adapter)
    os.remove(os.path.join(adapter, "README.md"))
    return [answer(model, [1, 5, 9, 13, 22, 7], 12)]


def make(name, config):
    torch.manual_seed(sum(map(ord, name)))
    # Falcon's eager attention adds the biases of ALiBi twice: docs/decisions/0026.
    config._attn_implementation = "sdpa" if name == "falcon_rw" else "eager"
    classes = AutoModelForImageTextToText if hasattr(config, "vision_config") else AutoModelForCausalLM
    model = classes.from_config(config).float().eval()
    randomise(model)
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    draw = torch.Generator().manual_seed(7)
    base = []
    for length, steps in ((1, 12), (5, 12), (23, 16), (60, 20)):
        # Dynamic positions stretch with the longest text that a model has seen, so each prompt gets a new model.
        fresh = classes.from_config(config).float().eval()
        fresh.load_state_dict(model.state_dict())
        prompt = torch.randint(3, VOCAB, (length,), generator=draw).tolist()
        base.append(answer(fresh, prompt, steps))
    adapters = {}
    for each, more in ADAPTERS.get(name, {}).items():
        fresh = classes.from_config(config).float().eval()
        fresh.load_state_dict(model.state_dict())
        adapters[each] = make_adapter(fresh, folder, each, more)
    model.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
    os.path.exists(os.path.join(folder, "generation_config.json")) and os.remove(os.path.join(folder, "generation_config.json"))
    made_with = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    with open(os.path.join(folder, "expected.json"), "w") as out:
        json.dump({"made_with": made_with, "base": base, "adapters": adapters}, out)
        out.write("\n")


for name in sys.argv[1:] or CASES:
    make(name, CASES[name])
