"""A plain configuration of each family for scripts/config-conformance, with all fields that matter, and their nulls."""
from config_models import POSITIONS

MISSING = object()
VOCABULARY, HIDDEN, INNER, LAYERS, HEADS = 64, 32, 40, 2, 4
FULL, SLIDING = "full_attention", "sliding_attention"
WINDOW = 5


def without(config, *fields):
    return {field: value for field, value in config.items() if field not in fields}


ENDS = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2)
GPT = ENDS | dict(n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_positions=POSITIONS, n_inner=INNER,
                  layer_norm_epsilon=1e-3)
NAMES = ENDS | dict(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                    max_position_embeddings=POSITIONS)
LLAMA = NAMES | dict(num_key_value_heads=2, intermediate_size=INNER, hidden_act="silu", rms_norm_eps=1e-3,
                     rope_theta=1000.0, rope_scaling=None, tie_word_embeddings=False)
LAYER_NORM = without(LLAMA, "rms_norm_eps") | dict(layer_norm_eps=1e-3)
QWEN = LLAMA | dict(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)
GEMMA = without(LLAMA, "hidden_act") | dict(head_dim=16, hidden_activation="gelu_pytorch_tanh", attention_bias=False,
                                            pad_token_id=0, tie_word_embeddings=True)
CAPS = dict(query_pre_attn_scalar=24, final_logit_softcapping=3.0, attn_logit_softcapping=2.0)
GRANITE = LLAMA | dict(attention_bias=True, embedding_multiplier=4.0, attention_multiplier=0.25,
                       residual_multiplier=0.5, logits_scaling=2.0)
OLMO = LLAMA | dict(attention_bias=False, pad_token_id=0)
GLM = LLAMA | dict(head_dim=16, partial_rotary_factor=0.5, attention_bias=True, pad_token_id=0)
EXPERTS = dict(num_experts_per_tok=2, output_router_logits=False)
YARN = dict(factor=4.0, original_max_position_embeddings=8, beta_fast=4.0, beta_slow=0.5)

