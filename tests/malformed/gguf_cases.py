"""Malformed GGUF files: a sound file of a small GPT-2, and one fault in each copy.

    gguf_cases.py FOLDER        writes them all; cases() yields (name, bytes, words that the error must have)
"""
import pathlib
import random
import struct
import sys


F32, F16, Q4_0, Q8_0, IQ4_XS, IQ1_M = 0, 1, 2, 8, 23, 29
ALIGNMENT, WIDTH, INNER, VOCABULARY = 32, 32, 256, 258


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(value):
    """Type and value: bool, int (u32), float (f32), str or bytes, and lists of str or int (i32). A tuple is (type, raw bytes)."""
    if isinstance(value, tuple):
        return struct.pack("<I", value[0]) + value[1]
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, (str, bytes)):
        return struct.pack("<I", 8) + text(value)
    if value and isinstance(value[0], (str, bytes)):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if value and isinstance(value[0], float):
        return struct.pack("<IIQ", 9, 6, len(value)) + struct.pack(f"<{len(value)}f", *value)
    return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)


def byte_spellings():
    """The characters that stand for bytes in GPT-2's vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (chr(256 + i) for i in range(256))
    return [chr(byte) if byte in plain else next(others) for byte in range(256)]


class Gguf:
    """The parts of a file, to be changed before it is written."""

    def __init__(self):
        self.magic, self.version, self.alignment = b"GGUF", 3, ALIGNMENT
        self.counts = None  # (tensors, entries), if other than true
        self.metadata = {"general.architecture": "gpt2", "gpt2.block_count": 1, "gpt2.context_length": 16,
                         "gpt2.embedding_length": WIDTH, "gpt2.feed_forward_length": INNER, "gpt2.attention.head_count": 2,
                         "gpt2.attention.layer_norm_epsilon": 1e-5, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
                         "tokenizer.ggml.tokens": [*byte_spellings(), "th", "<|endoftext|>"],
                         "tokenizer.ggml.token_type": [1] * 257 + [3], "tokenizer.ggml.merges": ["t h"],
                         "tokenizer.ggml.eos_token_id": 257}
        self.extra = b""  # entries in bytes, counted by extra_entries
        self.extra_entries = 0
        self.tensors, self.offsets, self.shapes = {}, {}, {}  # name: [shape, type, bytes]; other offsets and shapes
        rng = random.Random(7)
        for name, shape, kind in (("token_embd.weight", [VOCABULARY, WIDTH], F16), ("position_embd.weight", [16, WIDTH], F32),
                                  ("output_norm.weight", [WIDTH], F32), ("output_norm.bias", [WIDTH], F32),
                                  ("blk.0.attn_norm.weight", [WIDTH], F32), ("blk.0.attn_norm.bias", [WIDTH], F32),
                                  ("blk.0.attn_qkv.weight", [96, WIDTH], Q8_0), ("blk.0.attn_qkv.bias", [96], F32),
                                  ("blk.0.attn_output.weight", [WIDTH, WIDTH], F32), ("blk.0.attn_output.bias", [WIDTH], F32),
                                  ("blk.0.ffn_norm.weight", [WIDTH], F32), ("blk.0.ffn_norm.bias", [WIDTH], F32),
                                  ("blk.0.ffn_up.weight", [INNER, WIDTH], Q4_0), ("blk.0.ffn_up.bias", [INNER], F32),
                                  ("blk.0.ffn_down.weight", [WIDTH, INNER], F16), ("blk.0.ffn_down.bias", [WIDTH], F32)):
            self.tensors[name] = [shape, kind, self.values(shape, kind, rng)]

    @staticmethod
    def values(shape, kind, rng):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        if kind in (Q4_0, Q8_0):
            codes = 16 if kind == Q4_0 else 32
            return b"".join(struct.pack("<e", 0.01) + rng.randbytes(codes) for _ in range(count // 32))
        numbers = [rng.gauss(0, 0.1) for _ in range(count)]
        return struct.pack(f"<{count}{'f' if kind == F32 else 'e'}", *numbers)

    def bytes(self):
        tensors, entries = self.counts or (len(self.tensors), len(self.metadata) + self.extra_entries)
        head = self.magic + struct.pack("<IQQ", self.version, tensors, entries)
        head += b"".join(text(key) + value_bytes(value) for key, value in self.metadata.items()) + self.extra
        data = b""
        for name, (shape, kind, values) in self.tensors.items():
            shape = self.shapes.get(name, shape)
            head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
            head += struct.pack("<IQ", kind, self.offsets.get(name, len(data)))
            data += values + bytes(-len(values) % self.alignment)
        return head + bytes(-len(head) % self.alignment) + data


def key(name, value):
    """A change of one entry; None removes it."""
    def change(file):
        if value is None:
            del file.metadata[name]
        else:
            file.metadata[name] = value
    return change


def element(name, index, value):
    def change(file):
        file.metadata[name] = list(file.metadata[name])
        file.metadata[name][index] = value
    return change


def field(name, **fields):
    """A change of a tensor: `shape` and `offset` as the header gives them, `kind`, or `at` and `put` of its bytes."""
    def change(file):
        tensor = file.tensors[name]
        if "shape" in fields:
            file.shapes[name] = fields["shape"]
        if "offset" in fields:
            file.offsets[name] = fields["offset"]
        tensor[1] = fields.get("kind", tensor[1])
        if "put" in fields:
            at, put = fields["at"], fields["put"]
            tensor[2] = tensor[2][:at] + put + tensor[2][at + len(put):]
    return change


def blocks(kind, sound, other=None):
    """ffn_down in blocks of 256 values: block 5 is the other one."""
    def change(file):
        tensor = file.tensors["blk.0.ffn_down.weight"]
        tensor[1], tensor[2] = kind, sound * 5 + (other or sound) + sound * (WIDTH - 6)
    return change


def removed(name):
    def change(file):
        del file.tensors[name]
    return change


def renamed(name, to):
    def change(file):
        file.tensors = {to if each == name else each: tensor for each, tensor in file.tensors.items()}
    return change


def parts(**values):
    def change(file):
        for name, value in values.items():
            setattr(file, name, value)
    return change


def one_more(entries):
    def change(file):
        file.counts = (len(file.tensors), len(file.metadata) + entries)
    return change


def split(number, count):
    def change(file):
        file.metadata.update({"split.no": number, "split.count": count, "split.tensors.count": len(file.tensors)})
    return change


HALF_NAN, HALF_INFINITY, FLOAT_NAN = b"\x00\x7e", b"\x00\x7c", struct.pack("<f", float("nan"))
TOKENS, MERGES, KINDS = "tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.ggml.token_type"
# Faults of the parts: name, change, words of the error.
FAULTS = [
    ("magic_of_ggml", parts(magic=b"ggjt"), ["is no GGUF file"]),
    ("version_1", parts(version=1), ["the version", "1"]),
    ("version_of_a_big_endian_file", parts(version=0x03000000), ["big-endian"]),
    ("one_entry_too_many", one_more(1), ["truncated"]),
    ("one_entry_too_few", one_more(-1), ["eos_token_id", "is not read"]),
    ("tensors_2_63", parts(counts=(1 << 63, 13)), ["tensors", "limit"]),
    ("entries_2_63", parts(counts=(16, 1 << 63)), ["metadata entries", "truncated"]),
    ("key_length_2_63", parts(extra=struct.pack("<Q", 1 << 63), extra_entries=1), ["metadata entry 13"]),
    ("key_with_nul", parts(extra=text("a\0b") + struct.pack("<II", 4, 1), extra_entries=1), ["control characters"]),
    ("key_twice", parts(extra=text("gpt2.block_count") + struct.pack("<II", 4, 2), extra_entries=1), ["gpt2.block_count", "twice"]),
    ("list_of_2_61_texts", key("general.tags", (9, struct.pack("<IQ", 8, 1 << 61))), ["general.tags", "truncated"]),
    ("list_of_lists", key("general.tags", (9, struct.pack("<IQ", 9, 0))), ["general.tags", "list of lists"]),
    ("text_past_the_end", key("general.name", (8, struct.pack("<Q", 1 << 40))), ["general.name", "truncated"]),
    ("truth_value_7", key("tokenizer.ggml.add_bos_token", (7, b"\7")), ["add_bos_token", "0 or 1"]),
    ("alignment_24", key("general.alignment", 24), ["general.alignment", "power of two"]),
    ("split_without_a_number", key("split.count", 2), ["split.no", "missing"]),
    ("split_by_another_name", split(0, 2), ["split.count", "must end with -00001-of-00002.gguf"]),
    ("second_of_two", split(1, 2), ["split.no", "part 2 of 2", "name the first"]),
    ("split_number_past_the_end", split(2, 2), ["split.no"]),
    ("split_in_2_31", split(0, 1 << 31), ["split.count"]),
    ("no_dimension_of_a_matrix", field("blk.0.ffn_down.weight", shape=[]), ["blk.0.ffn_down.weight", "shape"]),
    ("dimension_0", field("blk.0.ffn_down.weight", shape=[0, 64]), ["blk.0.ffn_down.weight", "shape"]),
    ("dimension_2_63", field("blk.0.ffn_down.weight", shape=[32, 1 << 63]), ["blk.0.ffn_down.weight", "2^64"]),
    ("shape_turned", field("blk.0.ffn_down.weight", shape=[64, 32]), ["blk.0.ffn_down.weight", "shape"]),
    ("row_of_half_a_block", field("blk.0.ffn_up.weight", shape=[128, 16]), ["blk.0.ffn_up.weight", "multiple of 32"]),
    ("type_that_was_removed", field("blk.0.ffn_up.weight", kind=4), ["blk.0.ffn_up.weight", "the type 4"]),
    ("type_q8_k", field("blk.0.ffn_up.weight", kind=15), ["blk.0.ffn_up.weight", "Q8_K", "is not read"]),
    ("row_of_an_eighth_of_a_block", field("blk.0.ffn_up.weight", kind=19), ["blk.0.ffn_up.weight", "multiple of 256", "IQ1_S"]),
    ("nan_scale_of_iq4_xs", blocks(IQ4_XS, bytes(136), HALF_NAN + b"\x55" * 134), ["blk.0.ffn_down.weight", "not finite"]),
    ("infinite_scale_of_iq1_m", blocks(IQ1_M, bytes(56), bytes(53) + b"\xc0\0\x70"), ["blk.0.ffn_down.weight", "not finite"]),
    ("blocks_cut_off", blocks(IQ1_M, bytes(55)), ["blk.0.ffn_down", "overlaps"]),
    ("offset_not_aligned", field("output_norm.bias", offset=8), ["output_norm.bias", "alignment"]),
    ("offset_past_the_end", field("output_norm.bias", offset=1 << 40), ["output_norm.bias", "past the end"]),
    ("offset_of_another", field("output_norm.bias", offset=0), ["overlaps"]),
    ("nan_scale_of_q8_0", field("blk.0.attn_qkv.weight", at=34 * 5, put=HALF_NAN), ["blk.0.attn_qkv.weight", "not finite"]),
    ("infinite_scale_of_q4_0", field("blk.0.ffn_up.weight", at=18 * 3, put=HALF_INFINITY), ["blk.0.ffn_up.weight", "not finite"]),
    ("nan_in_float16", field("token_embd.weight", at=2000, put=HALF_NAN), ["token_embd.weight", "not finite"]),
    ("nan_in_a_norm", field("blk.0.ffn_norm.weight", at=8, put=FLOAT_NAN), ["blk.0.ffn_norm.weight", "not finite"]),
    ("tensor_missing", removed("blk.0.ffn_norm.bias"), ["ln_2.bias", "missing"]),
    ("embedding_missing", removed("token_embd.weight"), ["token_embd.weight", "missing"]),
    ("tensor_of_another_model", renamed("blk.0.ffn_norm.bias", "blk.0.ffn_gate.weight"), ["blk.0.ffn_gate.weight"]),
    ("layer_minus_one", renamed("blk.0.ffn_norm.bias", "blk.-1.ffn_norm.bias"), ["blk.-1.ffn_norm.bias"]),
    ("layer_2_32", renamed("blk.0.ffn_norm.bias", "blk.4294967296.ffn_norm.bias"), ["blk.4294967296.ffn_norm.bias"]),
    ("architecture_missing", key("general.architecture", None), ["general.architecture"]),
    ("architecture_number", key("general.architecture", 7), ["general.architecture"]),
    ("layers_0", key("gpt2.block_count", 0), ["gguf", "n_layer"]),
    ("layers_2_31", key("gpt2.block_count", 1 << 31), ["gguf", "n_layer"]),
    ("one_layer_too_many", key("gpt2.block_count", 2), ["h.1."]),
    ("layers_as_text", key("gpt2.block_count", "1"), ["n_layer"]),
    ("heads_0", key("gpt2.attention.head_count", 0), ["gpt2.attention.head_count"]),
    ("heads_do_not_divide", key("gpt2.attention.head_count", 3), ["gguf", "head"]),
    ("positions_0", key("gpt2.context_length", 0), ["gguf", "n_positions"]),
    ("epsilon_nan", key("gpt2.attention.layer_norm_epsilon", float("nan")), ["layer_norm_epsilon"]),
    ("epsilon_below_0", key("gpt2.attention.layer_norm_epsilon", -1.0), ["layer_norm_epsilon"]),
    ("experts", key("gpt2.expert_count", 8), ["gpt2.expert_count"]),
    ("key_that_is_not_known", key("gpt2.attention.sinks", 1), ["gpt2.attention.sinks", "not known"]),
    ("tokens_missing", key(TOKENS, None), [TOKENS]),
    ("more_tokens_than_rows", key(TOKENS, [*byte_spellings(), "th", "<|endoftext|>", "x1", "x2"]), ["gguf"]),
    ("token_twice", element(TOKENS, 256, "a"), [TOKENS + "[256]", "already"]),
    ("token_that_is_no_utf8", element(TOKENS, 256, b"\xff\xfe"), [TOKENS + "[256]", "UTF-8"]),
    ("kinds_too_few", key(KINDS, [1] * 9), [KINDS, "258"]),
    ("kind_99", element(KINDS, 3, 99), [KINDS + "[3]"]),
    ("merge_of_unknown_tokens", key(MERGES, ["t h", "zz yy"]), ["merges[1]"]),
    ("merge_without_a_space", key(MERGES, ["th"]), ["merges[0]"]),
    ("merges_as_numbers", key(MERGES, [1, 2]), [MERGES]),
    ("end_out_of_range", key("tokenizer.ggml.eos_token_id", 999999), ["eos_token_id"]),
    ("pre_tokenizer_unknown", key("tokenizer.ggml.pre", "unheard-of"), ["tokenizer.ggml.pre", "unheard-of"]),
    ("tokenizer_of_bert", key("tokenizer.ggml.model", "bert"), ["tokenizer.ggml.model", "bert"]),
    ("pieces_without_scores", key("tokenizer.ggml.model", "llama"), ["tokenizer.ggml.scores", "missing"]),
    ("chat_template_that_is_no_utf8", key("tokenizer.chat_template", b"{{ \xff }}"), ["tokenizer.chat_template", "UTF-8"]),
]


def sound():
    return Gguf().bytes()


def cases():
    whole = sound()
    yield "empty", b"", ["is no GGUF file"]
    yield "magic_alone", whole[:4], ["the version", "truncated"]
    yield "cut_in_the_counts", whole[:19], ["metadata entries", "truncated"]
    yield "cut_in_the_metadata", whole[:700], ["truncated"]
    yield "cut_by_a_byte", whole[:-1], ["blk.0.ffn_down.bias", "past the end"]
    yield "cut_in_half", whole[:len(whole) // 2], ["past the end"]
    yield "zip", b"PK\3\4" + whole[4:], ["is no GGUF file"]
    yield "lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", ["is no GGUF file"]
    for name, change, words in FAULTS:
        file = Gguf()
        change(file)
        yield name, file.bytes(), words


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ok.gguf").write_bytes(sound())
    for case, data, _ in cases():
        (folder / f"{case}.gguf").write_bytes(data)
