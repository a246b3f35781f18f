#!/usr/bin/env python3
"""Writes quantized_cases/: tiny models as GPTQ, AWQ, AutoRound, bitsandbytes, compressed-tensors, ModelOpt, fp8 and MXFP4 checkpoints,
with what they decode to.

    python make_quantized_cases.py GPTQMODEL AUTOAWQ AUTOROUND MODELOPT HQQ [NAME...]

GPTQMODEL, AUTOAWQ, AUTOROUND, MODELOPT, HQQ: unpacked packages of gptqmodel 7.7.0, autoawq 0.2.9 (pip download --no-deps --no-binary
NAME), auto-round 0.16.1, nvidia-modelopt 0.47.0 (wheels) and hqq 0.2.8.post1.
Also needs torch 2.15, transformers 4.57.6, bitsandbytes 0.50.2, compressed-tensors 0.20.0, accelerate, and of gptqmodel's requirements
those that its layers import: pypcre, logbar, device-smi, tokenicer, defuser, threadpoolctl, pillow. NAME: folders to write; all, if
there is none.

Each folder holds config.json and model.safetensors, packed by the library's own code, and expected.json:
    weights  tensor: SHA-256 of its values, float32, row by row, from the library's own dequantisation in float32
    rows     tensor: its first four values
    ids, logits  input tokens, and the last row of transformers' logits in float32 with these weights
bitsandbytes' folders are written by save_pretrained of transformers and read back by from_pretrained. The others are packed layer by
layer: gptqmodel and AutoAWQ have no quantisation loop for such small models. `fp8` has no library that runs on a CPU; its formula is
that of DeepSeek's kernel weight_dequant: value = code * scale of the block.

transformers reads the folders of `mxfp4` itself, and dequantises their experts on the CPU (integrations/mxfp4.py,
convert_moe_packed_tensors).
"""
import hashlib
import importlib.machinery
import json
import math
import pathlib
import shutil
import sys
import tempfile
import types

import bitsandbytes
import torch
import transformers
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.mx_utils import decompress_mx_scale
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel  # noqa: F401 (gptqmodel needs it first)
from transformers.pytorch_utils import Conv1D

OUT = pathlib.Path(__file__).parent / "quantized_cases"
IDS = [3, 17, 40, 5, 5, 61, 22, 9]


def package(name, folder, **values):
    """A package whose __init__ is not run: it imports much that is not needed here."""
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__dict__.update(values)
    sys.modules[name] = module


def libraries(gptqmodel, autoawq, auto_round, modelopt, hqq):
    root = pathlib.Path(gptqmodel) / "gptqmodel"
    package("gptqmodel", root, DEBUG_ON=False)
    for name in ("models", "nn_modules"):
        package("gptqmodel." + name, root / name)
    root = pathlib.Path(autoawq) / "awq"
    package("awq", root)
    for name in ("modules", "modules.linear", "utils"):
        package("awq." + name, root.joinpath(*name.split(".")))
    root = pathlib.Path(auto_round) / "auto_round"
    package("auto_round", root)
    package("auto_round.utils", root / "utils", get_packing_device=lambda device: "cpu")
    for name in ("export", "export.export_to_awq"):
        package("auto_round." + name, root.joinpath(*name.split(".")))
    for name in ("", ".torch"):
        package("auto_round_extension" + name, root.parent / "auto_round_extension" / name[1:])
    root = pathlib.Path(modelopt) / "modelopt"
    package("modelopt", root)
    for name in ("torch", "torch.quantization", "torch.quantization.qtensor", "torch.quantization.backends"):
        package("modelopt." + name, root.joinpath(*name.split(".")))
    # Only what quantize() and dequantize() use. Blocks are whole here, so nothing is padded.
    package("modelopt.torch.quantization.utils", root / "torch" / "quantization" / "utils", fsdp2_aware_weight_update=None,
            patch_fsdp_mp_dtypes=None, reduce_amax=None, reduce_block_amax=None, reduce_block_padding=lambda value, block_sizes: value,
            convert_quantization_axis_to_reduce_axis=None)
    package("hqq", pathlib.Path(hqq) / "hqq")
    package("hqq.core", pathlib.Path(hqq) / "hqq" / "core")


# ---------------------------------------------------------------- models
SIZES = dict(vocab_size=64, num_hidden_layers=1, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None)