GPTS = {
    "gpt2": GPT | dict(
        activation_function="gelu_new", scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False,
        reorder_and_upcast_attn=False, tie_word_embeddings=True),
    "gpt_bigcode": GPT | dict(
        activation_function="gelu_pytorch_tanh", scale_attn_weights=True, multi_query=True,
        attention_softmax_in_fp32=True, scale_attention_softmax_in_fp32=True, tie_word_embeddings=True),
    "gpt_neo": ENDS | dict(
        hidden_size=HIDDEN, num_layers=LAYERS, num_heads=HEADS, max_position_embeddings=POSITIONS,
        intermediate_size=INNER, activation_function="gelu_new", layer_norm_epsilon=1e-3, window_size=WINDOW,
        attention_types=[[["global", "local"], 1]], attention_layers=["global", "local"], tie_word_embeddings=True),
    "gptj": GPT | dict(rotary_dim=6, activation_function="gelu_new", tie_word_embeddings=False),
    "codegen": GPT | dict(n_ctx=POSITIONS, rotary_dim=4, activation_function="gelu_new", tie_word_embeddings=False),
    "gpt_neox": NAMES | dict(
        intermediate_size=INNER, hidden_act="gelu", rotary_pct=0.5, rotary_emb_base=1000, layer_norm_eps=1e-3,
        use_parallel_residual=True, rope_scaling=None, attention_bias=True, tie_word_embeddings=False),
    "opt": NAMES | dict(
        ffn_dim=INNER, word_embed_proj_dim=HIDDEN, do_layer_norm_before=True, _remove_final_layer_norm=False,
        activation_function="relu", enable_bias=True, layer_norm_elementwise_affine=True, pad_token_id=1,
        tie_word_embeddings=True),
    "bloom": ENDS | dict(
        hidden_size=HIDDEN, n_layer=LAYERS, n_head=HEADS, seq_length=POSITIONS, layer_norm_epsilon=1e-3,
        apply_residual_connection_post_layernorm=False, pretraining_tp=1, slow_but_exact=False,
        tie_word_embeddings=True),
    "falcon": NAMES | dict(
        ffn_hidden_size=INNER, num_ln_in_parallel_attn=None, num_kv_heads=None, alibi=False,
        new_decoder_architecture=False, multi_query=True, parallel_attn=True, bias=False, activation="gelu",
        layer_norm_epsilon=1e-3, rope_theta=1000.0, rope_scaling=None, tie_word_embeddings=True),
    "mpt": ENDS | dict(
        d_model=HIDDEN, n_heads=HEADS, n_layers=LAYERS, max_seq_len=POSITIONS, expansion_ratio=2,
        layer_norm_epsilon=1e-3, learned_pos_emb=True, logit_scale=None, no_bias=True, embedding_fraction=1.0,
        norm_type="low_precision_layernorm", tie_word_embeddings=True,
        attn_config=dict(alibi=True, alibi_bias_max=8, attn_impl="torch", attn_type="multihead_attention",
                         attn_uses_sequence_id=False, clip_qkv=None, prefix_lm=False, qk_ln=False,
                         softmax_scale=0.5)),
}
LLAMAS = {
    "llama": LLAMA | dict(head_dim=8, attention_bias=False, mlp_bias=False, pretraining_tp=1, pad_token_id=None),
    "mistral": LLAMA | dict(head_dim=16, sliding_window=WINDOW),
    "mixtral": LLAMA | EXPERTS | dict(head_dim=16, sliding_window=WINDOW, num_local_experts=4, router_jitter_noise=0.0),
    "qwen2": QWEN | dict(layer_types=[SLIDING, FULL]),
    "qwen3": QWEN | dict(head_dim=16, attention_bias=False, layer_types=[SLIDING, FULL]),
    "qwen2_moe": QWEN | EXPERTS | dict(
        use_sliding_window=False, qkv_bias=True, num_experts=4, moe_intermediate_size=24,
        shared_expert_intermediate_size=48, decoder_sparse_step=1, norm_topk_prob=True, mlp_only_layers=[1]),
    "qwen3_moe": QWEN | EXPERTS | dict(
        head_dim=16, attention_bias=False, num_experts=4, moe_intermediate_size=24, decoder_sparse_step=1,
        norm_topk_prob=True, mlp_only_layers=[1]),
    "gemma": GEMMA | dict(hidden_act="gelu_pytorch_tanh"),
    "gemma2": GEMMA | CAPS | dict(sliding_window=WINDOW, layer_types=[SLIDING, FULL]),
    "gemma3_text": GEMMA | CAPS | dict(
        sliding_window=WINDOW, sliding_window_pattern=2, layer_types=[SLIDING, FULL], rope_local_base_freq=100.0,
        use_bidirectional_attention=False),
    "phi": LAYER_NORM | dict(hidden_act="gelu_new", partial_rotary_factor=0.5, qk_layernorm=False),
    "phi3": LLAMA | dict(partial_rotary_factor=1.0, original_max_position_embeddings=POSITIONS, sliding_window=WINDOW,
                         pad_token_id=0),
    "granite": GRANITE | dict(mlp_bias=False),
    "granitemoe": GRANITE | EXPERTS | dict(num_local_experts=4, position_embedding_type="rope"),
    "granitemoehybrid": GRANITE | EXPERTS | dict(
        num_local_experts=0, shared_intermediate_size=INNER, position_embedding_type="rope",
        layer_types=["attention"] * LAYERS, mamba_n_heads=2),
    "olmo": OLMO | dict(clip_qkv=None),
    "olmo2": OLMO,
    "olmoe": OLMO | EXPERTS | dict(clip_qkv=None, num_experts=4, norm_topk_prob=False),
    "starcoder2": without(LAYER_NORM, "layer_norm_eps") | dict(
        hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-3, sliding_window=WINDOW, use_bias=True,
        tie_word_embeddings=True),
    "stablelm": LAYER_NORM | dict(use_qkv_bias=False, qk_layernorm=False, use_parallel_residual=False,
                                  partial_rotary_factor=0.5),
    "cohere": LAYER_NORM | dict(logit_scale=0.5, attention_bias=False, use_qk_norm=False, pad_token_id=0,
                                tie_word_embeddings=True),
    "smollm3": LLAMA | dict(
        use_sliding_window=True, sliding_window=WINDOW, no_rope_layers=[1, 0], no_rope_layer_interval=2,
        layer_types=[SLIDING, FULL], attention_bias=False, mlp_bias=False, pad_token_id=0, tie_word_embeddings=True),
    "ernie4_5": LLAMA | dict(use_bias=False, head_dim=16, pad_token_id=0, tie_word_embeddings=True),
    "ernie4_5_moe": LLAMA | dict(
        use_bias=False, pad_token_id=0, tie_word_embeddings=True, moe_intermediate_size=24, moe_num_experts=4, moe_k=2,
        moe_num_shared_experts=1, moe_layer_start_index=1, moe_layer_end_index=-1, moe_layer_interval=1, moe_norm_min=1e-12,
        output_router_logits=False),
    "exaone4": LLAMA | dict(sliding_window=WINDOW, sliding_window_pattern=2, layer_types=[SLIDING, FULL]),
    "gpt_oss": LLAMA | EXPERTS | dict(
        head_dim=8, num_local_experts=4, sliding_window=WINDOW, attention_bias=True, layer_types=[SLIDING, FULL],
        rope_scaling=dict(rope_type="yarn", truncate=False, **YARN)),
    "ministral": LLAMA | dict(head_dim=16, sliding_window=WINDOW, layer_types=[SLIDING, FULL]),
    "olmo3": OLMO | dict(sliding_window=WINDOW, layer_types=[SLIDING, FULL]),
    "cohere2": LAYER_NORM | dict(
        logit_scale=0.5, attention_bias=False, pad_token_id=0, sliding_window=WINDOW, sliding_window_pattern=2,
        layer_types=[SLIDING, FULL], tie_word_embeddings=True),
    "glm": GLM,
    "glm4": GLM,
    "nemotron": without(LLAMA, "rms_norm_eps", "rope_scaling") | dict(
        norm_eps=1e-3, hidden_act="relu2", head_dim=16, partial_rotary_factor=0.5, attention_bias=False,
        mlp_bias=False),
    "arcee": LLAMA | dict(hidden_act="relu2", head_dim=16, attention_bias=False, mlp_bias=False),
    "helium": LLAMA | dict(head_dim=8, attention_bias=False, mlp_bias=False, pad_token_id=0),
    "hunyuan_v1_dense": LLAMA | dict(head_dim=16, attention_bias=False, pad_token_id=0,
                                     rope_scaling=dict(type="dynamic", alpha=50.0, factor=1.0, mscale=1.0)),
    "lfm2": without(LLAMA, "rms_norm_eps") | dict(
        norm_eps=1e-3, layer_types=["conv", FULL], conv_bias=False, conv_L_cache=3, block_auto_adjust_ff_dim=True,
        block_ffn_dim_multiplier=1.5, block_multiple_of=8, pad_token_id=0, tie_word_embeddings=True),
}
PLAIN = {kind: {"model_type": kind, **config} for kind, config in {**GPTS, **LLAMAS}.items()}

