"""The recipes of scripts/adapter-conformance: which adapters PEFT makes for it.

A recipe has the LoraConfig's fields, and then:
- edit: changes to the adapter_config.json that PEFT saved;
- dtype: of the factors;
- tensors: changes to the file of tensors;
- copies: a factor for embedding and head, which are saved with the adapter;
- field: words, one of which a refusal must contain;
- kind: PEFT's class of config, default LoraConfig;
- peft_answers: whether PEFT can load the changed files;
- only_bin: the file of tensors is a pickle;
- cut: the number of bytes that the file of tensors lacks at its end.
"""
import zlib
from random import Random


def served(model):
    """{name: recipe}: cases that every engine with support for PEFT's adapters must serve."""
    gpt2 = model == "gpt2"
    one = ["c_attn"] if gpt2 else ["q_proj"]
    two = ["c_attn", "attn.c_proj"] if gpt2 else ["q_proj", "o_proj"]
    mixed = ["attn.c_proj", "mlp.c_proj"] if gpt2 else ["v_proj", "down_proj"]
    up, down = ("mlp.c_fc", "mlp.c_proj") if gpt2 else ("mlp.up_proj", "mlp.down_proj")
    layer = "h.{}.".format if gpt2 else "layers.{}.".format
    first = layer(0) + ("attn.c_attn" if gpt2 else "self_attn.q_proj")
    second = layer(1) + ("attn.c_attn" if gpt2 else "self_attn.q_proj")
    whole = ("transformer." if gpt2 else "model.") + first

    def fields(**changes):
        return lambda config: config.update(changes)

    def like_the_first_versions(config):
        old = ("base_model_name_or_path", "bias", "fan_in_fan_out", "inference_mode", "lora_alpha", "lora_dropout",
               "modules_to_save", "peft_type", "r", "target_modules", "task_type")
        for key in [key for key in config if key not in old]:
            del config[key]

    def name_keys(tensors):
        for name in sorted(tensors):
            tensors[name.replace(".weight", ".a_name_in_keys.weight")] = tensors.pop(name)

    recipes = {f"rank{r}": dict(r=r, lora_alpha=2 * r, target_modules=two) for r in (1, 2, 3, 4, 8)}
    recipes |= {f"rank{r}": dict(r=r, lora_alpha=2 * r, target_modules=two, layers_to_transform=[1]) for r in (12, 16)}
    recipes["rank12"]["target_modules"], recipes["rank16"]["target_modules"] = two[1:], one
    recipes["rank64"] = dict(r=64, lora_alpha=16, target_modules=[up], layers_to_transform=[1], dtype="float16")
    recipes |= {
        "alpha_not_r": dict(r=2, lora_alpha=1, target_modules=two),
        "alpha_odd": dict(r=3, lora_alpha=7, target_modules=two),
        "alpha_negative": dict(r=3, lora_alpha=-5, target_modules=one),
        "rslora": dict(r=3, lora_alpha=2.5, use_rslora=True, target_modules=two),
        "rslora_patterns": dict(r=3, lora_alpha=4, use_rslora=True, target_modules=mixed,
                                rank_pattern={mixed[0]: 2}, alpha_pattern={mixed[1]: 9}),
        "rank_pattern": dict(r=2, lora_alpha=6, target_modules=two, rank_pattern={two[0]: 5}),
        "rank_pattern_dots": dict(r=2, lora_alpha=6, target_modules=one, rank_pattern={second: 4}),
        "alpha_pattern": dict(r=2, lora_alpha=2, target_modules=two, alpha_pattern={two[1]: 11}),
        "alpha_pattern_dots": dict(r=2, lora_alpha=2, target_modules=two, alpha_pattern={first: 9}),
        # The first key that matches counts, in the order of the file.
        "pattern_order_general": dict(r=2, lora_alpha=2, target_modules=one, rank_pattern={one[0]: 3, second: 5},
                                      alpha_pattern={one[0]: 4, second: 12}),
        "pattern_order_special": dict(r=2, lora_alpha=2, target_modules=one, rank_pattern={second: 5, one[0]: 3},
                                      alpha_pattern={second: 12, one[0]: 4}),
        # A key must begin at the beginning of a name. Neither of these is the end of a module's path.
        "pattern_half_a_name": dict(r=2, lora_alpha=4, target_modules=one, rank_pattern={one[0][1:]: 5},
                                    alpha_pattern={one[0][1:]: 16}),
        # Keys are regular expressions, in which a dot is any character.
        "pattern_dot_is_any": dict(r=2, lora_alpha=2, target_modules=one, alpha_pattern={one[0].replace("_", "."): 12}),
        "layers_first": dict(r=3, lora_alpha=6, target_modules=two, layers_to_transform=[0]),
        "layers_pattern": dict(r=2, lora_alpha=6, target_modules=two, layers_to_transform=1,
                               layers_pattern="h" if gpt2 else "layers"),
        # A path that is listed in full is adapted in every layer.
        "layers_and_path": dict(r=2, lora_alpha=6, target_modules=[whole, up], layers_to_transform=[1]),
        "suffix": dict(r=2, lora_alpha=4, target_modules=["c_proj"] if gpt2 else ["mlp.gate_proj", "v_proj"]),
        "modules_by_layer": dict(r=2, lora_alpha=4, target_modules=[first, layer(1) + down]),
        "all_linear": dict(r=1, lora_alpha=1, target_modules="all-linear", edit=fields(target_modules="all-linear")),
        "exclude_modules": dict(r=1, lora_alpha=2, target_modules="all-linear", edit=fields(target_modules="all-linear"),
                                exclude_modules=[second] + (["mlp.c_proj"] if gpt2 else ["k_proj", "up_proj", "down_proj"])),
        "exclude_listed": dict(r=2, lora_alpha=6, target_modules=two, exclude_modules=[first]),
        "float16": dict(r=3, lora_alpha=4, target_modules=mixed, dtype="float16"),
        "bfloat16": dict(r=3, lora_alpha=4, target_modules=mixed, dtype="bfloat16"),
        "fan_in_fan_out_true": dict(r=2, lora_alpha=4, target_modules=mixed, edit=fields(fan_in_fan_out=True)),
        "fan_in_fan_out_false": dict(r=2, lora_alpha=4, target_modules=mixed, edit=fields(fan_in_fan_out=False)),
        "fields_of_training": dict(r=2, lora_alpha=4, target_modules=one, lora_dropout=0.5,
                                   edit=fields(inference_mode=False, init_lora_weights="gaussian", revision="main")),
        "old_config": dict(r=2, lora_alpha=8, target_modules=one, edit=like_the_first_versions),
        # PEFT ignores names and layers that the model lacks, and unknown fields.
        "module_that_is_none": dict(r=1, lora_alpha=4, target_modules=[*one, "warp_drive"], layers_to_transform=[0]),
        "layer_that_is_none": dict(r=1, lora_alpha=4, target_modules=one, layers_to_transform=[0, 7]),
        "unknown_field": dict(r=1, lora_alpha=4, target_modules=one, layers_to_transform=[0],
                              edit=fields(use_something_new=True, lorap_emb_lr=1e-06, some_config={"a": [1]})),
        # Regular expressions of Python: of whole paths instead of lists, of ends of paths as keys.
        "regex_targets": dict(r=1, lora_alpha=4, target_modules=rf".*\.0\..*{one[0]}"),
        "regex_lookahead": dict(r=1, lora_alpha=4, target_modules=r"(?!.*(mlp|\.1\.)).*\.(c_attn|[qo]_?proj)$"),
        "regex_of_unsloth": dict(r=1, lora_alpha=4, target_modules=(
            r"(?:.*?(?:language|text).*?(?:attn|mlp).*?(?:q_proj|c_attn).*?)|"
            r"(?:\b(?:model\.layers|transformer\.h)\.[\d]{1,}\.(?:attn|self_attn|mlp)\.(?:(?:q_proj|o_proj|c_attn)))")),
        "regex_exclude": dict(r=1, lora_alpha=2, target_modules="all-linear", edit=fields(target_modules="all-linear"),
                              exclude_modules=r".*(mlp|\.1)\..*"),
        "regex_layers_pattern": dict(r=2, lora_alpha=6, target_modules=two, layers_to_transform=1,
                                     layers_pattern=["(?:h|layers)"]),
        "regex_rank_pattern": dict(r=1, lora_alpha=4, target_modules=one, rank_pattern={r"^.*\.1\..*": 3}),
        "regex_alpha_pattern": dict(r=1, lora_alpha=4, target_modules=two, alpha_pattern={"(c_attn|q_proj)": 12}),
        # Trainers that save the state themselves leave the adapter's name in the keys, or save copies of the model's
        # tensors.
        "name_in_keys": dict(r=2, lora_alpha=4, target_modules=one, tensors=name_keys),
        "embeddings_unchanged": dict(r=2, lora_alpha=4, target_modules=one, copies=1.0),
    }
    # Cases that the other model covers.
    for name in ["fan_in_fan_out_true"] if gpt2 else [
            "rank4", "rank12", "rank64", "alpha_not_r", "alpha_negative", "rank_pattern_dots", "alpha_pattern_dots",
            "pattern_half_a_name", "pattern_dot_is_any", "layers_pattern", "exclude_listed", "fan_in_fan_out_false",
            "fields_of_training", "old_config", "module_that_is_none", "layer_that_is_none", "unknown_field",
            "regex_rank_pattern", "name_in_keys"]:
        del recipes[name]
    return recipes