def config_of(family, hidden, inner):
    if family == "gpt2":
        return dict(model_type="gpt2", vocab_size=64, n_layer=1, n_positions=64, n_embd=hidden, n_inner=inner, n_head=4, bos_token_id=0,
                    eos_token_id=1)
    heads = dict(num_attention_heads=4, num_key_value_heads=2)
    if family == "gpt_neox":
        heads = dict(num_attention_heads=4)
    return dict(SIZES, model_type=family, hidden_size=hidden, intermediate_size=inner, tie_word_embeddings=family == "qwen2", **heads)


def made_model(family, hidden, inner, seed):
    """A model in float32 whose weights are float16 numbers."""
    torch.manual_seed(seed)
    fields = config_of(family, hidden, inner)
    config = AutoConfig.for_model(**fields)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            spread = 0.3 if value.ndim == 2 else 0.1
            value.copy_((torch.randn_like(value) * spread + (1.0 if "norm" in name and name.endswith("weight") else 0.0)).half().float())
    return model, fields


def linears(model):
    """The layers that the libraries quantise: all but embeddings and the head."""
    head = model.get_output_embeddings()
    return {name: module for name, module in model.named_modules()
            if isinstance(module, (torch.nn.Linear, Conv1D)) and module is not head}


def plain_tensors(model, quantised):
    skipped = {name + ".weight" for name in quantised} | {name + ".bias" for name in quantised}
    tied = model.config.tie_word_embeddings
    return {name: value.half().contiguous() for name, value in model.state_dict().items()
            if name not in skipped and not (tied and name == "lm_head.weight") and "rotary_emb" not in name and
            not name.endswith((".attn.bias", ".masked_bias"))}


def logits_of(model):
    with torch.no_grad():
        return model(torch.tensor([IDS])).logits[0, -1].tolist()


def write_expected(folder, weights, model):
    expected = dict(weights={}, rows={}, ids=IDS, logits=logits_of(model))
    for name, value in sorted(weights.items()):
        assert value.dtype == torch.float32 and torch.isfinite(value).all(), name
        expected["weights"][name] = hashlib.sha256(value.contiguous().numpy().tobytes()).hexdigest()
        expected["rows"][name] = value.flatten()[:4].tolist()
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    size = sum(each.stat().st_size for each in folder.iterdir() if each.name != "expected.json")
    assert size <= 100 * 1024, (folder.name, size)
    print(folder.name, size, "bytes,", len(weights), "matrices")


def write_case(name, family, hidden, inner, quantise, quantization_config, dtype="float16"):
    """quantise(name, layer): its tensors by suffix, and its weight [outputs, inputs] in float32."""
    model, fields = made_model(family, hidden, inner, seed=len(name) + hidden)
    layers = linears(model)
    tensors, weights = plain_tensors(model, layers), {}
    for at, (layer_name, layer) in enumerate(layers.items()):
        torch.manual_seed(1000 + at)
        parts, value = quantise(layer_name, layer)
        tensors.update({layer_name + suffix: part.contiguous() for suffix, part in parts.items()})
        if getattr(layer, "bias", None) is not None:
            tensors[layer_name + ".bias"] = layer.bias.detach().half()
        stored = value.T.contiguous() if isinstance(layer, Conv1D) else value
        weights[layer_name + ".weight"] = stored
        with torch.no_grad():
            layer.weight.copy_(stored)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = dict(fields, torch_dtype=dtype, quantization_config=quantization_config)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    write_expected(folder, weights, model)
    return folder, model


def weight_of(layer):
    """[outputs, inputs]"""
    weight = layer.weight.detach()
    return weight.T.contiguous() if isinstance(layer, Conv1D) else weight


def as_linear(layer):
    weight = weight_of(layer)
    out = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=layer.bias is not None)
    with torch.no_grad():
        out.weight.copy_(weight)
        if layer.bias is not None:
            out.bias.copy_(layer.bias)
    return out