# rope_scaling with rope_type. The classes of Phi-3 and of OLMo 1 and 2 accept `type` alone, and fewer types.
# Nemotron ignores the field.
ROTARY = ["gpt_neox", "falcon", *(kind for kind in LLAMAS if kind not in ("phi3", "olmo", "olmo2", "nemotron"))]

# Their class defaults are huge.
SIZES = set("""model_type vocab_size n_embd n_layer n_head n_positions hidden_size num_hidden_layers num_attention_heads
num_layers num_heads d_model n_layers n_heads intermediate_size ffn_dim moe_intermediate_size
shared_intermediate_size shared_expert_intermediate_size""".split())
# Class defaults that do not suit these sizes or make transformers fail, and Cohere's rope_theta, which follows
# transformers 5.
NEEDED = dict.fromkeys("mistral mixtral qwen2 qwen2_moe qwen3 gemma stablelm exaone4 gpt_oss".split(), {"num_key_value_heads"})
NEEDED |= {
    "gpt_neo": {"attention_types", "attention_layers"}, "gptj": {"rotary_dim"}, "codegen": {"rotary_dim"},
    "cohere": {"rope_theta"}, "phi3": {"pad_token_id"}, "smollm3": {"pad_token_id"},
    "granitemoehybrid": {"num_local_experts", "layer_types", "mamba_n_heads"},
    "ministral": {"num_key_value_heads", "head_dim"}, "nemotron": {"num_key_value_heads"},
    "helium": {"num_key_value_heads", "head_dim"}, "hunyuan_v1_dense": {"head_dim"}, "glm": {"pad_token_id"}, "glm4": {"pad_token_id"},
}


# --------------------------------------------------------------------------------------------------------- nulls

