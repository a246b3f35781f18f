"""Writes GGUF files for the tests: the default model as the converter of llama.cpp would write it."""
import array
import json
import random
import struct

import support

F16, ALIGNMENT = 1, 32
STEMS = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm", "ln_1": "attn_norm", "attn.c_attn": "attn_qkv",
         "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}


# Types of blocks of 256 values: number, bytes, place of the float16 scale, largest value under a scale of 1.
BLOCKS = {"Q2_K": (10, 84, 80, 45), "Q3_K": (11, 110, 108, 128), "IQ4_XS": (23, 136, 0, 4064), "TQ1_0": (34, 54, 52, 1),
          "TQ2_0": (35, 66, 64, 2), "IQ2_XXS": (16, 66, 0, 167), "IQ2_XS": (17, 74, 0, 167), "IQ2_S": (22, 82, 0, 167),
          "IQ3_XXS": (18, 98, 0, 481), "IQ3_S": (21, 110, 0, 465), "IQ1_S": (19, 50, 0, 17)}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    """A key with its value: bool, int (u32), float (f32), str, or a list of str or int (i32)."""
    if isinstance(value, bool):
        body = struct.pack("<IB", 7, value)
    elif isinstance(value, int):
        body = struct.pack("<II", 4, value)
    elif isinstance(value, float):
        body = struct.pack("<If", 6, value)
    elif isinstance(value, str):
        body = struct.pack("<I", 8) + text(value)
    elif value and isinstance(value[0], str):
        body = struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    else:
        body = struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return text(key) + body


def write(path, metadata, tensors):
    """tensors: {name: (shape with rows first, type, bytes)}."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(entry(key, value) for key, value in metadata.items())
    data = b""
    for name, (shape, kind, values) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += values + bytes(-len(values) % ALIGNMENT)
    path.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)


def write_parts(folder, stem, metadata, tensors, count):
    """The parts of llama-gguf-split --no-tensor-first-split: the first has the metadata alone. Returns its path."""
    names, each = list(tensors), -(-len(tensors) // (count - 1))
    for number in range(count):
        keys = {"split.no": number, "split.count": count, "split.tensors.count": len(tensors)}
        some = names[(number - 1) * each:number * each] if number else []
        write(folder / part_name(stem, number + 1, count), keys if number else {**metadata, **keys}, {name: tensors[name] for name in some})
    return folder / part_name(stem, 1, count)


def part_name(stem, part, count):
    return f"{stem}-{part:05d}-of-{count:05d}.gguf"


def random_blocks(rng, name, values):
    """Blocks of a type with random codes, whose values are at most 0.1."""
    _, size, place, largest = BLOCKS[name]
    out = bytearray(rng.randbytes(values // 256 * size))
    for block in range(0, len(out), size):
        struct.pack_into("<e", out, block + place, 0.1 / largest)
        if name == "Q2_K":  # the minimum has a scale, too
            struct.pack_into("<e", out, block + place + 2, 0.1 / 45)
    return bytes(out)


def mixed_tensors():
    """The default model's tensors; those of its layers that have rows of 256 values are random blocks of each type in turn."""
    rng, tensors, turn = random.Random(5), tales_tensors(), 0
    for name, (shape, _, _) in tensors.items():
        if name.startswith("blk.") and len(shape) == 2 and shape[1] % 256 == 0:
            kind = list(BLOCKS)[turn % len(BLOCKS)]
            tensors[name] = (shape, BLOCKS[kind][0], random_blocks(rng, kind, shape[0] * shape[1]))
            turn += 1
    return tensors


def tales_metadata():
    config = json.loads((support.TALES / "config.json").read_text())
    vocabulary = json.loads((support.TALES / "vocab.json").read_text())
    merges = [line for line in (support.TALES / "merges.txt").read_text().split("\n") if line and not line.startswith("#")]
    end = config["eos_token_id"]
    return {"general.architecture": "gpt2", "general.name": "tales", "gpt2.block_count": config["n_layer"],
            "gpt2.context_length": config["n_positions"], "gpt2.embedding_length": config["n_embd"],
            "gpt2.feed_forward_length": 4 * config["n_embd"], "gpt2.attention.head_count": config["n_head"],
            "gpt2.attention.layer_norm_epsilon": float(config["layer_norm_epsilon"]), "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": sorted(vocabulary, key=vocabulary.get),
            "tokenizer.ggml.token_type": [3 if i == end else 1 for i in range(len(vocabulary))],
            "tokenizer.ggml.merges": merges, "tokenizer.ggml.bos_token_id": end, "tokenizer.ggml.eos_token_id": end}


def tales_tensors():
    data = (support.TALES / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, info in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        assert info["dtype"] == "F16", name
        begin, end = (8 + length + offset for offset in info["data_offsets"])
        shape, values = info["shape"], data[begin:end]
        stem, kind = name.removeprefix("transformer.").rsplit(".", 1)
        layer = ""
        if stem.startswith("h."):
            _, number, stem = stem.split(".", 2)
            layer = f"blk.{number}."
        if layer and len(shape) == 2:  # Conv1D: the converter transposes it
            halves = array.array("H", values)
            values = b"".join(halves[column::shape[1]].tobytes() for column in range(shape[1]))
            shape = shape[::-1]
        tensors[f"{layer}{STEMS[stem]}.{kind}"] = (shape, F16, values)
    return tensors


def write_tales(path, **changes):
    """The default model. `changes` are of metadata; a key's dots are written __, and None removes the key."""
    metadata = tales_metadata()
    for key, value in changes.items():
        metadata[key.replace("__", ".")] = value
    write(path, {key: value for key, value in metadata.items() if value is not None}, tales_tensors())
    return path