def ranges(columns, bits, sym):
    """Scale and zero point of each row, rounded as GPTQ's quantiser does."""
    most = 2**bits - 1
    low, high = columns.min(dim=1).values.clamp(max=0), columns.max(dim=1).values.clamp(min=0)
    if sym:
        scale = 2 * torch.maximum(-low, high) / most
        return scale.half().float(), torch.full_like(scale, (most + 1) // 2)
    scale = ((high - low) / most).half().float()
    return scale, torch.round(-low / scale).clamp(0, most)


# ---------------------------------------------------------------- GPTQ
def gptq(name, family, hidden, inner, bits=4, group=32, sym=True, act_order=False, v2=False, positive_rows=False):
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model import convert_gptq_v1_to_v2_format_module, convert_gptq_v2_to_v1_format_module

    def quantise(_, layer):
        linear = as_linear(layer)
        if positive_rows:  # zero points of 0, which version 1 stores as a borrow
            with torch.no_grad():
                linear.weight[::3].abs_()
        outputs, inputs = linear.weight.shape
        size = inputs if group == -1 else group
        groups = math.ceil(inputs / size)
        g_idx = torch.arange(inputs, dtype=torch.int32) // size
        if act_order:
            g_idx = g_idx[torch.randperm(inputs)].contiguous()
        found = [ranges(linear.weight.detach()[:, g_idx == g], bits, sym) for g in range(groups)]
        scales, zeros = (torch.stack(each, dim=1) for each in zip(*found))
        packed = TorchLinear(bits=bits, group_size=size, sym=sym, desc_act=act_order, in_features=inputs, out_features=outputs,
                             bias=linear.bias is not None, pack_dtype=torch.int32)
        packed.pack_original(linear, scales, zeros, g_idx)
        if not v2:
            packed.qzero_format(2)
            convert_gptq_v2_to_v1_format_module(packed, types.SimpleNamespace(bits=bits, pack_dtype=torch.int32))
        parts = {"." + key: getattr(packed, key).detach().clone() for key in ("qweight", "qzeros", "scales", "g_idx")}
        if not v2:
            convert_gptq_v1_to_v2_format_module(packed, bits=bits, pack_dtype=torch.int32)
        packed.scales = packed.scales.float()
        packed.enable_wf_unsqueeze = True
        packed._init_wf_unsqueeze_buffers()
        return parts, packed.dequantize_weight().T.float()

    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="gptq", bits=bits, group_size=group, sym=sym, desc_act=act_order, damp_percent=0.01, static_groups=False,
                    true_sequential=True, lm_head=False, checkpoint_format="gptq_v2" if v2 else "gptq", pack_dtype="int32",
                    meta={"quantizer": ["gptqmodel:7.7.0"]}))


# ---------------------------------------------------------------- AWQ
def awq(name, family, hidden, inner, group):
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    def quantise(_, layer):
        linear = as_linear(layer)
        size = linear.in_features if group == -1 else group
        columns = linear.weight.detach().split(size, dim=1)
        scales, zeros = (torch.stack(each) for each in zip(*(ranges(each, 4, False) for each in columns)))
        packed = WQLinear_GEMM.from_linear(linear, 4, size, scales=scales, zeros=zeros)
        parts = {"." + key: getattr(packed, key).detach() for key in ("qweight", "qzeros", "scales")}
        value = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), 4, size)
        return parts, value.T.contiguous()

    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="awq", bits=4, group_size=group, zero_point=True, version="gemm", backend="autoawq",
                    modules_to_not_convert=None))


# ---------------------------------------------------------------- AutoRound
def auto_round(name, family, hidden, inner, packing, bits=4, group=32, sym=True, rules=None):
    """rules: module ending: its bits and group_size, where they differ."""
    from auto_round.export.export_to_awq.utils import WQLinear_GEMM, dequantize_gemm
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    def quantise(layer_name, layer):
        linear = as_linear(layer)
        rule = next((rule for end, rule in (rules or {}).items() if layer_name.endswith(end)), {})
        width, size = rule.get("bits", bits), rule.get("group_size", group)
        size = linear.in_features if size == -1 else size
        columns = linear.weight.detach().split(size, dim=1)
        scales, zeros = (torch.stack(each, dim=1) for each in zip(*(ranges(each, width, sym) for each in columns)))
        if packing == "auto_round:auto_awq":
            packed = WQLinear_GEMM.from_linear(linear, width, size, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
            value = dequantize_gemm(packed.qweight, packed.qzeros, packed.scales.float(), width, size).T
        else:
            layers = qlinear_torch_zp if packing == "auto_round:auto_gptq" else qlinear_torch
            packed = layers.QuantLinear(width, size, linear.in_features, linear.out_features, bias=False)
            packed.pack(linear, scales, zeros)
            packed.scales, packed.bias = packed.scales.float(), None
            with torch.no_grad():
                value = packed(torch.eye(linear.in_features)).T  # 0 and 1: exactly the weights
            packed.scales = packed.scales.half()
        return {"." + key: getattr(packed, key).detach() for key in ("qweight", "qzeros", "scales")}, value.contiguous()

    extra = {"extra_config": {f"model.layers.0.{end}": rule for end, rule in rules.items()}} if rules else {}
    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="auto-round", bits=bits, group_size=group, sym=sym, data_type="int", packing_format=packing,
                    block_name_to_quantize="model.layers", iters=200, low_gpu_mem_usage=True, autoround_version="0.16.1", **extra))