COMPOSITIONS = {
    "two": {"rank3": 0.7, "rank8": 0.5},
    "two_negative": {"rank2": 1.0, "suffix": -0.6},
    "two_rslora": {"alpha_odd": 0.4, "rslora": 1.3},
    "two_types": {"rank2": 1.25, "float16": 0.75},
    "three": {"rank1": 0.5, "rank_pattern": 0.25, "bfloat16": -0.75},
    "three_patterns": {"rank3": -1.0, "alpha_pattern": 0.5, "rslora_patterns": 0.9},
    "weight_of_zero": {"rank3": 0.0, "rank2": 1.0},
    "weight_of_one": {"rank3": 0.35},
}


def refused():
    """{name: (model, recipe)}. PEFT's answer, if it has one, is kept: an engine with the same answer is right."""
    import torch
    small = dict(r=1, lora_alpha=4, target_modules=["c_attn"], layers_to_transform=[0])
    small_llama = dict(r=1, lora_alpha=4, target_modules=["q_proj"], layers_to_transform=[0])

    def put(key, value):
        return lambda config: config.update({key: value})

    def one_value(value):
        def change(tensors):
            tensors[sorted(tensors)[-1]].view(-1)[1] = value
        return change

    def rename(tensors):
        name = sorted(tensors)[0]
        tensors[name.replace("c_attn.lora_A", "c_attn.lora_C")] = tensors.pop(name)

    def drop(tensors):
        del tensors[sorted(tensors)[-1]]

    def extra(tensors):
        for name in sorted(tensors):
            tensors[name.replace(".h.0.", ".h.1.")] = tensors[name].clone()

    def halve_b(tensors):
        name = sorted(tensors)[-1]
        tensors[name] = tensors[name].half()

    def transpose(tensors):
        for name in tensors:
            tensors[name] = tensors[name].T.contiguous()

    no_layers = {key: small[key] for key in small if key != "layers_to_transform"}
    return {
        "dora": ("gpt2", dict(small, use_dora=True, field=["use_dora"])),
        "dora_llama": ("llama", dict(small_llama, use_dora=True, field=["use_dora"])),
        "bias_all": ("gpt2", dict(small, bias="all", field=["bias"])),
        "bias_lora_only": ("gpt2", dict(small, bias="lora_only", field=["bias"])),
        "lora_bias": ("gpt2", dict(small, lora_bias=True, field=["lora_bias"])),
        "modules_to_save": ("gpt2", dict(small, modules_to_save=["ln_f"], field=["modules_to_save"])),
        "trained_tokens": ("llama", dict(small_llama, trainable_token_indices={"embed_tokens": [20, 30]},
                                         field=["trainable_token_indices"])),
        "pissa": ("llama", dict(small_llama, init_lora_weights="pissa", field=["init_lora_weights"])),
        "olora": ("llama", dict(small_llama, init_lora_weights="olora", field=["init_lora_weights"])),
        "corda": ("gpt2", dict(small, edit=put("init_lora_weights", "corda"), peft_answers=False, field=["init_lora_weights"])),
        "loftq": ("gpt2", dict(small, edit=put("init_lora_weights", "loftq"), peft_answers=False, field=["init_lora_weights"])),
        "layer_replication": ("llama", dict(r=2, lora_alpha=4, target_modules=["v_proj"], layer_replication=[[0, 2], [1, 2]],
                                            field=["layer_replication"])),
        "alora": ("llama", dict(small_llama, alora_invocation_tokens=[5, 44], field=["alora_invocation_tokens"])),
        "ia3": ("gpt2", dict(kind="IA3Config", target_modules=["c_attn"], feedforward_modules=[], field=["peft_type"])),
        "loha": ("llama", dict(kind="LoHaConfig", r=1, alpha=2, target_modules=["q_proj"], field=["peft_type"])),
        "head": ("llama", dict(r=1, lora_alpha=2, target_modules=["lm_head"], field=["target_modules"])),
        "embedding": ("llama", dict(r=1, lora_alpha=2, target_modules=["embed_tokens", "q_proj"], field=["target_modules"])),
        "embedding_gpt2": ("gpt2", dict(r=1, lora_alpha=2, target_modules=["wte"], field=["target_modules"])),
        "regex_backreference": ("gpt2", dict(no_layers, target_modules=r".*\.c_(attn)|(.)\2x", field=["target_modules"])),
        "embeddings_changed": ("gpt2", dict(small, copies=1.25, field=["wte.weight", "lm_head.weight"])),
        "rank_above_both": ("llama", dict(small_llama, r=17, target_modules=["k_proj"], field=["rank"])),
        "nan": ("gpt2", dict(small, tensors=one_value(float("nan")), peft_answers=False, field=["NaN"])),
        "infinity_float16": ("gpt2", dict(small, tensors=one_value(float("inf")), dtype="float16", peft_answers=False,
                                          field=["infinity"])),
        "tensor_renamed": ("gpt2", dict(small, tensors=rename, peft_answers=False, field=["lora_A", "lora_C"])),
        "tensor_missing": ("gpt2", dict(small, tensors=drop, peft_answers=False, field=["lora_B"])),
        "tensor_unknown": ("gpt2", dict(small, tensors=extra, peft_answers=False, field=["h.1.attn.c_attn"])),
        "tensors_transposed": ("gpt2", dict(small, tensors=transpose, peft_answers=False, field=["shape"])),
        "types_mixed": ("gpt2", dict(small, tensors=halve_b, field=["lora_B"])),
        "rank_of_config": ("gpt2", dict(small, edit=put("r", 4), peft_answers=False, field=["shape"])),
        "only_bin": ("gpt2", dict(small, only_bin=True, field=["adapter_model.safetensors"])),
        "cut_short": ("gpt2", dict(small, cut=40, peft_answers=False, field=["adapter_model.safetensors"])),
    }


