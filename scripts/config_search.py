"""Random configurations for scripts/config-conformance search. Needs torch and transformers."""
import collections
import json
import random
import re
import tempfile

import config_reference
from config_families import FULL, LAYERS, MISSING, NEEDED, PLAIN, ROTARY, SIZES, SLIDING, YARN
from config_models import DUE, NEEDLESS, POSITIONS, WRONG, ask, judge, write_model
from config_recipes import ACTIVATIONS, changed

SEEDS_TRIED = 3  # of weights; the best two tokens of a configuration may always be close
RATES = (0.1, 0.25, 0.5)  # share of the fields that get a random value
FLAGS = (False, True, None)
# Words of errors that are refusals on purpose. The recipes have a case of each.
NAMED_REFUSALS = ("sliding_window: is not supported in this family", "must give heads of even width",
                  "apply_residual_connection_post_layernorm: true", "slow_but_exact: true",
                  "layer_norm_elementwise_affine: false", "use_bidirectional_attention: true")


def same_values(fields, *values):
    return dict.fromkeys(fields.split(), values)


# {field: values}. A field that is not here, not a boolean and not in WORDS has its plain value, null, or is missing.
VALUES = {
    **same_values("rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps", 1e-6, 1e-5, 0.1, 1),
    # Without windows of 1: the caches of transformers keep all keys then.
    **same_values("sliding_window window_size", 2, 4, 7, POSITIONS, 100, None),
    **same_values("hidden_act hidden_activation activation_function activation", *ACTIVATIONS),
    **same_values("embedding_multiplier attention_multiplier residual_multiplier", 0.25, 0.5, 1.0, 2, 12.0),
    **same_values("logits_scaling logit_scale", 0.25, 0.5, 1.0, 2),
    **same_values("rope_theta rotary_emb_base rope_local_base_freq", 7.5, 100.0, 10000, 1e6),
    **same_values("partial_rotary_factor rotary_pct", 0.25, 0.5, 0.75, 1.0, 1),
    **same_values("n_inner intermediate_size ffn_dim ffn_hidden_size moe_intermediate_size "
                  "shared_expert_intermediate_size", 16, 33, 64),
    **same_values("sliding_window_pattern _sliding_window_pattern no_rope_layer_interval decoder_sparse_step", 1, 2, 3),
    **same_values("num_key_value_heads num_kv_heads", 1, 2, 4, None),
    "architectures": ([], None, ["ALanguageModelForCausalLM"]),
    "attention_types": ([[["global", "local"], 1]], [[["local"], 2]], [[["global"], 1], [["local"], 1]]),
    "attn_logit_softcapping": (None, 1.0, 50),
    "cache_implementation": ("hybrid", "static", None),
    "clip_qkv": (None, 0.5, 2),
    "final_logit_softcapping": (None, 2.0, 30),
    "head_dim": (4, 8, 16, None),
    "max_window_layers": (0, 1, 2, 28),
    "mlp_only_layers": ([], [0], [1], None),
    "n_ctx": (8, 24),
    "n_embed": (16, 32),
    "n_layer": (2, 3),
    "num_experts_per_tok": (1, 2, 3),
    "num_ln_in_parallel_attn": (None, 1, 2),
    "original_max_position_embeddings": (13, 24),  # as in PROMPTS: a text that grows past it has other keys here
    "pad_token_id": (0, 3, None),
    "position_embedding_type": ("rope", "nope", None),
    "pretraining_tp": (1, 2),
    "query_pre_attn_scalar": (4, 8.0, 100),
    "rotary_dim": (2, 4, 8),
    "torch_dtype": ("float16", "bfloat16", "float32", None),
    "word_embed_proj_dim": (16, 40, None),
}
# {field: words}, of which each layer gets one.
WORDS = {"layer_types": (FULL, SLIDING), "no_rope_layers": (0, 1), "attention_layers": ("global", "local")}


def draw_rope(draw):
    """A rope_scaling of any type."""
    kind = draw.choice(("default", "linear", "dynamic", "llama3", "yarn", "yarn", "longrope"))
    spelling = draw.choice(("rope_type", "rope_type", "type"))
    out, factor = {spelling: kind}, draw.choice((1.0, 1.5, 2.0, 4.0, 8))
    trained = draw.choice((8, 13, 16))
    if kind in ("linear", "dynamic"):
        out["factor"] = factor
    elif kind == "llama3":
        low, high = draw.choice(((1.0, 4.0), (1, 4), (0.5, 2.0)))
        out |= dict(factor=factor, low_freq_factor=low, high_freq_factor=high, original_max_position_embeddings=trained)
    elif kind == "longrope":
        # Lists for heads of 8.
        out |= {key: [draw.choice((1.0, 1.5, 2.5)) for _ in range(4)] for key in ("short_factor", "long_factor")}
    elif kind == "yarn":
        out |= {key: YARN[key] for key in YARN if key == "factor" or draw.random() < 0.6}
        members = dict(attention_factor=(0.7, 1.0, None), mscale=(0.7, 1.0, None), mscale_all_dim=(0.5, 1.0, None),
                       truncate=(False, True))
        for key, values in members.items():
            if draw.random() < 0.25:
                out[key] = draw.choice(values)
    if draw.random() < 0.1:
        out[draw.choice(("factor", "beta_fast", "attention_factor", "some_member"))] = 2.0
    return out


