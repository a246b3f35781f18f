"""The cases of scripts/config-conformance for decoders of models of images and texts, whose fields are in text_config.

recipes_of_images() gives {name: (config, refusal, like)}. `like` is another spelling of the same configuration, by
which transformers 4.57.6 answers: it does not read all that transformers 5 writes. It is None for `config` itself.
"""
from config_families import FULL, HIDDEN, LLAMAS, MISSING, POSITIONS, QWEN, SLIDING, WINDOW, YARN, without

SECTIONS = dict(mrope_section=[1, 1, 2])  # heads of 8
EYE = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=14,
           patch_size=7)
QWEN_EYE = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, patch_size=7, out_hidden_size=HIDDEN)
QWEN_VL = QWEN | dict(layer_types=[SLIDING, FULL], rope_scaling=dict(type="mrope", **SECTIONS))
QWEN3_VL = without(QWEN_VL, "use_sliding_window", "sliding_window", "max_window_layers", "layer_types") | dict(
    head_dim=8, attention_bias=False, rope_scaling=dict(rope_type="default", mrope_interleaved=True, **SECTIONS))
LLAMA_TEXT = dict(model_type="llama") | LLAMAS["llama"]
# {model_type: (text_config, vision_config)}
IMAGES = {
    "gemma3": (LLAMAS["gemma3_text"] | dict(model_type="gemma3_text"), EYE),
    "mistral3": (LLAMAS["mistral"] | dict(model_type="mistral"), EYE | dict(model_type="pixtral", head_dim=8)),
    "qwen2_vl": (QWEN_VL, without(QWEN_EYE, "out_hidden_size", "intermediate_size") | dict(
        embed_dim=16, hidden_size=HIDDEN, mlp_ratio=1)),
    "qwen2_5_vl": (QWEN_VL, QWEN_EYE),
    "qwen3_vl": (QWEN3_VL, QWEN_EYE | dict(deepstack_visual_indexes=[0], num_position_embeddings=4)),
    "smolvlm": (LLAMA_TEXT, EYE),
    "idefics3": (LLAMA_TEXT, EYE),
}
FLAT = ("qwen2_vl", "qwen2_5_vl")  # older files have the decoder's fields at the top
SIZES = set("""model_type vocab_size hidden_size num_hidden_layers num_attention_heads num_key_value_heads
intermediate_size max_position_embeddings""".split())
# Class defaults that make transformers fail or do not fit the sizes.
NEEDED = {"qwen3_vl": {"head_dim", "rope_scaling"}} | dict.fromkeys(FLAT, {"rope_scaling"})


def made(kind, text={}, top={}):
    """The plain configuration with these fields in text_config and at the top; MISSING takes one away."""
    given = lambda fields: {field: value for field, value in fields.items() if value is not MISSING}
    plain, eye = IMAGES[kind]
    return given({"model_type": kind, "text_config": given({**plain, **text}), "vision_config": eye, **top})


def flat(kind, text={}, top={}):
    """The same with the decoder's fields at the top."""
    config = made(kind, text, top)
    return {**config.pop("text_config"), **config}


def by_transformers_5(kind, text={}, top={}):
    """The spelling of transformers 5: rope_parameters, and tie_word_embeddings at the top."""
    config = made(kind, text, top)
    fields = config["text_config"]
    rope = {"rope_type": "default", **(fields.pop("rope_scaling", None) or {}), "rope_theta": fields.pop("rope_theta")}
    if kind == "gemma3":
        local = dict(rope_type="default", rope_theta=fields.pop("rope_local_base_freq"))
        rope = dict(full_attention=rope, sliding_attention=local)
    fields["rope_parameters"] = rope
    return config | dict(dtype="float32", transformers_version="5.24.0",
                         tie_word_embeddings=fields["tie_word_embeddings"])


def places():
    """Fields in text_config, at the top, and in both."""
    for kind, (plain, _) in IMAGES.items():
        yield kind, "plain", made(kind)
        needed = SIZES | NEEDED.get(kind, set())
        yield kind, "defaults", made(kind, {field: MISSING for field in plain if field not in needed})
        yield kind, "text_config without model_type", made(kind, dict(model_type=MISSING))
        # The decoder's fields count, whatever stands at the top.
        other = dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=8, vocab_size=99, rms_norm_eps=0.5,
                     rope_theta=7.5, head_dim=4, hidden_act="relu", sliding_window=2, max_position_embeddings=8)
        yield kind, "other fields at the top", made(kind, top=other)
        yield kind, "spelling of transformers 5", by_transformers_5(kind), made(kind)
    for kind in FLAT:
        yield kind, "fields at the top", flat(kind)
        yield kind, "tied fields at the top", flat(kind, dict(tie_word_embeddings=True))
        yield kind, "fields at the top with linear", flat(
            kind, dict(rope_scaling=dict(type="linear", factor=2.5, **SECTIONS)))