# ---------------------------------------------------------------- bitsandbytes
def dequantised_4bit(codes, state):
    """By the library's generic code. Its kernel for AVX-512 decodes rows that are no multiple of a block wrongly (0.50.2)."""
    scales = state.absmax
    if state.nested:
        scales = bitsandbytes.functional.dequantize_blockwise(scales, state.state2) + state.offset
    table = bitsandbytes.functional.get_4bit_type(state.quant_type, device="cpu")
    compute = _dequantize_4bit_compute.__wrapped__  # not compiled, so that nothing is contracted
    return compute(codes.view(torch.uint8).reshape(-1), scales, table, state.blocksize, state.shape, torch.float32)


def bnb(name, family, hidden, inner, **options):
    model, fields = made_model(family, hidden, inner, seed=len(name) + hidden)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as source:
        model.half().save_pretrained(source)
        quantised = AutoModelForCausalLM.from_pretrained(source, quantization_config=BitsAndBytesConfig(**options), torch_dtype=torch.float16)
        quantised.save_pretrained(folder)
    for each in folder.iterdir():
        if each.name not in ("config.json", "model.safetensors"):
            each.unlink()
    float_model, _ = made_model(family, hidden, inner, seed=len(name) + hidden)
    stored, layers, weights = load_file(folder / "model.safetensors"), linears(float_model), {}
    for layer_name, layer in layers.items():
        weight = layer_name + ".weight"
        if layer_name + ".SCB" in stored:
            value = bitsandbytes.functional.int8_vectorwise_dequant(stored[weight], stored[layer_name + ".SCB"].float())
        else:
            parts = {key: part for key, part in stored.items() if key.startswith(weight + ".")}
            state = bitsandbytes.functional.QuantState.from_dict(parts, device=torch.device("cpu"))
            value = dequantised_4bit(stored[weight], state)
        weights[weight] = (value.T if isinstance(layer, Conv1D) else value).contiguous()
        with torch.no_grad():
            layer.weight.copy_(weights[weight])
    write_expected(folder, weights, float_model)
    # The library's own layers, too. On CPUs with AVX-512 they need whole blocks in each row.
    if "load_in_4bit" in options and all(weight_of(each).shape[1] % 64 == 0 for each in layers.values()):
        back = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32)
        with torch.no_grad():
            own = back(torch.tensor([IDS])).logits[0, -1]
        assert torch.allclose(own, torch.tensor(logits_of(float_model)), atol=0.2, rtol=0.05), (own - torch.tensor(logits_of(float_model))).abs().max()


