#!/usr/bin/env python3
"""Writes gguf_cases/: GGUF tensors of every type that is read, and their values by gguf-py.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0
    VENV/bin/python tests/checkpoint/make_gguf_cases.py

The tests gguf.cpp and gguf_writer.cpp compare with ==. There are three files:
- cases.gguf: 33 tensors, and a metadata entry of each kind;
- expected.safetensors: gguf.dequantize of each tensor, in float32;
- encoded.gguf: float32 values, and gguf.quantize of them in each type that is written.
"""
import json
import pathlib
import struct

import gguf
import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "gguf_cases"
TYPES = gguf.GGMLQuantizationType
# Byte offsets of the float16 scales of a block; other bytes can have any value.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
# Smallest subnormal, subnormal, smallest normal, minus zero, one third, minus one, largest.
HARD_HALVES = [0x0001, 0x03ff, 0x0400, 0x8000, 0x3555, 0xbc00, 0x7bff]


def random_blocks(rng, kind, shape):
    """Random codes under random scales."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    rows, blocks = shape[0], shape[1] // values
    data = rng.integers(0, 256, (rows, blocks, size), dtype=np.uint8)
    scales = rng.normal(0, 0.05, (rows, blocks, 2)).astype(np.float16)
    for k, offset in enumerate(SCALES[kind.name]):
        data[:, :, offset:offset + 2] = scales[:, :, k:k + 1].view(np.uint8)
    return data.reshape(rows, blocks * size)


def hard_blocks(rng, kind):
    """A row whose blocks have the scales that could round wrongly."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    data = random_blocks(rng, kind, (1, values * 2)).reshape(2, size)
    for block in range(2):
        for k, offset in enumerate(SCALES[kind.name]):
            half = HARD_HALVES[rng.integers(len(HARD_HALVES))] if block or k else HARD_HALVES[0]
            data[block, offset:offset + 2] = np.frombuffer(struct.pack("<H", half), np.uint8)
    return data.reshape(1, 2 * size)


def mxfp4_blocks(rng, exponents):
    """A row of blocks, an exponent of 8 bits before 16 bytes of codes."""
    codes = rng.integers(0, 256, (len(exponents), 16), dtype=np.uint8)
    return np.concatenate([np.array(exponents, np.uint8)[:, None], codes], axis=1).reshape(1, -1)


def tensors(rng):
    for name in SCALES:
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


def main():
    rng = np.random.default_rng(44)
    FOLDER.mkdir(exist_ok=True)
    write_encoded(FOLDER / "encoded.gguf")
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