# In transformers, null is not what a missing field is, or differs from the plain configuration in an interesting way.
NULL_ALONE = {
    "gpt2": "scale_attn_weights tie_word_embeddings",
    "gpt_bigcode": "scale_attn_weights multi_query tie_word_embeddings",
    "gpt_neo": "tie_word_embeddings",
    "gpt_neox": "use_parallel_residual attention_bias",
    "opt": "do_layer_norm_before enable_bias tie_word_embeddings",
    "bloom": "tie_word_embeddings",
    "falcon": "multi_query parallel_attn tie_word_embeddings",
    "mpt": "tie_word_embeddings",
    "mistral": "num_key_value_heads",
    "mixtral": "num_key_value_heads",
    "qwen2": "num_key_value_heads layer_types",
    "qwen3": "num_key_value_heads layer_types",
    "qwen2_moe": "sliding_window qkv_bias",
    "qwen3_moe": "sliding_window moe_intermediate_size",
    "gemma": "tie_word_embeddings",
    "gemma2": "tie_word_embeddings final_logit_softcapping attn_logit_softcapping",
    "gemma3_text": "tie_word_embeddings sliding_window_pattern",
    "phi3": "pad_token_id",
    "starcoder2": "tie_word_embeddings use_bias",
    "cohere": "tie_word_embeddings",
    "smollm3": "tie_word_embeddings pad_token_id no_rope_layers",
    "ernie4_5": "tie_word_embeddings num_key_value_heads head_dim",
    "ernie4_5_moe": "tie_word_embeddings",
    "exaone4": "sliding_window_pattern",
    "gpt_oss": "num_key_value_heads rope_scaling head_dim attention_bias",
    "ministral": "num_key_value_heads",
    "cohere2": "tie_word_embeddings sliding_window_pattern",
    "glm": "attention_bias",
    "glm4": "attention_bias",
}
# null is what a missing field is: booleans, and these in all families.
NULL_EVERYWHERE = "bos_token_id eos_token_id pad_token_id n_inner max_position_embeddings"
NULL_TOO = {
    "gpt_neo": "intermediate_size",
    "opt": "word_embed_proj_dim",
    "bloom": "seq_length",
    "falcon": "ffn_hidden_size",
    "mpt": "expansion_ratio embedding_fraction norm_type attn_config",
    "llama": "num_key_value_heads head_dim pretraining_tp",
    "mistral": "head_dim sliding_window",
    "mixtral": "head_dim sliding_window router_jitter_noise",
    "qwen2": "max_window_layers",
    "qwen3": "max_window_layers",
    "qwen2_moe": "max_window_layers mlp_only_layers",
    "qwen3_moe": "max_window_layers mlp_only_layers",
    "gemma": "hidden_activation",
    "gemma2": "layer_types",
    "gemma3_text": "final_logit_softcapping attn_logit_softcapping layer_types",
    "phi": "num_key_value_heads",
    "phi3": "num_key_value_heads original_max_position_embeddings sliding_window",
    "granite": "num_key_value_heads",
    "granitemoe": "num_key_value_heads position_embedding_type",
    "granitemoehybrid": "num_key_value_heads intermediate_size num_experts_per_tok position_embedding_type",
    "olmo": "num_key_value_heads rms_norm_eps",
    "olmo2": "num_key_value_heads",
    "olmoe": "num_key_value_heads",
    "starcoder2": "sliding_window",
    "cohere": "num_key_value_heads",
    "smollm3": "num_key_value_heads no_rope_layer_interval layer_types",
    "exaone4": "layer_types",
    "gpt_oss": "hidden_act layer_types",
    "ministral": "layer_types",
    "olmo3": "num_key_value_heads layer_types",
    "cohere2": "num_key_value_heads layer_types",
    "nemotron": "head_dim",
    "arcee": "num_key_value_heads head_dim",
    "hunyuan_v1_dense": "num_key_value_heads",
}
# transformers fails, except with layer_norm_elementwise_affine, of which tenon refuses false.
NO_NULL = {
    "gpt_neo": "max_position_embeddings",
    "opt": "max_position_embeddings layer_norm_elementwise_affine",
    "qwen2": "use_sliding_window",
    "qwen3": "use_sliding_window",
    "gpt_oss": "max_position_embeddings",
    "hunyuan_v1_dense": "max_position_embeddings",
}


def null_alone(kind):
    return NULL_ALONE.get(kind, "").split()


def null_together(kind):
    """The fields whose null is what a missing field is."""
    fields = [field for field, value in PLAIN[kind].items()
              if isinstance(value, bool) or field in NULL_EVERYWHERE.split()]
    others = null_alone(kind) + NO_NULL.get(kind, "").split()
    return [field for field in fields + NULL_TOO.get(kind, "").split() if field not in others]