# ---------------------------------------------------------------- compressed-tensors
def compressed(name, family, hidden, inner, format, weights, dtype=torch.float16, activations=None, ignore=("lm_head",), plain_zeros=False):
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights), format=format)
    args, compressor = scheme.weights, BaseCompressor.get_value_from_registry(format)
    integers = args.type == "int"

    def blocks(weight):
        """The weights that share a scale, as the last dimension."""
        rows, cols = weight.shape
        if args.strategy == "tensor":
            return weight.reshape(1, -1)
        if args.strategy == "block":
            height, width = args.block_structure
            padded = torch.nn.functional.pad(weight, (0, -cols % width, 0, -rows % height))
            grid = padded.reshape(-1, height, padded.shape[1] // width, width)
            return grid.transpose(1, 2).flatten(2)
        return weight.reshape(rows, -1, args.group_size if args.strategy == "group" else cols)

    powers = args.scale_dtype == torch.uint8

    def quantise(layer_name, layer):
        weight = weight_of(layer)
        each = blocks(weight)
        low, high = each.min(dim=-1).values.clamp(max=0), each.max(dim=-1).values.clamp(min=0)
        zero = None
        if not integers:
            scale = torch.maximum(-low, high) / 448
        elif args.symmetric:
            scale = torch.maximum(-low, high) * 2 / (2**args.num_bits - 1)
        else:
            scale = (high - low) / (2**args.num_bits - 1)
            zero = (torch.round(-low / scale.to(dtype)) - 2**(args.num_bits - 1)).clamp(-2**(args.num_bits - 1), 2**(args.num_bits - 1) - 1)
        scale = (torch.exp2(torch.ceil(torch.log2(scale))) if powers else scale.clamp(min=1e-4)).to(dtype)
        if args.strategy == "tensor":
            scale, zero = scale.reshape(1), None if zero is None else zero.reshape(1)
        state = {"weight": weight.to(dtype), "weight_scale": scale}
        if zero is not None:
            state["weight_zero_point"] = zero.to(torch.int8)
        parts = compressor.compress(state, scheme)
        value = compressor.decompress(parts if powers else dict(parts, weight_scale=scale.float()), scheme)["weight"]
        if plain_zeros:
            parts["weight_zero_point"] = zero.to(torch.int8)
        return {"." + key: part for key, part in parts.items()}, value.float()

    group = scheme.model_dump(mode="json")
    group["input_activations"] = activations
    folder, model = write_case(name, family, hidden, inner, quantise,
                               dict(quant_method="compressed-tensors", format=format, quantization_status="compressed",
                                    global_compression_ratio=None, ignore=list(ignore), kv_cache_scheme=None, sparsity_config={},
                                    config_groups={"group_0": group}, version="0.20.0"), str(dtype).split(".")[1])
    if activations is None and args.symmetric and not powers:  # transformers decompresses and runs the folder; it cannot with zero points
        back = AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32,
                                                    quantization_config=transformers.CompressedTensorsConfig(run_compressed=False))
        with torch.no_grad():
            own = back(torch.tensor([IDS])).logits[0, -1]
        assert torch.allclose(own, torch.tensor(logits_of(model)), atol=0.3, rtol=0.05), (own - torch.tensor(logits_of(model))).abs().max()


def compressed_fp4(name, family, hidden, inner, weights, activations=None, kv_cache=None):
    """NVFP4 and MXFP4. Also holds what transformers and vLLM need for activations, which has no effect here."""
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(type="float", num_bits=4, symmetric=True, **weights))
    nvfp4 = scheme.weights.group_size == 16
    format = "nvfp4-pack-quantized" if nvfp4 else "mxfp4-pack-quantized"
    compressor = BaseCompressor.get_value_from_registry(format)

    def quantise(_, layer):
        weight = weight_of(layer).clone()
        weight[1, :32] = -0.0  # blocks of zeros
        most = weight.unflatten(1, (-1, scheme.weights.group_size)).abs().amax(dim=-1)
        state = {"weight": weight}
        if nvfp4:
            state["weight_global_scale"] = (448 * 6 / most.max()).reshape(1)
            scale = (most / 6 * state["weight_global_scale"]).clamp(min=2.0**-9)
            state["weight_scale"] = scale.to(torch.float8_e4m3fn).float()
        else:
            state["weight_scale"] = torch.exp2(torch.floor(torch.log2(most.clamp(min=2.0**-20))) - 2)
        parts = compressor.compress(state, scheme)
        codes = unpack_fp4_from_uint8(parts["weight_packed"], *weight.shape, dtype=torch.float32)
        scale = parts["weight_scale"].float() if nvfp4 else decompress_mx_scale(parts["weight_scale"]).float()
        value = dequantize(codes, scale, args=scheme.weights, dtype=torch.float32, global_scale=parts.get("weight_global_scale"))
        assert torch.equal(value.bfloat16(), compressor.decompress(parts, scheme)["weight"]), "the library computes this in bfloat16"
        if activations:
            parts["input_global_scale"] = torch.tensor([310.5])
        return {"." + key: part for key, part in parts.items()}, value

    group = dict(scheme.model_dump(mode="json"), input_activations=activations, format=format)
    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="compressed-tensors", format=format, quantization_status="compressed", global_compression_ratio=None,
                    ignore=["lm_head"], kv_cache_scheme=kv_cache, sparsity_config={}, transform_config={},
                    config_groups={"group_0": group}, version="0.20.0"), "bfloat16")


