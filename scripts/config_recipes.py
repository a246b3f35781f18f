"""The recipes of scripts/config-conformance: which configurations are compared with transformers.

recipes() gives {name: (config, refusal)}. A refusal is None, or (reason, words of which an error must contain one).
A group yields (kind, name, changes to the plain configuration); without a name, the changes are the name.
"""
from config_families import (FULL, HEADS, HIDDEN, LAYERS, MISSING, NEEDED, PLAIN, POSITIONS, ROTARY, SIZES, SLIDING,
                             WINDOW, YARN, null_alone, null_together)

ACTIVATIONS = """gelu gelu_new gelu_python gelu_fast gelu_accurate gelu_pytorch_tanh gelu_python_tanh relu silu swish
quick_gelu relu2 linear""".split()
# To be refused: transformers has all of them but sine.
NO_ACTIVATIONS = {
    "gpt2": ("activation_function", "gelu_10 mish sigmoid tanh leaky_relu relu6 laplace sine"),
    "llama": ("hidden_act", "mish tanh"),
}
ACTIVATIONS_ELSEWHERE = {
    "opt": ("activation_function", "gelu_new silu"),
    "falcon": ("activation", "relu gelu_fast"),
    "llama": ("hidden_act", "gelu relu quick_gelu relu2"),
    "mixtral": ("hidden_act", "gelu_pytorch_tanh quick_gelu"),
    "gemma": ("hidden_act", "gelu relu"),
    "gemma2": ("hidden_activation", "gelu silu"),
    "phi": ("hidden_act", "gelu relu2"),
    "starcoder2": ("hidden_act", "relu"),
    "gpt_oss": ("hidden_act", "gelu"),
    "cohere2": ("hidden_act", "gelu"),
    "glm": ("hidden_act", "quick_gelu"),
    "nemotron": ("hidden_act", "silu"),
    "arcee": ("hidden_act", "gelu_pytorch_tanh"),
}
# transformers fails, or the value is among refusals().
NO_SWITCH = {("qwen2", "use_sliding_window"), ("qwen2_moe", "use_sliding_window"), ("qwen3", "use_sliding_window"),
             ("opt", "layer_norm_elementwise_affine"), ("gemma3_text", "use_bidirectional_attention"),
             ("bloom", "apply_residual_connection_post_layernorm"), *((kind, "output_router_logits") for kind in PLAIN)}


def general():
    """All fields, class defaults, nulls, and switches of each family."""
    for kind, plain in PLAIN.items():
        yield kind, "plain", {}
        needed = SIZES | NEEDED.get(kind, set())
        defaults = {field: MISSING for field in plain if field not in needed}
        yield kind, "defaults", defaults | (dict(num_experts=8) if "num_experts" in plain else {})
        yield kind, "nulls", dict.fromkeys(null_together(kind))
        for field in null_alone(kind):
            yield kind, None, {field: None}
        for field, value in plain.items():
            # null is false in transformers.
            is_covered = value is True and field in null_alone(kind)
            if isinstance(value, bool) and not is_covered and (kind, field) not in NO_SWITCH:
                yield kind, None, {field: not value}


def activations():
    for name in ACTIVATIONS:
        if name != PLAIN["gpt2"]["activation_function"]:
            yield "gpt2", None, dict(activation_function=name)
    for kind, (field, names) in ACTIVATIONS_ELSEWHERE.items():
        for name in names.split():
            yield kind, None, {field: name}


# -------------------------------------------------------------------------------------------------- rotary positions

