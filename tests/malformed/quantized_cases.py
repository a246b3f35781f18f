"""Malformed checkpoints of other libraries' quantisation: the folders of tests/checkpoint/quantized_cases, and one fault in each copy.

    quantized_cases.py FOLDER       writes them all; cases() yields (name, Folder, words that the error must have)
"""
import json
import pathlib
import struct
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "checkpoint" / "quantized_cases"
SIZES = {"I32": 4, "F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1, "I64": 8, "F8_E4M3": 1}
Q, DOWN = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj"
UP = "model.layers.0.mlp.experts.gate_up_proj"
NF4 = Q + ".weight.quant_state.bitsandbytes__nf4"
NAN = {"F16": b"\x00\x7e", "F32": b"\x00\x00\xc0\x7f", "BF16": b"\xc0\x7f"}
INFINITY = {"F16": b"\x00\x7c", "F32": b"\x00\x00\x80\x7f", "BF16": b"\x80\x7f"}


class Folder:
    """The parts of a folder, to be changed before it is written."""

    def __init__(self, name):
        self.config = json.loads((SOURCE / name / "config.json").read_text())
        data = (SOURCE / name / "model.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        self.tensors = {}  # name: [dtype, shape, bytes]
        for tensor, entry in header.items():
            begin, end = (8 + length + at for at in entry["data_offsets"])
            self.tensors[tensor] = [entry["dtype"], entry["shape"], data[begin:end]]
        self.metadata, self.raw_header = {"format": "pt"}, None

    @property
    def quantization(self):
        return self.config["quantization_config"]

    def write(self, path):
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(self.config))
        # A tokenizer of 62 characters, as `tenon check` needs one.
        vocabulary = {letter: i for i, letter in enumerate([*map(chr, range(33, 94)), "\u0120"])}
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        model = {"type": "BPE", "vocab": vocabulary, "merges": []}
        (path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": byte_level,
                                                          "post_processor": None, "decoder": byte_level, "model": model}))
        (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
        header, data = {"__metadata__": self.metadata}, b""
        for name, (dtype, shape, values) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
            data += values
        if self.raw_header:
            self.raw_header(header)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def option(name, value):
    """A change of a member of quantization_config; None removes it."""
    def change(folder):
        if value is None:
            folder.quantization.pop(name, None)
        else:
            folder.quantization[name] = value
    return change


def member(name, value):
    def change(folder):
        folder.config[name] = value
    return change


def weights(**values):
    """Members of the weights of the first group of compressed-tensors."""
    return lambda folder: folder.quantization["config_groups"]["group_0"]["weights"].update(values)


def without(name):
    return lambda folder: folder.tensors.pop(name)


def shaped(name, shape):
    """Another shape, with as many bytes as it needs."""
    def change(folder):
        tensor = folder.tensors[name]
        count = SIZES[tensor[0]]
        for side in shape:
            count *= side
        tensor[1], tensor[2] = shape, (tensor[2] * (count // max(1, len(tensor[2])) + 1))[:count]
    return change


def claimed(name, shape):
    """Another shape in the header alone."""
    def change(folder):
        folder.raw_header = lambda header: header[name].update(shape=shape)
    return change


def typed(name, dtype):
    def change(folder):
        folder.tensors[name][0] = dtype
    return change


def put(name, index, data):
    """Another element; `data` may map types to bytes."""
    def change(folder):
        tensor = folder.tensors[name]
        value = data[tensor[0]] if isinstance(data, dict) else data
        at = index * len(value)
        tensor[2] = tensor[2][:at] + value + tensor[2][at + len(value):]
    return change


def state(**values):
    """Members of the quantisation state of a matrix in NF4."""
    def change(folder):
        tensor = folder.tensors[NF4]
        text = json.loads(tensor[2])
        text.update(values)
        tensor[2] = json.dumps(text).encode()
        tensor[1] = [len(tensor[2])]
    return change


def state_text(data):
    def change(folder):
        folder.tensors[NF4] = ["U8", [len(data)], data]
    return change


def added(name, dtype, shape, data):
    def change(folder):
        folder.tensors[name] = [dtype, shape, data]
    return change


CONFIG = "config.json: quantization_config"
# Faults: name, folder, change, words of the error.
FAULTS = [
    ("method_unknown", "gptq_g32", option("quant_method", "exl3"), [CONFIG + ".quant_method", "exl3", "gptq"]),
    ("method_missing", "gptq_g32", option("quant_method", None), [CONFIG + ".quant_method", "missing"]),
    ("method_a_number", "gptq_g32", option("quant_method", 4), [CONFIG + ".quant_method", "string"]),
    ("config_a_list", "gptq_g32", member("quantization_config", []), [CONFIG, "object"]),
    ("method_of_another_library", "gptq_g32", option("quant_method", "mxfp4"), ["quant_method", "has no matrix"]),
    ("written_by_tenon_too", "gptq_g32", lambda f: f.metadata.update({"tenon.weights": "int8"}), ["quant_method", "by tenon"]),
    ("gptq_5_bits", "gptq_g32", option("bits", 5), [CONFIG + ".bits", "5", "2, 3, 4 and 8"]),
    ("gptq_bits_2_40", "gptq_g32", option("bits", 1 << 40), [CONFIG + ".bits"]),
    ("gptq_bits_missing", "gptq_g32", option("bits", None), [CONFIG + ".bits", "missing"]),
    ("gptq_bits_of_other_tensors", "gptq_g32", option("bits", 8), [".qweight", "has shape", "needs"]),
    ("gptq_group_0", "gptq_g32", option("group_size", 0), [CONFIG + ".group_size"]),
    ("gptq_group_minus_7", "gptq_g32", option("group_size", -7), [CONFIG + ".group_size"]),
    ("gptq_format_marlin", "gptq_g32", option("checkpoint_format", "marlin"), ["checkpoint_format", "marlin"]),
    ("gptq_desc_act_a_text", "gptq_g32", option("desc_act", "yes"), [CONFIG + ".desc_act"]),
    ("gptq_codes_missing", "gptq_g32", without(Q + ".qweight"), [Q + ".weight", "missing"]),
    ("gptq_zeros_missing", "gptq_g32", without(Q + ".qzeros"), [Q + ".qzeros is missing"]),
    ("gptq_scales_missing", "gptq_g32", without(Q + ".scales"), [Q + ".scales is missing"]),
    ("gptq_order_missing", "gptq_g64_act_order", without(Q + ".g_idx"), [Q + ".g_idx is missing"]),
    ("gptq_codes_turned", "gptq_g32", shaped(Q + ".qweight", [64, 8]), [Q + ".qweight", "has shape"]),
    ("gptq_codes_a_vector", "gptq_g32", shaped(Q + ".qweight", [512]), [Q + ".qweight", "matrix"]),
    ("gptq_codes_empty", "gptq_g32", shaped(Q + ".qweight", [0, 64]), [Q + ".qweight", "has shape [0, 64]"]),
    ("gptq_codes_2_60_by_2_60", "gptq_g32", claimed(Q + ".qweight", [1 << 60, 1 << 60]), [Q + ".qweight"]),
    ("gptq_codes_as_floats", "gptq_g32", typed(Q + ".qweight", "F32"), [Q + ".qweight", "dtype F32"]),
    ("gptq_zeros_of_other_outputs", "gptq_g32", shaped(Q + ".qzeros", [2, 7]), [Q + ".qzeros", "has shape [2, 7]"]),
    ("gptq_scales_of_other_groups", "gptq_g32", shaped(Q + ".scales", [3, 64]), [Q + ".qzeros", "has shape [2, 8], needs [3, 8]"]),
    ("gptq_scales_as_integers", "gptq_g32", typed(Q + ".scales", "I8"), ["model.safetensors"]),
    ("gptq_scale_nan", "gptq_g32", put(Q + ".scales", 7, NAN), [Q, "not finite"]),
    ("gptq_scale_infinite", "gptq_g32", put(Q + ".scales", 9, INFINITY), [Q, "not finite"]),
    ("gptq_order_out_of_range", "gptq_g32", put(Q + ".g_idx", 3, struct.pack("<i", 2)), [Q + ".g_idx", "group 2"]),
    ("gptq_order_negative", "gptq_g32", put(Q + ".g_idx", 3, struct.pack("<i", -5)), [Q + ".g_idx", "group -5"]),
    ("gptq_order_too_short", "gptq_g32", shaped(Q + ".g_idx", [40]), [Q, "has shape"]),
    ("gptq_order_a_matrix", "gptq_g32", shaped(Q + ".g_idx", [8, 8]), [Q + ".g_idx", "has shape"]),
    ("gptq_weight_twice", "gptq_g32", added(Q + ".weight", "F32", [1], b"\0\0\0\0"), [Q, "two forms"]),
    ("gptq_3_bits_of_53_inputs", "gptq_3bit_g32", lambda f: (shaped(Q + ".qweight", [5, 64])(f), without(Q + ".g_idx")(f)),
     [Q + ".qweight", "53 inputs", "multiples of 32"]),
    ("gptq_3_bits_zeros_of_other_outputs", "gptq_3bit_g32", shaped(Q + ".qzeros", [2, 5]), [Q + ".qzeros", "has shape [2, 5]"]),
    ("gptq_rule_of_7_bits", "gptq_g32", option("dynamic", {"+:.*": {"bits": 7}}), ["dynamic", ".bits", "7"]),
    ("gptq_rules_a_list", "gptq_g32", option("dynamic", [4]), [CONFIG + ".dynamic", "object"]),
    ("ar_packing_unknown", "ar_gptq_mixed", option("packing_format", "auto_round:fp8_static"), ["packing_format", "fp8_static"]),
    ("ar_activations", "ar_gptq_mixed", option("act_bits", 8), [CONFIG + ".act_bits", "below 16"]),
    ("ar_rules_missing", "ar_gptq_mixed", option("extra_config", None), ["down_proj", "has shape"]),
    ("ar_rule_of_0_bits", "ar_gptq_mixed", option("extra_config", {"a.b": {"bits": 0}}), ["extra_config.a.b.bits", "0"]),
    ("ar_5_bits_codes_cut", "ar_5bit_asym", shaped(Q + ".qweight", [9, 64]), [Q, "multiples of 32"]),
    ("ar_scale_nan", "ar_5bit_asym", put(Q + ".scales", 7, NAN), [Q, "not finite"]),
    ("awq_8_bits", "awq_g32", option("bits", 8), [CONFIG + ".bits"]),
    ("awq_gemv", "awq_g32", option("version", "gemv"), [CONFIG + ".version", "gemv"]),
    ("awq_group_does_not_divide", "awq_g32", option("group_size", 48), [".scales", "has shape"]),
    ("awq_scales_missing", "awq_g32", without(Q + ".scales"), [Q + ".scales is missing"]),
    ("awq_zeros_of_other_groups", "awq_g32", shaped(Q + ".qzeros", [1, 8]), [Q + ".qzeros", "has shape"]),
    ("awq_scale_nan", "awq_g32", put(Q + ".scales", 0, NAN), [Q, "not finite"]),
    ("bnb_scb_missing", "bnb_int8", without(Q + ".SCB"), [Q + ".weight", "I8"]),
    ("bnb_scb_too_short", "bnb_int8", shaped(Q + ".SCB", [63]), [Q + ".SCB", "[63]"]),
    ("bnb_scb_infinite", "bnb_int8", put(Q + ".SCB", 1, INFINITY), [Q, "not finite"]),
    ("bnb_order_of_turing", "bnb_int8", added(Q + ".weight_format", "U8", [], b"\2"), [Q + ".weight_format", "0"]),
    ("nf4_state_missing", "bnb_nf4", without(NF4), [Q + ".weight"]),
    ("nf4_state_no_json", "bnb_nf4", state_text(b"{\"quant_type\":"), [Q, "quant_state"]),
    ("nf4_state_empty", "bnb_nf4", state_text(b""), [Q, "quant_state"]),
    ("nf4_state_deep", "bnb_nf4", state_text(b"[" * 40000), [Q, "quant_state"]),
    ("nf4_block_63", "bnb_nf4", state(blocksize=63), ["blocksize", "power of two"]),
    ("nf4_block_2_40", "bnb_nf4", state(blocksize=1 << 40), ["blocksize"]),
    ("nf4_shape_of_more_values", "bnb_nf4", state(shape=[64, 128]), [Q + ".weight", "bytes"]),
    ("nf4_shape_2_30_by_2_30", "bnb_nf4", state(shape=[1 << 30, 1 << 30]), [Q + ".weight", "bytes"]),
    ("nf4_shape_negative", "bnb_nf4", state(shape=[-64, -64]), ["shape"]),
    ("nf4_kind_of_another_name", "bnb_nf4", state(quant_type="fp4"), ["quant_type", "nf4"]),
    ("nf4_scales_missing", "bnb_nf4", without(Q + ".weight.absmax"), [Q + ".weight.absmax is missing"]),
    ("nf4_scale_nan", "bnb_nf4", put(Q + ".weight.absmax", 0, NAN), [Q, "not finite"]),
    ("nf4_nested_scales_missing", "bnb_nf4_double", without(Q + ".weight.nested_absmax"), ["nested_absmax is missing"]),
    ("ct_3_bits", "ct_int4_g32", weights(num_bits=3), ["num_bits", "3"]),
    ("ct_strategy_unknown", "ct_int4_g32", weights(strategy="tile"), ["strategy", "tile"]),
    ("ct_group_of_another_size", "ct_int4_g32", weights(group_size=48), [".weight_scale", "has shape"]),
    ("ct_group_0", "ct_int4_g32", weights(group_size=0), ["group_size"]),
    ("ct_groups_missing", "ct_int4_g32", option("config_groups", None), [CONFIG + ".config_groups", "missing"]),
    ("ct_sparse", "ct_int4_g32", option("sparsity_config", {"format": "sparse-24-bitmask"}), ["sparsity_config"]),
    ("ct_shape_missing", "ct_int4_g32", without(Q + ".weight_shape"), [Q + ".weight_shape is missing"]),
    ("ct_shape_2_62", "ct_int4_g32", put(Q + ".weight_shape", 1, struct.pack("<q", 1 << 62)), [Q + ".weight_shape"]),
    ("ct_shape_negative", "ct_int4_g32", put(Q + ".weight_shape", 1, struct.pack("<q", -64)), [Q + ".weight_shape"]),
    ("ct_zeros_missing", "ct_int4_asym_g32", without(Q + ".weight_zero_point"), [Q + ".weight_zero_point is missing"]),
    ("ct_fixed_activations", "ct_w8a8", lambda f: f.quantization["config_groups"]["group_0"]["input_activations"].update(dynamic=False),
     ["input_activations.dynamic"]),
    ("ct_fp8_code_nan", "ct_fp8_tensor", put(Q + ".weight", 5, b"\x7f"), [Q + ".weight", "finite"]),
    ("nvfp4_global_scale_missing", "ct_nvfp4", without(Q + ".weight_global_scale"), [Q + ".weight_global_scale is missing"]),
    ("nvfp4_global_scale_0", "ct_nvfp4", put(Q + ".weight_global_scale", 0, b"\0\0\0\0"), [Q, "not finite"]),
    ("nvfp4_global_scales", "ct_nvfp4", shaped(Q + ".weight_global_scale", [2]), [Q + ".weight_global_scale", "one number"]),
    ("nvfp4_scale_nan", "ct_nvfp4a16", put(Q + ".weight_scale", 5, b"\x7f"), [Q, "not finite"]),
    ("nvfp4_scales_of_other_blocks", "ct_nvfp4a16", shaped(Q + ".weight_scale", [64, 2]), [Q + ".weight_scale", "[64, 2]"]),
    ("nvfp4_codes_2_60", "ct_nvfp4a16", claimed(Q + ".weight_packed", [1 << 60, 1 << 60]), [Q + ".weight_packed"]),
    ("nvfp4_codes_of_8_inputs", "ct_nvfp4a16", shaped(Q + ".weight_packed", [64, 4]), [Q + ".weight_packed", "8 inputs"]),
    ("ct_mxfp4_exponent_nan", "ct_mxfp4", put(Q + ".weight_scale", 0, b"\xff"), [Q, "not finite"]),
    ("ct_mxfp4_exponents_as_floats", "ct_mxfp4", typed(Q + ".weight_scale", "F8_E4M3"), [Q + ".weight_scale", "F8_E4M3"]),
    ("modelopt_algorithm_unknown", "modelopt_fp8", option("quant_algo", "W4A8_AWQ"), [CONFIG + ".quant_algo", "W4A8_AWQ"]),
    ("modelopt_scales_activations", "modelopt_fp8", added(Q + ".pre_quant_scale", "F32", [1], b"\0\0\0\0"), [Q + ".pre_quant_scale"]),
    ("modelopt_second_scale_missing", "modelopt_nvfp4", without(Q + ".weight_scale_2"), [Q + ".weight_scale_2 is missing"]),
    ("modelopt_second_scale_nan", "modelopt_nvfp4", put(Q + ".weight_scale_2", 0, NAN), [Q, "not finite"]),
    ("hqq_5_bits", "hqq_4bit", put(Q + ".nbits", 0, struct.pack("<i", 5)), [Q + ".nbits", "5"]),
    ("hqq_group_0", "hqq_4bit", put(Q + ".group_size", 0, struct.pack("<i", 0)), [Q + ".group_size", "0"]),
    ("hqq_shape_2_62", "hqq_4bit", put(Q + ".shape", 1, struct.pack("<q", 1 << 62)), [Q + ".shape"]),
    ("hqq_scale_missing", "hqq_3bit", without(Q + ".scale"), [Q + ".scale is missing"]),
    ("hqq_quantised_zeros", "hqq_4bit", put(Q + ".quant_zero", 0, b"\1"), [Q + ".quant_zero", "not supported"]),
    ("hqq_zero_nan", "hqq_2bit_axis_0", put(Q + ".zero", 3, NAN), [Q, "not finite"]),
    ("fp8_block_of_one_number", "fp8_blocks", option("weight_block_size", [48]), ["weight_block_size"]),
    ("fp8_block_0", "fp8_blocks", option("weight_block_size", [0, 32]), ["weight_block_size"]),
    ("fp8_scales_missing", "fp8_blocks", without(Q + ".weight_scale_inv"), [Q + ".weight_scale"]),
    ("fp8_scales_of_another_grid", "fp8_blocks", shaped(Q + ".weight_scale_inv", [3, 3]), [Q + ".weight_scale_inv", "[3, 3]"]),
    ("fp8_scale_nan", "fp8_blocks", put(Q + ".weight_scale_inv", 0, NAN), [Q, "not finite"]),
    ("mxfp4_exponents_missing", "mxfp4", without(UP + "_scales"), [UP + "_scales is missing"]),
    ("mxfp4_blocks_missing", "mxfp4", without(UP + "_blocks"), [UP, "missing"]),
    ("mxfp4_blocks_of_three_dimensions", "mxfp4", shaped(UP + "_blocks", [4, 64, 32]), [UP + "_blocks", "[4, 64, 32]"]),
    ("mxfp4_blocks_of_8_bytes", "mxfp4", shaped(UP + "_blocks", [4, 64, 4, 8]), [UP + "_blocks", "16"]),
    ("mxfp4_blocks_2_40", "mxfp4", claimed(UP + "_blocks", [1 << 40, 1 << 40, 1 << 40, 16]), [UP + "_blocks"]),
    ("mxfp4_exponents_of_other_rows", "mxfp4", shaped(UP + "_scales", [4, 63, 2]), [UP + "_scales", "[4, 63, 2]"]),
    ("mxfp4_exponent_nan", "mxfp4", put(UP + "_scales", 4, b"\xff"), [UP, "not finite"]),
    ("mxfp4_one_expert_less", "mxfp4", member("num_local_experts", 3), ["has shape", "needs"]),
]


def cases():
    for name, source, change, words in FAULTS:
        folder = Folder(source)
        change(folder)
        yield name, folder, words


if __name__ == "__main__":
    for case, made, _ in cases():
        made.write(pathlib.Path(sys.argv[1]) / case)