# ---------------------------------------------------------------- ModelOpt
def modelopt(name, family, hidden, inner, algorithm, separate=False):
    """separate: hf_quant_config.json in place of quantization_config."""
    from modelopt.torch.quantization.qtensor.fp8_tensor import FP8QTensor
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    def quantise(_, layer):
        weight = weight_of(layer)
        if algorithm == "FP8":
            scale = (weight.abs().max() / 448).float()
            packed, _ = FP8QTensor.quantize(weight, scales=scale)
            value = packed.dequantize(dtype=torch.float32, scale=scale)
            parts = {"weight": packed._quantized_data, "weight_scale": scale}
        else:
            second = weight.abs().max().float() / (6 * 448)
            scale = (weight.unflatten(1, (-1, 16)).abs().amax(dim=-1) / (6 * second)).clamp(2.0**-9, 448).to(torch.float8_e4m3fn)
            packed, _, _ = NVFP4QTensor.quantize(weight.clone(), 16, scale, second)
            value = packed.dequantize(dtype=torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
            parts = {"weight": packed._quantized_data, "weight_scale": scale, "weight_scale_2": second}
        parts["input_scale"] = torch.tensor(0.0123)
        return {"." + key: part for key, part in parts.items()}, value.float().contiguous()

    size = {} if algorithm == "FP8" else {"group_size": 16}
    both = {"dynamic": False, "num_bits": 8 if algorithm == "FP8" else 4, "type": "float", **size}
    producer = {"producer": {"name": "modelopt", "version": "0.47.0"}}
    config = dict(quant_method="modelopt", quant_algo=algorithm, ignore=["lm_head"], **producer,
                  config_groups={"group_0": {"input_activations": both, "weights": both, "targets": ["Linear"]}})
    folder, _ = write_case(name, family, hidden, inner, quantise, config, "bfloat16")
    if separate:
        config = json.loads((folder / "config.json").read_text())
        del config["quantization_config"]
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
        details = dict(quant_algo=algorithm, kv_cache_quant_algo="FP8", exclude_modules=["lm_head"], **size)
        (folder / "hf_quant_config.json").write_text(json.dumps(dict(producer, quantization=details), indent=1) + "\n")


# ---------------------------------------------------------------- HQQ
def hqq(name, family, hidden, inner, bits, group=32, axis=1):
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

    config = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis)

    def quantise(_, layer):
        linear = as_linear(layer)
        packed = HQQLinear(linear, config, compute_dtype=torch.float16, device="cpu", del_orig=False)
        parts = {"." + key: part for key, part in packed.state_dict().items() if key != "bias"}
        meta = dict(packed.meta, compute_dtype=torch.float32, scale=packed.meta["scale"].float(), zero=packed.meta["zero"].float())
        return parts, Quantizer.dequantize(packed.W_q, meta)

    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="hqq", quant_config=dict(config, offload_meta=False), skip_modules=["lm_head"]))


