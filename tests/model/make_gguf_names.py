#!/usr/bin/env python3
"""Writes gguf_names.json: for each architecture a config.json, and the names that gguf-py gives to its tensors.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0
    VENV/bin/python tests/model/make_gguf_names.py FOLDER

FOLDER has the model folders of CASES, as transformers wrote them; tests/golden has those that it lacks.
"""
import json
import pathlib
import struct
import sys

import gguf

CASES = {"llama": "llama_linear_old", "smollm3": "smollm3_nope", "granite": "granite", "olmo": "olmo", "olmo2": "olmo2",
         "qwen2": "qwen2_gqa_old", "qwen3": "qwen3_headdim", "command-r": "cohere", "stablelm": "stablelm",
         "starcoder2": "starcoder2_window", "gemma": "gemma_mqa", "gemma2": "gemma2", "gemma3": "gemma3_text",
         "phi2": "phi_partial", "phi3": "phi3_longrope", "gptneox": "gpt_neox_parallel", "falcon": "falcon_7b", "mpt": "mpt",
         "cohere2": "cohere2", "arcee": "arcee", "nemotron": "nemotron", "glm4": "glm4",
         "hunyuan-dense": "hunyuan", "mistral3": "ministral3", "lfm2": "lfm2"}
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
ARCHITECTURES = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
UNUSED = ("transformers_version", "dtype", "initializer_range", "use_cache", "architectures", "torch_dtype")


def names(folder):
    with open(folder / "model.safetensors", "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return sorted(name for name in json.loads(file.read(length)) if name != "__metadata__")


def main():
    out = {}
    for architecture, case in CASES.items():
        given = pathlib.Path(sys.argv[1]) / case
        folder = given if given.exists() else GOLDEN / case
        config = json.loads((folder / "config.json").read_text())
        table = gguf.get_tensor_name_map(ARCHITECTURES[architecture], config.get("num_hidden_layers") or config["n_layers"])
        stored = {name: table.get_name(name, try_suffixes=(".weight", ".bias")) for name in names(folder)}
        out[architecture] = {"config": {key: value for key, value in config.items() if key not in UNUSED},
                             "names": {name: to for name, to in stored.items() if to}}
        print(architecture, len(stored), [name for name, to in stored.items() if not to])
    rows = [json.dumps(architecture) + ": " + json.dumps(each) for architecture, each in out.items()]
    path = pathlib.Path(__file__).resolve().parent / "gguf_names.json"
    path.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