LONG = dict(short_factor=[1.0, 1.5, 2.0, 1.25], long_factor=[2.0, 1.0, 4.0, 3.0])  # 4 pairs: heads of 8
LLAMA3 = dict(factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
# {type: (members, changes to other fields)}
SCALINGS = {
    "default": ({}, {}),
    "linear": (dict(factor=2.5), {}),
    "dynamic": (dict(factor=2.0), dict(max_position_embeddings=8)),
    "llama3": (LLAMA3, {}),
    "yarn": (YARN, {}),
    "longrope": (LONG | dict(factor=3.0), dict(original_max_position_embeddings=13)),
}


def rotary_pairs(kind):
    plain = PLAIN[kind]
    part = plain.get("rotary_pct", plain.get("partial_rotary_factor", 1))
    return int(plain.get("head_dim", HIDDEN // HEADS) * part) // 2


def scaling(kind, rope, spelling="rope_type", **more):
    """Changes that give a family this type of rope_scaling."""
    members, changes = SCALINGS[rope]
    pairs = rotary_pairs(kind)
    members = {key: (2 * value)[:pairs] if isinstance(value, list) else value for key, value in members.items()}
    return changes | dict(rope_scaling={spelling: rope, **members, **more})


def rotary():
    """Two types in each family, and all of them with both spellings in llama."""
    types = list(SCALINGS)[1:]
    for i, kind in enumerate(ROTARY):
        for rope in (types[i % 5], types[(i + 2) % 5]):
            yield kind, rope, scaling(kind, rope)
    for rope in SCALINGS:
        yield "llama", f"{rope} by type", scaling("llama", rope, "type")
        if rope not in (types[ROTARY.index("llama") % 5], types[(ROTARY.index("llama") + 2) % 5]):
            yield "llama", rope, scaling("llama", rope)
    for kind in ("qwen2", "gpt_neox", "falcon", "mixtral"):
        yield kind, "yarn by type", scaling(kind, "yarn", "type")
    for rope in ("linear", "dynamic"):
        for kind in ("olmo", "olmo2"):
            yield kind, f"{rope} by type", scaling(kind, rope, "type")
    for name in ("longrope", "su", "yarn"):
        changes = dict(rope_scaling=dict(type=name, **LONG), original_max_position_embeddings=13)
        yield "phi3", f"longrope by type {name}", changes
    changes = dict(rope_scaling=dict(type="longrope", **LONG), original_max_position_embeddings=MISSING)
    yield "phi3", "longrope without trained length", changes
    for rope in ("yarn", "linear"):
        yield "nemotron", f"{rope} without effect", scaling("nemotron", rope)
    for alpha in (1.0, 1000.0):
        yield "hunyuan_v1_dense", f"alpha={alpha}", dict(rope_scaling=dict(rope_type="dynamic", alpha=alpha))
    for alpha in (0, None):
        yield "hunyuan_v1_dense", "dynamic " + named(dict(alpha=alpha)), scaling("hunyuan_v1_dense", "dynamic", alpha=alpha)
    yield "hunyuan_v1_dense", "alpha without effect", scaling("hunyuan_v1_dense", "linear", "type", alpha=9.0)
    yield "hunyuan_v1_dense", None, dict(rope_scaling=None)


def members_of_rope_scaling():
    """Members that a type reads, and members that it ignores."""
    read = (dict(attention_factor=0.7), dict(mscale=0.7, mscale_all_dim=0.5), dict(truncate=False),
            dict(attention_factor=None, beta_fast=None, beta_slow=None), dict(original_max_position_embeddings=None))
    ignored = (dict(finetuned=True, attn_factor=0.5), dict(extra_member="x"), LONG)
    for more in read + ignored:
        yield "llama", "yarn " + named(more), scaling("llama", "yarn", **more)
    yield "qwen2", "yarn with factors of longrope", scaling("qwen2", "yarn", "type", **LONG)
    yield "llama", "longrope attention_factor=0.7", scaling("llama", "longrope", attention_factor=0.7)
    for rope, more in {"linear": dict(beta_fast=32.0), "dynamic": dict(alpha=1000.0), "llama3": dict(beta_slow=2.0),
                       "default": dict(mrope_section=[1, 1, 2], factor=4.0)}.items():
        yield "llama", f"{rope} " + named(more), scaling("llama", rope, **more)


# ----------------------------------------------------------------------------------------------------------- windows


def windows_of_all_layers():
    for kind in ("mixtral", "starcoder2", "phi3"):
        for word in (FULL, SLIDING):  # layer_types does nothing here
            yield kind, None, dict(layer_types=[word] * LAYERS)
        yield kind, None, dict(sliding_window=2)
    # A Mistral with layer_types is a Ministral.
    for types in ([SLIDING, FULL], [FULL, SLIDING], [FULL, FULL], [SLIDING, SLIDING], None):
        yield "mistral", None, dict(layer_types=types)
    yield "mistral", None, dict(sliding_window=MISSING, layer_types=[SLIDING, FULL])


def windows_of_some_layers():
    for kind in ("qwen2", "qwen3"):
        for changes in (dict(max_window_layers=0), dict(max_window_layers=2), dict(use_sliding_window=False),
                        dict(use_sliding_window=False, sliding_window=None), dict(sliding_window=POSITIONS)):
            yield kind, None, dict(layer_types=MISSING) | changes
        yield kind, "full layers and no window", dict(layer_types=[FULL, FULL], use_sliding_window=False)
    for most in (0, 2):
        yield "qwen3_moe", None, dict(max_window_layers=most)
    for kind in ("qwen2", "qwen3", "gemma2", "gemma3_text", "gpt_oss", "smollm3", "exaone4"):
        yield kind, None, dict(layer_types=[FULL, SLIDING])
    for kind in ("gemma2", "gpt_oss", "smollm3", "exaone4"):
        yield kind, None, dict(layer_types=MISSING)
    for pattern in (1, 3):
        yield "exaone4", None, dict(layer_types=MISSING, sliding_window_pattern=pattern)
    yield "exaone4", None, dict(layer_types=[FULL, FULL], sliding_window=None)
    for pattern, other in ((1, MISSING), (3, MISSING), (MISSING, MISSING), (MISSING, 1), (2, 1)):
        changes = dict(sliding_window_pattern=pattern, _sliding_window_pattern=other)
        for kind in ("gemma3_text", "cohere2"):
            yield kind, None, dict(layer_types=MISSING) | changes
    yield "smollm3", None, dict(layer_types=MISSING, use_sliding_window=False)


def windows_by_layer_types():
    """In OLMo 3, rope_scaling counts in full layers alone. Cohere 2 rotates in layers with a window alone."""
    for kind in ("ministral", "olmo3", "cohere2"):
        for types in ([FULL, SLIDING], [FULL, FULL], [SLIDING, SLIDING], MISSING):
            yield kind, None, dict(layer_types=types)
        for window in (2, POSITIONS):
            yield kind, None, dict(sliding_window=window)
        yield kind, "four layers without layer_types", dict(num_hidden_layers=4, layer_types=MISSING)
        yield kind, "linear with a window everywhere", scaling(kind, "linear") | dict(layer_types=[SLIDING, SLIDING])
    yield "cohere2", "four layers without a pattern", dict(
        num_hidden_layers=4, layer_types=MISSING, sliding_window_pattern=MISSING)


def windows_of_gpt_neo():
    for types in ([[["local"], 2]], [[["local", "global"], 1]], [[["global"], 1], [["local"], 1]]):
        yield "gpt_neo", None, dict(attention_types=types, attention_layers=MISSING)
    yield "gpt_neo", None, dict(attention_layers=["local", "local"])  # attention_types is ignored
    # The class default of attention_types is for 24 layers.
    deep = dict(num_layers=24, attention_types=MISSING)
    yield "gpt_neo", "default attention_types", deep | dict(attention_layers=MISSING)
    yield "gpt_neo", "attention_layers alone", deep | dict(attention_layers=["global", "local", "local"] * 8)


ONLY_IN_CACHES = """gpt2 gpt_bigcode gpt_neo gptj codegen gpt_neox opt bloom falcon llama gemma phi granite granitemoe olmo
olmo2 olmoe stablelm cohere ernie4_5 ernie4_5_moe glm glm4 nemotron arcee helium hunyuan_v1_dense""".split()


def windows_of_caches():
    """Cases to be refused: generate() forgets keys before sliding_window, though forward() has no window."""
    for kind in ONLY_IN_CACHES:
        yield kind, "window of the cache alone", dict(sliding_window=WINDOW), "sliding_window"
        chunks = dict(sliding_window=WINDOW, layer_types=["chunked_attention"] * LAYERS)  # caches treat them alike
        yield kind, "chunks of the cache alone", chunks, "sliding_window"


def windows_without_effect():
    yield "granitemoehybrid", None, dict(sliding_window=WINDOW)  # its cache has no window
    for kind in ("gpt2", "gpt_neox", "falcon", "llama", "gemma", "granite"):
        yield kind, None, dict(sliding_window=POSITIONS)
    for kind in ("gpt2", "llama", "granite", "olmo", "stablelm", "ernie4_5"):
        yield kind, "window of no layer", dict(sliding_window=WINDOW, layer_types=[FULL, FULL])


# -------------------------------------------------------------------------------------------- fields of single families


def other_names():
    """Names of attribute_map, and names that have no effect."""
    usual = dict(n_embd="hidden_size", n_layer="num_hidden_layers", n_head="num_attention_heads",
                 n_positions="max_position_embeddings")
    names = dict.fromkeys(("gpt2", "gpt_bigcode", "gptj", "codegen"), usual) | {
        "gpt_neo": dict(num_heads="num_attention_heads"),
        "bloom": dict(n_layer="num_hidden_layers", n_head="num_attention_heads"),
        "granitemoehybrid": dict(layer_types="layers_block_type"),
    }
    for kind, pairs in names.items():
        yield kind, "other names", dict.fromkeys(pairs, MISSING) | {new: PLAIN[kind][old] for old, new in pairs.items()}
    for old, new in dict(d_model="hidden_size", n_layers="num_hidden_layers", n_heads="num_attention_heads").items():
        yield "mpt", None, {old: MISSING, new: PLAIN["mpt"][old]}
    for kind in ("bloom", "falcon"):
        yield kind, None, dict(hidden_size=MISSING, n_embed=HIDDEN)
        yield kind, None, dict(n_embed=HIDDEN // 2)
    yield "falcon", None, dict(n_layer=3)
    yield "gpt_neox", None, dict(rope_theta=10.0)
    yield "gpt_neox", None, dict(partial_rotary_factor=1.0)
    yield "gpt_oss", None, dict(experts_per_token=1)


def attention():
    """Scores, heads and rotary widths."""
    for kind in ("olmo", "olmoe"):
        yield kind, None, dict(clip_qkv=0.5)
    for members in (dict(clip_qkv=0.5), dict(clip_qkv=0), dict(alibi=False), dict(alibi=None), dict(alibi_bias_max=4),
                    dict(softmax_scale=None), dict(qk_ln=True), dict(attn_impl="triton")):
        yield "mpt", "attn_config " + named(members), dict(attn_config=PLAIN["mpt"]["attn_config"] | members)
    for part in (1.0, 0.25):
        yield "gpt_neox", None, dict(rotary_pct=part)
    for kind in ("glm", "glm4", "nemotron"):
        for part in (1.0, 0.25, 0.3, MISSING):  # 0.3 of 16 is rounded down to 4
            yield kind, None, dict(partial_rotary_factor=part)
    yield "gptj", None, dict(n_head=1, rotary_dim=None)
    for kind in ("llama", "granite", "phi", "qwen2", "olmo2", "olmo3", "cohere2"):
        yield kind, "heads of their own width", dict(head_dim=16)
    for changes in (dict(no_rope_layers=[0, 0]), dict(no_rope_layers=None, no_rope_layer_interval=1),
                    dict(no_rope_layers=[1, 1, 0])):
        yield "smollm3", None, changes
    yield "granitemoehybrid", None, dict(position_embedding_type="nope")
    yield "granitemoe", None, dict(position_embedding_type="nope")
    yield "gemma2", None, dict(query_pre_attn_scalar=MISSING)
    yield "cohere", None, dict(use_qk_norm=True, attention_bias=True)
    yield "stablelm", None, dict(qk_layernorm=True, use_parallel_residual=True)


def layers():
    """Residuals, MLPs, experts and embeddings."""
    new = dict(new_decoder_architecture=True, num_kv_heads=2)
    for changes in (new, new | dict(num_ln_in_parallel_attn=1), dict(parallel_attn=False, num_ln_in_parallel_attn=2),
                    dict(multi_query=False, bias=True, alibi=True, parallel_attn=False)):
        yield "falcon", None, changes
    for kind in ("qwen2_moe", "qwen3_moe"):
        for changes in (dict(decoder_sparse_step=2, mlp_only_layers=[]), dict(mlp_only_layers=[0, 1]),
                        dict(num_experts_per_tok=1)):
            yield kind, None, changes
    for changes in (dict(moe_layer_start_index=0), dict(moe_layer_start_index=0, moe_layer_end_index=0),
                    dict(moe_layer_start_index=0, moe_layer_interval=2), dict(moe_num_shared_experts=0),
                    dict(moe_num_shared_experts=3), dict(moe_norm_min=0.9), dict(moe_k=MISSING, num_experts_per_tok=1)):
        yield "ernie4_5_moe", None, changes
    yield "mixtral", None, dict(num_experts_per_tok=1)
    yield "gpt_oss", "one expert", dict(num_local_experts=1, num_experts_per_tok=1)
    yield "gpt_oss", None, dict(rope_scaling=MISSING)
    yield "opt", None, dict(word_embed_proj_dim=16)
    yield "opt", None, dict(word_embed_proj_dim=16, do_layer_norm_before=False)
    yield "mpt", None, dict(logit_scale=0.5)
    yield "bloom", None, dict(pretraining_tp=2)
    yield "bloom", None, dict(n_inner=16)


def refusals():
    """Cases to be refused: transformers fails, or docs/checkpoints.md says so."""
    yield "mpt", None, dict(sliding_window=WINDOW), "sliding_window"  # transformers fails in texts beyond it
    yield "opt", None, dict(layer_norm_elementwise_affine=None), "layer_norm_elementwise_affine"
    yield "bloom", "slow_but_exact over parts", dict(slow_but_exact=True, pretraining_tp=2), "slow_but_exact"
    yield "gptj", "rotary_dim=null of four heads", dict(rotary_dim=None), "rotary_dim"
    yield "qwen2_moe", None, dict(use_sliding_window=True), "use_sliding_window"
    yield "granitemoehybrid", "mamba layers", dict(layer_types=["mamba", "attention"]), "layer_types"
    yield "granitemoehybrid", "experts", dict(num_local_experts=4), "num_local_experts"
    yield "mistral", "unknown word in layer_types", dict(layer_types=["linear_attention", FULL]), "layer_types"
    yield "llama", "unknown rope_type", dict(rope_scaling=dict(rope_type="spiral", factor=2.0)), "spiral"
    yield "gemma3_text", None, dict(use_bidirectional_attention=True), "use_bidirectional_attention"
    yield ("bloom", None, dict(apply_residual_connection_post_layernorm=True),
           "apply_residual_connection_post_layernorm")
    yield "opt", None, dict(layer_norm_elementwise_affine=False), "layer_norm_elementwise_affine"
    for kind, (field, names) in NO_ACTIVATIONS.items():
        for name in names.split():
            yield kind, None, {field: name}, field


def odd_widths():
    """Cases to be refused: an odd number of rotary dimensions."""
    wide = dict(hidden_size=40, num_attention_heads=2)  # heads of 20
    yield "gpt_neox", "5 rotary dimensions", wide | dict(rotary_pct=0.25), "hidden_size"
    yield "phi3", "5 rotary dimensions", wide | dict(partial_rotary_factor=0.25), "hidden_size"
    for kind in ("phi", "phi3", "stablelm"):
        yield kind, "heads of 9", dict(hidden_size=36, partial_rotary_factor=0.5), "hidden_size"


# --------------------------------------------------------------------------------------------------------------- all


def changed(kind, changes):
    """The plain configuration with these fields; MISSING takes one away."""
    return {field: value for field, value in {**PLAIN[kind], **changes}.items() if value is not MISSING}


def named(changes):
    """A name for changes: "field=value" of each."""
    def text(value):
        words = {MISSING: "missing", None: "null"}
        value = words[value] if value is None or value is MISSING else str(value).lower()
        return value.replace("_attention", "").replace("'", "").replace(" ", "")
    return " ".join(f"{field}={text(value)}" for field, value in changes.items())


def recipes():
    found = {}
    served = (general, activations, rotary, members_of_rope_scaling, windows_of_all_layers, windows_of_some_layers,
              windows_by_layer_types, windows_of_gpt_neo, windows_without_effect, other_names, attention, layers)
    reasons = {windows_of_caches: "only caches have the window", refusals: "not supported",
               odd_widths: "rotary positions turn pairs"}
    for group in served + tuple(reasons):
        for kind, name, changes, *field in group():
            name = f"{kind}/{name or named(changes)}"
            assert name not in found, name
            found[name] = changed(kind, changes), (reasons[group], field) if group in reasons else None
    return found
