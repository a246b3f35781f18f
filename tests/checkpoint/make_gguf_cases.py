#!/usr/bin/env python3
"""Writes gguf_cases/: GGUF tensors of every type that is read, and their values by gguf-py.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0
    VENV/bin/python tests/checkpoint/make_gguf_cases.py

The tests gguf.cpp and gguf_writer.cpp compare with ==. There are four files:
- cases.gguf: 56 tensors, and a metadata entry of each kind;
- expected.safetensors: gguf.dequantize of each tensor, in float32;
- grids.gguf: a tensor of each type that has a grid, with every code of it, and SHA-256 of gguf.dequantize;
- encoded.gguf: float32 values, and gguf.quantize of them in each type that is written.
"""
import hashlib
import json
import pathlib
import struct

import gguf
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "gguf_cases"
TYPES = gguf.GGMLQuantizationType
# Byte offsets of the float16 scales of a block; other bytes can have any value.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64],
          "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0]}
# Smallest subnormal, subnormal, smallest normal, minus zero, one third, minus one, largest.
HARD_HALVES = [0x0001, 0x03ff, 0x0400, 0x8000, 0x3555, 0xbc00, 0x7bff]


def put_scale(data, kind, k, halves):
    """Sets scale k of blocks [..., bytes] to float16 numbers [...], given as their bits."""
    if kind == TYPES.IQ1_M:  # a nibble in each of the last 4 words
        for i in range(4):
            high = data[..., 49 + 2 * i]
            high[...] = high & 15 | (halves >> 4 * i & 15).astype(np.uint8) << 4
        return
    offset = SCALES[kind.name][k]
    data[..., offset], data[..., offset + 1] = halves & 255, halves >> 8


def random_blocks(rng, kind, shape):
    """Random codes under random scales."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    rows, blocks = shape[0], shape[1] // values
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    scales = rng.normal(0, 0.05, (rows, blocks, 2)).astype(np.float16)
    for k in range(len(SCALES.get(kind.name, [0]))):
        put_scale(data, kind, k, scales[:, :, k].view(np.uint16))
    return data.reshape(rows, blocks * size)


def hard_blocks(rng, kind):
    """A row whose blocks have the scales that could round wrongly."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = random_blocks(rng, kind, (1, values * 2)).reshape(2, size)
    for block in range(2):
        for k in range(len(SCALES.get(kind.name, [0]))):
            half = HARD_HALVES[rng.integers(len(HARD_HALVES))] if block or k else HARD_HALVES[0]
            put_scale(data[block], kind, k, np.uint16(half))
    return data.reshape(1, 2 * size)


def mxfp4_blocks(rng, exponents):
    """A row of blocks, an exponent of 8 bits before 16 bytes of codes."""
    codes = rng.integers(0, 256, (len(exponents), 16), dtype=np.uint8)
    return np.concatenate([np.array(exponents, np.uint8)[:, None], codes], axis=1).reshape(1, -1)


def nvfp4_blocks(rng):
    """A row of 64 blocks that has every byte as a scale, those with the bit of a sign, too."""
    codes = rng.integers(0, 256, (64, 32), dtype=np.uint8)
    return np.concatenate([np.arange(256, dtype=np.uint8).reshape(64, 4), codes], axis=1).reshape(1, -1)