def draw_value(draw, field, plain):
    """A value for a field. `plain`: its value in the plain configuration, MISSING if it has none."""
    if draw.random() < 0.1 and field not in SIZES:
        return draw.choice((None, MISSING))
    if field == "rope_scaling":
        return draw_rope(draw)
    if field == "attn_config":
        members = dict(clip_qkv=(None, 0.5, 2), alibi=FLAGS, alibi_bias_max=(4, 8, 16), softmax_scale=(0.1, 0.5, None),
                       qk_ln=FLAGS)
        return {key: draw.choice(values) for key, values in members.items() if draw.random() < 0.5}
    if field in WORDS and "attention" not in (plain if isinstance(plain, list) else []):
        return [draw.choice(WORDS[field]) for _ in range(LAYERS)]
    return draw.choice(VALUES.get(field, FLAGS if isinstance(plain, bool) else (plain,)))


def draw_changes(seed, kinds):
    """(kind, changes to its plain configuration)."""
    draw = random.Random(seed)
    kind = kinds[seed % len(kinds)]
    plain, rate, changes = PLAIN[kind], draw.choice(RATES), {}
    for field in plain:
        if field != "model_type" and draw.random() < rate:
            changes[field] = draw_value(draw, field, plain[field])
    if kind in ROTARY and draw.random() < rate:
        changes["rope_scaling"] = draw_rope(draw)
    for _ in range(2):  # fields that other families read
        if draw.random() < rate / 2:
            other = PLAIN[draw.choice(list(PLAIN))]
            field = draw.choice([*other, *VALUES])
            if field not in plain and field not in SIZES:
                changes[field] = draw_value(draw, field, other.get(field, MISSING))
    # A missing field of NEEDED makes transformers fail, or follows transformers 5.
    needed = NEEDED.get(kind, ())
    return kind, {field: value for field, value in changes.items()
                  if value != plain.get(field, MISSING) and not (value is MISSING and field in needed)}


def compare(command, config):
    """(verdict, reason) of a configuration; (None, reason) where transformers has no answer to compare with."""
    try:
        case = config_reference.expected(config, SEEDS_TRIED)
    except (config_reference.Failure, AssertionError) as failure:
        return None, str(failure)
    with tempfile.TemporaryDirectory() as folder:
        write_model(folder, config, case["tensors"], case["seed"])
        verdict, reason = judge(case, ask(command, folder))
    is_named = verdict == NEEDLESS and any(words in reason for words in NAMED_REFUSALS)
    return (DUE if is_named else verdict), reason


def kind_of(result):
    """The verdict and, for a refusal, the words of its reason: minimised changes have the same."""
    verdict, reason = result
    return verdict, re.sub(r"[\d.]+", "N", reason)[:60] if verdict == NEEDLESS else ""


def minimised(command, kind, changes, result):
    """The changes without those that the difference does not need."""
    def shows(fewer):
        return kind_of(compare(command, changed(kind, fewer))) == kind_of(result)

    for field in sorted(changes, key=lambda field: -len(str(changes[field]))):
        fewer = {key: value for key, value in changes.items() if key != field}
        if shows(fewer):
            changes = fewer
    for field, value in list(changes.items()):
        for member in list(value) if isinstance(value, dict) else []:
            fewer = changes | {field: {key: each for key, each in changes[field].items() if key != member}}
            if shows(fewer):
                changes = fewer
    return changes


def search(args):
    """Prints each difference once per family and set of fields, as a line of JSON for config_recipes.py."""
    begin, end = map(int, args.seeds.split(":"))
    kinds = args.types.split(",") if args.types else list(PLAIN)
    if unknown := set(kinds) - set(PLAIN):
        raise SystemExit(f"unknown types: {', '.join(sorted(unknown))}")
    counts, seen = collections.Counter(), set()
    for seed in range(begin, end):
        kind, changes = draw_changes(seed, kinds)
        result = compare(args.cmd, changed(kind, changes))
        counts[result[0] or "without an answer of transformers"] += 1
        if result[0] not in (NEEDLESS, WRONG):
            continue
        changes = minimised(args.cmd, kind, changes, result)
        key = kind, *sorted(changes), *kind_of(result)
        if key in seen:
            continue
        seen.add(key)
        shown = {field: "MISSING" if value is MISSING else value for field, value in changes.items()}
        reason = compare(args.cmd, changed(kind, changes))[1]
        print(json.dumps({"verdict": result[0], "kind": kind, "changes": shown, "reason": reason[:160], "seed": seed}),
              flush=True)
    print(", ".join(f"{number} {name}" for name, number in counts.items()))
    return 1 if seen else 0
