"""Model folders for scripts/check-receipts: small reference models, each with a tokenizer, and the ways to damage one."""
import json
import math
import os
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parents[1]
TALES = ROOT / "examples" / "models" / "tales"
FOLDERS = ["golden_families", "golden_moe", "golden", "golden_adapters"]  # of the reference data
LETTERS = "etaoinshrdlucmfwygpbvkxjqz0123456789"


def spell_byte(byte):
    """GPT-2's printable character for a byte."""
    if 0x20 < byte < 0x7f or 0xa0 < byte <= 0xff and byte != 0xad:
        return chr(byte)
    return chr(256 + [b for b in range(256) if not (0x20 < b < 0x7f or 0xa0 < b <= 0xff and b != 0xad)].index(byte))


def tokenizer_of(vocab, special):
    """A byte-level tokenizer.json with `vocab` tokens: all bytes, or as much of ASCII as there is room for, then pairs of letters.
    special: ids of special tokens."""
    room = vocab - len(special)
    ascii = [*map(ord, LETTERS), *(b for b in [32, 10, *range(33, 127)] if chr(b) not in LETTERS)]
    singles = [spell_byte(b) for b in (range(256) if room >= 256 else ascii)][:room]
    pairs = [(a, b) for a in LETTERS for b in LETTERS][:room - len(singles)]
    spellings = iter(singles + [a + b for a, b in pairs])
    ids = {}
    for i in range(vocab):
        spelling = f"<|{i}|>" if i in special else next(spellings, None)
        if spelling is not None:
            ids[spelling] = i
    added = [{"id": i, "content": f"<|{i}|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i in sorted(special)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
            "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "vocab": ids, "merges": [f"{a} {b}" for a, b in pairs]}}


def link_all(source, target, but=()):
    target.mkdir(parents=True, exist_ok=True)
    for each in source.iterdir():
        if each.name not in but:
            (target / each.name).symlink_to(each)


class Adapter:
    def __init__(self, folder, may_be_refused):
        self.folder, self.may_be_refused = folder, may_be_refused
        self.config = json.loads((folder / "adapter_config.json").read_text())
        self.invocation = self.config.get("alora_invocation_tokens") or []
        # Compositions are sums of low-rank updates.
        self.is_plain = self.config["peft_type"] == "LORA" and not self.invocation and not any(
            self.config.get(key) for key in ["use_dora", "modules_to_save", "trainable_token_indices", "lora_bias"]) and (
            self.config.get("bias", "none") == "none" and not any("embedding" in n or "base_layer" in n for n in tensors_of(self.file)))

    @property
    def file(self):
        return self.folder / "adapter_model.safetensors"


class Model:
    """A folder below `into`: links to the files of `source`, and a tokenizer if `source` has none."""

    def __init__(self, source, into, name):
        self.name, self.source, self.folder = name, source, into / name
        config = json.loads((source / "config.json").read_text())
        self.type = config["model_type"]
        self.config = config.get("text_config", {}) | config  # of a model of images and texts
        self.vocab = self.config["vocab_size"]
        self.positions = next((self.config[key] for key in ["max_position_embeddings", "n_positions", "max_seq_len"] if self.config.get(key)), 512)
        link_all(source, self.folder)
        ends = self.config.get("eos_token_id")
        self.special = {i for i in [self.config.get("bos_token_id"), *(ends if isinstance(ends, list) else [ends])] if i is not None}
        self.has_all_bytes = self.vocab - len(self.special) >= 256  # constraints need them
        self.makes_tokenizer = not any((source / name).exists() for name in ["tokenizer.json", "vocab.json"])
        if self.makes_tokenizer:
            (self.folder / "tokenizer.json").write_text(json.dumps(tokenizer_of(self.vocab, self.special)))
            (self.folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        expected = source / "expected.json"
        sure = json.loads(expected.read_text()).get("adapters", {}) if expected.exists() else {}
        folders = sorted(p.parent for p in source.glob("adapters/*/adapter_config.json"))
        self.adapters = [Adapter(p, may_be_refused=bool(sure) and p.name not in sure or not sure and "golden_adapters" in name) for p in folders]

    def plain_adapters(self):
        """The adapters that compositions are made of."""
        return [a for a in self.adapters if a.is_plain and not a.may_be_refused]


def find_models(reference, into):
    """All models, and lines that name the folders which are missing."""
    sources, missing = [], []
    for folder in FOLDERS:
        found = sorted(p.parent for p in (reference / folder).glob("*/config.json"))
        sources += [(p, f"{folder}.{p.name}") for p in found]
        if not found:
            missing.append(f"skipped: {reference / folder} has no models")
    sources += [(p.parent, f"tests.{p.parent.name}") for p in sorted((ROOT / "tests" / "golden").glob("*/config.json"))]
    sources.append((TALES, "tales"))
    return [Model(source, into, name) for source, name in sources], missing


# ---- damage

SIZES = {"F32": 4, "F16": 2, "BF16": 2}
MANTISSA = {"F32": 23, "F16": 10, "BF16": 7}
# Bits that the format keeps of a float32, above the lowest one. Others may be lost when the format rounds.
KEPT_MANTISSA = {"float32": 23, "bfloat16": 7, "bfloat16_dot": 7, "bfloat16_amx": 7, "float16": 10}


def tensors_of(file):
    """{name: (dtype, shape, first byte, end)} of a safetensors file."""
    with open(file, "rb") as stream:
        size, = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(size))
    return {name: (t["dtype"], t["shape"], 8 + size + t["data_offsets"][0], 8 + size + t["data_offsets"][1])
            for name, t in header.items() if name != "__metadata__"}


def values_of(data, dtype):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
    return [v for v, in struct.iter_unpack("<f" if dtype == "F32" else "<e", data)]


def flip(file, at, bit, size):
    """Flips a bit of the little-endian number of `size` bytes at byte `at`. A link becomes a file of its own."""
    data = bytearray(file.read_bytes())
    number = int.from_bytes(data[at:at + size], "little") ^ 1 << bit
    data[at:at + size] = number.to_bytes(size, "little")
    file.unlink()
    file.write_bytes(data)


def flip_weight(model, folder, weights, rng):
    """Flips a bit that the decoded weights depend on; says which.

    A float format keeps the sign and the upper bits of the mantissa, so any of these bits of a number that is not 0 will do. Formats
    of codes round to a few levels: a low bit, or the sign of a small number, may leave the code as it was, and then the model is the
    same. The largest magnitude of a tensor has the outermost code of its row and group, whose sign the code keeps."""
    file = folder / rng.choice(sorted(p.name for p in folder.glob("model*.safetensors")))
    ignored = ["masked_bias", "inv_freq"]  # of old checkpoints; and a head that is tied is the embedding
    if model.config.get("tie_word_embeddings", True):
        ignored.append("lm_head")
    names = [n for n in sorted(tensors_of(file)) if not any(part in n for part in ignored)]
    while True:
        name = rng.choice(names)
        dtype, _, begin, end = tensors_of(file)[name]
        values = values_of(file.read_bytes()[begin:end], dtype)
        if any(values):
            break
    size, mantissa = SIZES[dtype], MANTISSA[dtype]
    sign = 8 * size - 1
    if weights in KEPT_MANTISSA:
        index = rng.choice([i for i, v in enumerate(values) if abs(v) > 1e-4] or [max(range(len(values)), key=lambda i: abs(values[i]))])
        bit = rng.choice([sign, *range(max(0, mantissa - KEPT_MANTISSA[weights]), mantissa)])
    else:
        index, bit = max(range(len(values)), key=lambda i: abs(values[i])), sign
    flip(file, begin + size * index, bit, size)
    return f"{file.name} {name}[{index}] bit {bit}"


def change_config(model, folder, rng):
    """Changes a field that the answers depend on; says which. None: this configuration has none of those known here."""
    config = json.loads(json.dumps(model.config))
    ways = []

    def scale(fields, key, factor):
        if isinstance(fields.get(key), (int, float)) and not isinstance(fields[key], bool) and fields[key]:
            ways.append((key, lambda: fields.__setitem__(key, fields[key] * factor)))

    for key in ["layer_norm_epsilon", "rms_norm_eps", "layer_norm_eps", "norm_epsilon"]:
        scale(config, key, 2)
    # ALiBi and models without positions read a rope_theta that has no effect.
    turns = not config.get("alibi") and (config["model_type"] != "granitemoehybrid" or config.get("position_embedding_type") == "rope")
    for key in ["rope_theta", "rotary_emb_base"] * turns + ["logit_scale", "logits_scaling", "attention_multiplier", "residual_multiplier",
                "embedding_multiplier", "final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar", "swiglu_limit"]:
        scale(config, key, 1.5)
    for rope in [] if not turns else [config.get("rope_parameters") or {}, *(v for v in (config.get("rope_parameters") or {}).values() if isinstance(v, dict))]:
        scale(rope, "rope_theta", 1.5)
        if rope.get("rope_type") in ("linear", "yarn", "llama3"):
            scale(rope, "factor", 1.5)
    if config.get("use_sliding_window", True) and config.get("sliding_window"):
        ways.append(("sliding_window", lambda: config.__setitem__("sliding_window", config["sliding_window"] + 1)))
    if isinstance(config.get("eos_token_id"), int):
        others = [i for i in range(config["vocab_size"]) if i not in model.special]
        ways.append(("eos_token_id", lambda: config.__setitem__("eos_token_id", rng.choice(others))))
    if not ways:
        return None
    name, change = rng.choice(ways)
    change()
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(json.dumps(config))
    return name


def change_tokenizer(model, folder, rng):
    """Exchanges the ids of two tokens, so that both have other texts."""
    name = "tokenizer.json" if model.makes_tokenizer else "vocab.json"
    json_of = json.loads((folder / name).read_text())
    ids = json_of["model"]["vocab"] if model.makes_tokenizer else json_of
    a, b = rng.sample(sorted(name for name in ids if not name.startswith("<|")), 2)
    ids[a], ids[b] = ids[b], ids[a]
    (folder / name).unlink()
    (folder / name).write_text(json.dumps(json_of))
    return f"{a!r} and {b!r}"


def flip_adapter(adapter, folder, rng):
    """Flips a bit of a factor; says which. None: no tensor here is known to count.

    Factors that count as they are stored may lose any bit of their mantissa. AdaLoRA and VeRA multiply factors and round once, so
    there only the mantissa's highest bit is sure to be seen. Copies of the base's layers must be equal to them: no bit of those."""
    derived = adapter.config["peft_type"] in ("ADALORA", "VERA")
    parts = ["lora_B", "lora_E", "vera_lambda_b", "ia3_l"] if derived or adapter.config["peft_type"] == "IA3" else ["lora_A", "lora_B", "magnitude"]
    file = folder / "adapter_model.safetensors"
    names = [n for n in sorted(tensors_of(file)) if any(part in n for part in parts)]
    rng.shuffle(names)
    for name in names:
        dtype, _, begin, end = tensors_of(file)[name]
        values = values_of(file.read_bytes()[begin:end], dtype)
        counting = [i for i, v in enumerate(values) if v and math.isfinite(v)]
        if not counting:
            continue
        index, top = rng.choice(counting), MANTISSA[dtype] - 1
        bit = top if derived else rng.randrange(top + 1)
        flip(file, begin + SIZES[dtype] * index, bit, SIZES[dtype])
        return f"{name}[{index}] bit {bit}"
    return None


def change_adapter_config(adapter, folder, rng):
    """Changes a field that the adapter's effect depends on; says which. None: none is known here."""
    config = json.loads(json.dumps(adapter.config))
    ways = []
    if config.get("lora_alpha") and not config.get("alpha_pattern"):
        ways.append("lora_alpha")
    if config.get("alora_invocation_tokens"):
        ways.append("alora_invocation_tokens")
    if not ways:
        return None
    name = rng.choice(ways)
    if name == "lora_alpha":
        config[name] *= rng.choice([0.5, 2, 3])
    else:
        config[name][rng.randrange(len(config[name]))] ^= 1
    (folder / "adapter_config.json").unlink()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return name


def copy_of(source, into, number):
    """A folder of links that may be damaged."""
    folder = into / f"{os.path.basename(source)}.{number}"
    link_all(source, folder)
    return folder