def heads():
    """tie_word_embeddings in either place. transformers 5 writes the one at the top, and goes by the file's tensors."""
    for kind in IMAGES:
        tied = lambda text, top=MISSING: made(kind, dict(tie_word_embeddings=text), dict(tie_word_embeddings=top))
        for text, top in ((True, MISSING), (False, MISSING), (MISSING, MISSING), (True, False), (False, True),
                          (MISSING, True), (MISSING, False)):
            yield kind, f"tied: {named(text)} in text_config, {named(top)} at the top", tied(text, top)
        # Files of transformers 5, whose tensors are those of the last configuration.
        for text in (False, MISSING):
            yield kind, f"tied by transformers 5, {named(text)} in text_config", tied(text, True), tied(True)
        if kind not in FLAT:  # they copy true from text_config to the top
            for text in (True, MISSING):
                yield kind, f"untied by transformers 5, {named(text)} in text_config", tied(text, False), tied(False)


def named(value):
    return "missing" if value is MISSING else str(value).lower()


def rotary():
    """Types of rope_scaling. In the old spelling of Qwen2-VL and 2.5-VL, `type` replaces rope_type."""
    for kind in FLAT:
        scaled = lambda **members: made(kind, dict(rope_scaling=members | SECTIONS))
        types = {"linear": dict(factor=2.5), "yarn": YARN, "dynamic": dict(factor=2.0)}
        for rope, members in types.items():
            yield kind, f"{rope} by type", scaled(type=rope, **members)
        yield kind, "linear by rope_type", scaled(rope_type="linear", **types["linear"])
        for rope, other in (("linear", "default"), ("linear", "yarn"), ("yarn", "linear"), ("mrope", "default"),
                            ("mrope", "linear"), ("default", "linear")):
            yield kind, f"{rope} by type, {other} by rope_type", scaled(type=rope, rope_type=other, **YARN)
        # In transformers 5 rope_type counts.
        both = dict(rope_scaling=dict(type="mrope", rope_type="linear", factor=2.5, **SECTIONS))
        yield kind, "linear by rope_type, mrope by type, of transformers 5", by_transformers_5(kind, both), scaled(
            rope_type="linear", factor=2.5)
    for rope, members in {"linear": dict(factor=2.5), "yarn": YARN}.items():
        yield "qwen3_vl", rope, made("qwen3_vl", dict(rope_scaling=dict(rope_type=rope, **members, **SECTIONS)))
        for kind in ("gemma3", "mistral3", "smolvlm", "idefics3"):
            yield kind, rope, made(kind, dict(rope_scaling=dict(rope_type=rope, **members)))
    both = dict(rope_type="linear", type="mrope", factor=2.5, **SECTIONS)
    yield "qwen3_vl", "linear by rope_type, mrope by type", made("qwen3_vl", dict(rope_scaling=both))


def fields_of_decoders():
    for kind in ("gemma3", *FLAT):
        yield kind, "layer_types=[full,sliding]", made(kind, dict(layer_types=[FULL, SLIDING]))
        yield kind, "layer_types=missing", made(kind, dict(layer_types=MISSING))
    for kind in FLAT:
        yield kind, "no window", made(kind, dict(use_sliding_window=False, layer_types=MISSING))
        yield kind, "windows from layer 0", made(kind, dict(max_window_layers=0, layer_types=MISSING))
    yield "gemma3", "no soft cap", made("gemma3", dict(final_logit_softcapping=None))
    # Its Mistral has the window in all layers, whatever layer_types says.
    for name, types in {"full": [FULL, FULL], "sliding": [SLIDING, SLIDING], "null": None}.items():
        yield "mistral3", f"layer_types={name}", made("mistral3", dict(layer_types=types))
    yield "mistral3", "full layers and the default window", made(
        "mistral3", dict(sliding_window=MISSING, layer_types=[FULL, FULL]))
    yield "mistral3", "no window", made("mistral3", dict(sliding_window=None))
    yield "mistral3", "heads of 8", made("mistral3", dict(head_dim=MISSING))
    yield "qwen3_vl", "biases", made("qwen3_vl", dict(attention_bias=True))
    yield "qwen3_vl", "heads of 16", made("qwen3_vl", dict(
        head_dim=16, rope_scaling=dict(rope_type="default", mrope_section=[3, 3, 2])))
    for kind in ("smolvlm", "idefics3"):
        yield kind, "biases", made(kind, dict(attention_bias=True, mlp_bias=True))
        yield kind, "window as long as the text", made(kind, dict(sliding_window=POSITIONS))


def refusals():
    for kind in ("smolvlm", "idefics3", "qwen3_vl"):
        yield kind, "window of the cache alone", made(kind, dict(sliding_window=WINDOW)), "sliding_window"
    for kind in IMAGES:
        if kind not in FLAT:
            yield kind, "no text_config", {**made(kind)["text_config"], "model_type": kind}, "text_config"
        yield kind, "a classifier", made(kind, top=dict(architectures=["AForSequenceClassification"])), "architectures"
        yield kind, "another decoder", made(kind, dict(model_type="gpt2")), "model_type"
    yield "mistral3", "two kinds of layers", made("mistral3", dict(layer_types=[FULL, SLIDING])), "layer_types"
    yield "gemma3", "bidirectional attention", made(
        "gemma3", dict(use_bidirectional_attention=True)), "use_bidirectional_attention"


def recipes_of_images():
    found = {}
    for group in (places, heads, rotary, fields_of_decoders):
        for kind, name, config, *like in group():
            name = f"{kind}/{name}"
            assert name not in found, name
            found[name] = config, None, (like or [None])[0]
    for kind, name, config, field in refusals():
        found[f"{kind}/{name}"] = config, ("not supported", [field]), None
    return found