def every_code(rng, name):
    """A row of random blocks in which each code of the grid comes once."""
    kind = TYPES[name]
    codes = getattr(gguf.quants, name).grid_shape[0]
    runs = 64 if name.startswith("IQ3") else 32  # codes of a block
    data = random_blocks(rng, kind, (1, codes // runs * 256)).reshape(codes // runs, -1)
    code = np.arange(codes).reshape(-1, runs)
    low, high = (code & 255).astype(np.uint8), (code >> 8).astype(np.uint8)
    packed = lambda bits: sum(high[:, k::8 // bits] << k * bits for k in range(8 // bits))
    if name == "IQ2_XXS":
        data[:, 2:].reshape(-1, 8, 8)[:, :, :4] = low.reshape(-1, 8, 4)
    elif name == "IQ2_XS":
        data[:, 2:66:2], data[:, 3:66:2] = low, data[:, 3:66:2] & 0xfe | high
    elif name == "IQ1_M":
        data[:, :32], data[:, 32:48] = low, data[:, 32:48] & 0x88 | packed(4)
    else:
        data[:, 2:2 + runs] = low
    if name == "IQ2_S":
        data[:, 66:74] = packed(2)
    elif name == "IQ3_S":
        data[:, 66:74] = packed(1)
    elif name == "IQ1_S":
        words = sum(high[:, k::4].astype(np.uint16) << 3 * k for k in range(4))
        data[:, 34:50] = (data[:, 34:50].copy().view(np.uint16) & 0xf000 | words).view(np.uint8)
    return data.reshape(1, -1), kind


def tensors(rng):
    yield from first_tensors(rng)
    weights = rng.normal(0, 0.02, (2, 256)).astype(np.float32)
    for name in (*list(SCALES)[list(SCALES).index("IQ4_XS"):], "IQ1_M"):
        kind = TYPES[name]
        yield f"random.{name}", random_blocks(rng, kind, (2, 256)), kind
        yield f"hard.{name}", hard_blocks(rng, kind), kind
    for name in ("TQ1_0", "TQ2_0"):
        yield f"quantized.{name}", gguf.quantize(weights, TYPES[name]), TYPES[name]
    yield "hard.NVFP4", nvfp4_blocks(rng), TYPES.NVFP4


def first_tensors(rng):
    for name in list(SCALES)[:list(SCALES).index("IQ4_XS")]:
        kind = TYPES[name]
        values = gguf.GGML_QUANT_SIZES[kind][0]
        yield f"random.{name}", random_blocks(rng, kind, (3, 96) if values == 32 else (2, 256)), kind
        yield f"hard.{name}", hard_blocks(rng, kind), kind
    weights = rng.normal(0, 0.02, (2, 64)).astype(np.float32)
    for name in ("Q4_0", "Q4_1", "Q8_0"):
        yield f"quantized.{name}", gguf.quantize(weights, TYPES[name]), TYPES[name]
    yield "F32", weights, TYPES.F32
    yield "F32.vector", weights[0], TYPES.F32
    yield "F16", weights.astype(np.float16), TYPES.F16
    yield "F16.all_exponents", np.arange(0, 0x7c00, 97, dtype=np.uint16).view(np.float16), TYPES.F16
    yield "BF16", gguf.quantize(weights, TYPES.BF16), TYPES.BF16
    yield "random.MXFP4", mxfp4_blocks(rng, [120, 127, 118, 130]), TYPES.MXFP4
    yield "hard.MXFP4", mxfp4_blocks(rng, [0, 1, 2, 3, 252]), TYPES.MXFP4  # subnormal, and nearly the largest
    yield "quantized.MXFP4", gguf.quantize(weights, TYPES.MXFP4), TYPES.MXFP4


def metadata(writer):
    writer.add_uint8("test.u8", 200)
    writer.add_int8("test.i8", -100)
    writer.add_uint16("test.u16", 60000)
    writer.add_int16("test.i16", -30000)
    writer.add_uint32("test.u32", 4000000000)
    writer.add_int32("test.i32", -2000000000)
    writer.add_uint64("test.u64", 2**63)
    writer.add_int64("test.i64", -2**62)
    writer.add_float32("test.f32", 0.1)
    writer.add_float64("test.f64", 0.1)
    writer.add_bool("test.bool", True)
    writer.add_string("test.string", "caf\u00e9")
    writer.add_array("test.strings", ["a", "", "bc"])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.5])
    writer.add_array("test.bools", [True, False])


def write_safetensors(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values()))


def values_to_encode(rng):
    """Rows of 64 values: ties, equal magnitudes, zeros, outliers, and random ones of all sizes."""
    rows = rng.normal(0, 0.05, (24, 64)) * 10.0 ** rng.integers(-6, 4, (24, 1))
    rows[0, :32] = np.linspace(-127, 127, 32).round() + 0.5  # halves, once divided by 1
    rows[0, 5] = 127
    rows[1, :32] = 0
    rows[2, :32] = [0.25, -0.25] * 16
    rows[3, :32] = [-0.25, 0.25] * 16
    rows[4, 3] = 900
    rows[5, 40] = -900
    rows[6, :32] = np.arange(-16, 16) / 2.0  # ties of Q4_0
    rows[7, :32] = -0.0
    rows[8] *= 0
    rows[8, 7] = 1e-7  # a scale that is a float16 subnormal
    rows[9] = rng.integers(-127, 128, 64)
    rows[10] = rng.integers(-8, 8, 64) * 0.125
    return rows.astype(np.float32)


def write_encoded(path):
    values = values_to_encode(np.random.default_rng(45))
    writer = gguf.GGUFWriter(str(path), "test")
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0"):
        data = gguf.quantize(values, TYPES[name])
        writer.add_tensor(name, data, raw_dtype=None if name in ("F32", "F16") else TYPES[name])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def comes_once(data, kind, code):
    """Whether the blocks have this code of the grid once: its entry is made NaN."""
    decoder = getattr(gguf.quants, kind.name)
    kept = decoder.grid[0, 0, code].copy()
    decoder.grid[0, 0, code] = np.nan
    count = np.isnan(gguf.dequantize(data, kind)).sum()
    decoder.grid[0, 0, code] = kept
    return count == decoder.grid_shape[1]


def write_grids(path):
    rng = np.random.default_rng(46)
    writer = gguf.GGUFWriter(str(path), "test")
    for name in ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"):
        data, kind = every_code(rng, name)
        values = gguf.dequantize(data, kind)
        assert values.dtype == np.float32 and np.isfinite(values).all(), name
        assert all(comes_once(data, kind, code) for code in range(getattr(gguf.quants, name).grid_shape[0])), name
        writer.add_tensor(name, data, raw_dtype=kind)
        writer.add_string("sha256." + name, hashlib.sha256(values.tobytes()).hexdigest())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    rng = np.random.default_rng(44)
    FOLDER.mkdir(exist_ok=True)
    write_encoded(FOLDER / "encoded.gguf")
    write_grids(FOLDER / "grids.gguf")
    writer = gguf.GGUFWriter(str(FOLDER / "cases.gguf"), "test")
    metadata(writer)
    expected = {}
    for name, data, kind in tensors(rng):
        writer.add_tensor(name, data, raw_dtype=kind)
        values = gguf.dequantize(data, kind)
        assert values.dtype == np.float32 and np.isfinite(values).all(), name
        expected[name] = values
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    write_safetensors(FOLDER / "expected.safetensors", expected)
    print(len(expected), "cases")


if __name__ == "__main__":
    main()