# ---------------------------------------------------------------------------------------------------------- drawn recipes

DRAWN = 140  # a model
PREFIX = {"gpt2": "transformer.h.{}.", "llama": "model.layers.{}."}
LINEAR = {"gpt2": ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"],
          "llama": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                    "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]}
FEEDFORWARD = {"gpt2": ["mlp.c_proj"], "llama": ["mlp.down_proj"]}
EMBEDDING = {"gpt2": "wte", "llama": "embed_tokens"}
NORMS = {"gpt2": ["ln_f", "ln_1", "ln_2"], "llama": ["norm", "input_layernorm", "post_attention_layernorm"]}
INVOCATIONS = ("MOR", "&M", "*3", "17*", "TEN")  # parts of prompts


def chance(random, share):
    return random.random() < share


def draw_targets(random, model, most=4):
    """Names of linear layers: ends of paths, or whole paths of one layer."""
    found = random.sample(LINEAR[model], random.randint(1, min(most, len(LINEAR[model]))))
    if chance(random, 0.15):
        return [PREFIX[model].format(random.randrange(2)) + each for each in found]
    return sorted({each if chance(random, 0.3) else each.rsplit(".", 1)[1] for each in found})


def draw_pattern(random, model, targets, values):
    """A rank_pattern or alpha_pattern of one or two keys."""
    keys = [target.rsplit(".", 1)[-1] for target in targets] + [r".*\.1\..*", rf"^.*{targets[0].rsplit('.', 1)[-1]}$"]
    keys += [PREFIX[model].split(".", 1)[1].format(layer) + random.choice(LINEAR[model]) for layer in range(2)]
    return {key: random.choice(values) for key in random.sample(sorted(set(keys)), random.randint(1, 2))}


def draw_lora(random, model):
    """Plain LoRA with any of PEFT's fields, DoRA, biases, saved modules, trained tokens, embedding and head."""
    targets = draw_targets(random, model)
    rank = random.choice((1, 2, 3, 4, 5, 8, 11, 16))
    recipe = dict(r=rank, lora_alpha=random.choice((1, 2.5, rank, 2 * rank, 7, 16)), target_modules=targets,
                  use_rslora=chance(random, 0.25), dtype=random.choice(("float32", "float32", "float16", "bfloat16")))
    # DoRA in half precision is in golden data; here its magnitudes stay float32.
    if chance(random, 0.25):
        recipe |= dict(use_dora=True, dtype="float32")
    if chance(random, 0.25):
        recipe["layers_to_transform"] = random.choice(([0], [1], [0, 1], 1))
    if chance(random, 0.25):
        recipe["rank_pattern"] = draw_pattern(random, model, targets, (1, 3, 6, 9))
    if chance(random, 0.25):
        recipe["alpha_pattern"] = draw_pattern(random, model, targets, (1, 3, 10, 24))
    if chance(random, 0.1):
        recipe["exclude_modules"] = [PREFIX[model].format(random.randrange(2)) + random.choice(LINEAR[model])]
    extra = random.choice(("bias", "lora_bias", "saved", "tokens", "embedding", "head", *[None] * 6))
    if extra == "bias" and model == "gpt2":  # this Llama has no biases
        recipe["bias"] = random.choice(("all", "lora_only"))
    if extra == "lora_bias" and "use_dora" not in recipe:
        recipe["lora_bias"] = True
    if extra == "saved":
        recipe["modules_to_save"] = random.sample([*NORMS[model], EMBEDDING[model], "lm_head"], random.randint(1, 2))
    if extra == "tokens":
        indices = sorted(random.sample(range(94), random.randint(1, 5)))
        recipe["trainable_token_indices"] = random.choice((indices, {EMBEDDING[model]: indices}))
    if extra in ("embedding", "head") and "layers_to_transform" not in recipe:
        recipe["target_modules"] = targets + [EMBEDDING[model] if extra == "embedding" else "lm_head"]
    return recipe


def draw_other(random, model, kind):
    targets = draw_targets(random, model)
    if kind == "alora":
        text = random.choice(INVOCATIONS)
        return dict(r=random.choice((1, 4, 8)), lora_alpha=random.choice((2, 8)), target_modules=targets,
                    alora_invocation_tokens=[ord(c) - 33 for c in text])
    if kind == "ia3":
        inputs = [each for each in FEEDFORWARD[model] if chance(random, 0.7)]
        return dict(kind="IA3Config", target_modules=sorted({*targets, *inputs}), feedforward_modules=inputs)
    if kind == "vera":
        return dict(kind="VeraConfig", r=random.choice((2, 4, 8)), target_modules=targets, projection_prng_key=random.randrange(100),
                    d_initial=random.choice((0.1, 1.0)))
    rank = random.choice((2, 4, 6))
    return dict(kind="AdaLoraConfig", init_r=rank, target_r=max(1, rank // 2), total_step=10, lora_alpha=random.choice((4, 8, 32)),
                target_modules=targets)


def drawn(model):
    """{name: recipe}: random combinations of kinds and fields, always the same ones."""
    recipes = {}
    for number in range(DRAWN):
        random = Random(zlib.crc32(f"{model}/drawn/{number}".encode()))
        kind = random.choice((*["lora"] * 8, "alora", "ia3", "vera", "adalora"))
        recipes[f"drawn_{number:03}"] = draw_lora(random, model) if kind == "lora" else draw_other(random, model, kind)
    return recipes