# ---------------------------------------------------------------- fp8 in blocks
def fp8(name, family, hidden, inner, block, scale_dtype=torch.float32):
    def quantise(_, layer):
        weight = weight_of(layer)
        rows, cols = weight.shape
        grid = torch.zeros(math.ceil(rows / block[0]), math.ceil(cols / block[1]))
        scale = torch.zeros_like(weight)
        for i in range(grid.shape[0]):
            for j in range(grid.shape[1]):
                part = (slice(i * block[0], (i + 1) * block[0]), slice(j * block[1], (j + 1) * block[1]))
                grid[i, j] = (weight[part].abs().max() / 448).to(scale_dtype).float()
                scale[part] = grid[i, j]
        codes = (weight / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return {".weight": codes, ".weight_scale_inv": grid.to(scale_dtype)}, codes.float() * scale

    write_case(name, family, hidden, inner, quantise,
               dict(quant_method="fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=list(block)), "bfloat16")


# ---------------------------------------------------------------- MXFP4
def mxfp4(name, experts, hard):
    """gpt-oss as OpenAI publishes it. hard: some blocks have exponents whose values are subnormal, and codes of -0."""
    fields = dict(SIZES, model_type="gpt_oss", hidden_size=64, intermediate_size=32, num_local_experts=experts, num_experts_per_tok=2,
                  num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=4, layer_types=["sliding_attention"],
                  attention_bias=True, tie_word_embeddings=False, swiglu_limit=7.0, rope_theta=150000,
                  rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                                    original_max_position_embeddings=16), architectures=["GptOssForCausalLM"])
    torch.manual_seed(len(name) + experts)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**fields), attn_implementation="eager").eval()
    tensors = {}
    for key, value in model.state_dict().items():
        spread = torch.randn_like(value) * (0.3 if value.ndim > 1 else 0.1) + (1.0 if "norm" in key else 0.0)
        if not key.endswith(("gate_up_proj", "down_proj")):
            tensors[key] = spread.bfloat16()
            continue
        weight = spread.transpose(1, 2).reshape(experts, value.shape[2], value.shape[1] // 32, 32)
        exponent = torch.floor(torch.log2(weight.abs().amax(dim=-1))) - 2
        distance = (weight / torch.exp2(exponent)[..., None])[..., None] - torch.tensor(transformers.integrations.mxfp4.FP4_VALUES)
        codes = distance.abs().argmin(dim=-1).to(torch.uint8)
        codes[..., ::7] |= torch.where(codes[..., ::7] == 0, 8, 0).to(torch.uint8)  # -0, which the search does not find
        scales = (exponent + 127).to(torch.uint8)
        if hard:
            scales[:, :, 0].view(-1)[:12] = torch.tensor([0, 1, 2, 3] * 3, dtype=torch.uint8)
        tensors[key + "_blocks"] = (codes[..., ::2] | codes[..., 1::2] << 4).contiguous()
        tensors[key + "_scales"] = scales.contiguous()
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    quantization = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                      "model.embed_tokens", "lm_head"])
    (folder / "config.json").write_text(json.dumps(dict(fields, torch_dtype="bfloat16", quantization_config=quantization), indent=1) + "\n")
    back = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    weights = {}
    for key, value in back.state_dict().items():
        if key.endswith(("gate_up_proj", "down_proj")):
            assert value.dtype == torch.bfloat16
            exact = transformers.integrations.mxfp4.convert_moe_packed_tensors(tensors[key + "_blocks"], tensors[key + "_scales"],
                                                                               dtype=torch.float32)
            weights[key] = value.float()
            assert torch.equal(weights[key], exact), "the reference's bfloat16 rounds nothing"
    write_expected(folder, weights, back.float())


def main():
    libraries(*sys.argv[1:6])
    wanted = sys.argv[6:]

    def each(make, name, *arguments, **options):
        if not wanted or name in wanted:
            make(name, *arguments, **options)

    each(gptq, "gptq_g32", "llama", 64, 96)
    each(gptq, "gptq_g64_act_order", "llama", 128, 128, group=64, act_order=True)
    each(gptq, "gptq_asym_g32", "qwen2", 64, 96, sym=False, positive_rows=True)
    each(gptq, "gptq_asym_g128_act_order_v2", "llama", 128, 128, group=128, sym=False, act_order=True, v2=True)
    each(gptq, "gptq_per_output", "phi3", 64, 96, group=-1)
    each(gptq, "gptq_8bit_g32", "llama", 64, 96, bits=8)
    each(gptq, "gptq_8bit_asym_act_order", "gpt_neox", 64, 96, bits=8, group=64, sym=False, act_order=True, positive_rows=True)
    each(gptq, "gptq_conv1d", "gpt2", 64, 96, group=32, act_order=True)
    each(gptq, "gptq_2bit_g32", "llama", 64, 96, bits=2)
    each(gptq, "gptq_2bit_asym_act_order", "qwen2", 64, 96, bits=2, group=16, sym=False, act_order=True, positive_rows=True)
    each(gptq, "gptq_3bit_g32", "llama", 64, 96, bits=3)
    each(gptq, "gptq_3bit_asym_act_order", "llama", 64, 96, bits=3, sym=False, act_order=True, positive_rows=True)
    each(gptq, "gptq_3bit_asym_v2", "llama", 64, 96, bits=3, group=-1, sym=False, v2=True)
    each(auto_round, "ar_gptq_mixed", "llama", 64, 96, "auto_round:auto_gptq",
         rules={"mlp.down_proj": dict(bits=8, group_size=-1), "self_attn.q_proj": dict(bits=2, group_size=16)})
    each(auto_round, "ar_gptq_3bit_asym", "llama", 64, 96, "auto_round:auto_gptq", bits=3, sym=False)
    each(auto_round, "ar_5bit_asym", "qwen2", 64, 96, "auto_round", bits=5, sym=False)
    each(auto_round, "ar_awq", "llama", 64, 96, "auto_round:auto_awq", sym=False, rules={"mlp.up_proj": dict(group_size=64)})
    each(awq, "awq_g32", "llama", 64, 96, 32)
    each(awq, "awq_g64", "qwen2", 64, 128, 64)
    each(awq, "awq_per_output", "phi3", 64, 96, -1)
    each(bnb, "bnb_nf4", "llama", 64, 128, load_in_4bit=True, bnb_4bit_quant_type="nf4")
    each(bnb, "bnb_nf4_double", "llama", 128, 136, load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
    each(bnb, "bnb_fp4_double", "qwen2", 64, 104, load_in_4bit=True, bnb_4bit_quant_type="fp4", bnb_4bit_use_double_quant=True)
    each(bnb, "bnb_nf4_bfloat16_storage", "llama", 64, 96, load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_quant_storage="bfloat16")
    each(bnb, "bnb_nf4_conv1d", "gpt2", 64, 96, load_in_4bit=True, bnb_4bit_quant_type="nf4")
    each(bnb, "bnb_int8", "llama", 64, 96, load_in_8bit=True)
    each(bnb, "bnb_int8_conv1d", "gpt2", 64, 96, load_in_8bit=True)
    integers = dict(type="int", symmetric=True)
    floats = dict(type="float", num_bits=8, symmetric=True)
    dynamic = dict(dynamic=True, strategy="token", symmetric=True)
    each(compressed, "ct_int4_g32", "llama", 64, 96, "pack-quantized", dict(integers, num_bits=4, strategy="group", group_size=32))
    each(compressed, "ct_int4_asym_g32", "qwen2", 64, 96, "pack-quantized",
         dict(type="int", symmetric=False, num_bits=4, strategy="group", group_size=32), torch.bfloat16)
    each(compressed, "ct_int4_asym_plain_zeros", "llama", 64, 96, "pack-quantized",
         dict(type="int", symmetric=False, num_bits=4, strategy="channel"), plain_zeros=True)
    each(compressed, "ct_int8_packed", "phi3", 64, 96, "pack-quantized", dict(integers, num_bits=8, strategy="channel"))
    each(compressed, "ct_w8a8", "llama", 64, 96, "int-quantized", dict(integers, num_bits=8, strategy="channel"),
         activations=dict(dynamic, type="int", num_bits=8))
    each(compressed, "ct_fp8_dynamic", "llama", 64, 96, "float-quantized", dict(floats, strategy="channel"), torch.bfloat16,
         activations=dict(dynamic, type="float", num_bits=8))
    each(compressed, "ct_fp8_tensor", "qwen2", 64, 96, "naive-quantized", dict(floats, strategy="tensor"))
    each(compressed, "ct_fp8_block", "llama", 64, 96, "naive-quantized", dict(floats, strategy="block", block_structure=[32, 48]))
    each(compressed, "ct_mxfp8", "llama", 64, 96, "mxfp8-quantized", dict(floats, strategy="group", group_size=32, scale_dtype="uint8"))
    nvfp4 = dict(strategy="tensor_group", group_size=16, scale_dtype="float8_e4m3fn")
    each(compressed_fp4, "ct_nvfp4a16", "llama", 64, 96, nvfp4)
    each(compressed_fp4, "ct_nvfp4", "qwen2", 64, 96, nvfp4,
         activations=dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True, dynamic="local",
                          scale_dtype="float8_e4m3fn"),
         kv_cache=dict(num_bits=8, type="float", strategy="tensor", symmetric=True, dynamic=False))
    each(compressed_fp4, "ct_mxfp4", "llama", 64, 96, dict(strategy="group", group_size=32, scale_dtype="uint8"))
    each(modelopt, "modelopt_fp8", "llama", 64, 96, "FP8")
    each(modelopt, "modelopt_nvfp4", "qwen2", 64, 96, "NVFP4")
    each(modelopt, "modelopt_nvfp4_file", "llama", 64, 96, "NVFP4", separate=True)
    each(hqq, "hqq_4bit", "llama", 64, 96, 4)
    each(hqq, "hqq_2bit_axis_0", "qwen2", 64, 96, 2, axis=0)
    each(hqq, "hqq_3bit", "llama", 64, 96, 3)
    each(hqq, "hqq_8bit_axis_0", "llama", 64, 96, 8, group=64, axis=0)
    each(fp8, "fp8_blocks", "llama", 64, 96, (48, 32))
    each(fp8, "fp8_blocks_bfloat16", "qwen2", 64, 96, (128, 128), torch.bfloat16)
    each(mxfp4, "mxfp4", 4, False)
    each(mxfp4, "mxfp4_small_exponents", 3, True)


if __name__ == "__main__":
    main()
