#!/usr/bin/env python3
"""Writes config_fields.json: config.json of every family as each version of transformers writes the defaults of its class.

    python3 -m venv VENV4 && VENV4/bin/pip install transformers==4.57.6
    python3 -m venv VENV5 && VENV5/bin/pip install transformers==5.24.0
    VENV4/bin/python tests/model/make_config_fields.py && VENV5/bin/python tests/model/make_config_fields.py

Each run replaces the part of its own version. The test config_fields.cpp requires that every field is read by the family, or is in its
table of fields without effect.
"""
import json
import pathlib

import transformers
from transformers import CONFIG_MAPPING

FILE = pathlib.Path(__file__).resolve().parent / "config_fields.json"
FAMILIES = ["arcee", "bloom", "codegen", "cohere", "cohere2", "ernie4_5", "ernie4_5_moe", "exaone4", "falcon", "gemma", "gemma2", "gemma3_text", "glm", "glm4",
            "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoehybrid", "helium", "hunyuan_v1_dense", "lfm2", "lfm2_moe", "llama", "ministral",
            "ministral3", "mistral",
            "mixtral", "mpt", "nemotron", "olmo", "olmo2", "olmo3", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "smollm3",
            "stablelm", "starcoder2"]
# Defaults that are another model: Granite 4 has Mamba layers and experts there, LFM2 has no convolutions.
CHANGES = {"granitemoehybrid": {"layer_types": ["attention"] * 32, "num_local_experts": 0},
           "lfm2": {"layer_types": ["conv", "full_attention"] * 16},
           "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16}}


def main():
    files = json.loads(FILE.read_text()) if FILE.exists() else {}
    files[transformers.__version__] = {
        family: json.loads(CONFIG_MAPPING[family](**CHANGES.get(family, {})).to_json_string(use_diff=False))
        for family in FAMILIES if family in CONFIG_MAPPING}  # ministral3 is new in transformers 5
    with open(FILE, "w") as out:
        out.write("{\n")
        out.write(",\n".join(
            f"{json.dumps(version)}: {{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(config)}" for name, config in files[version].items())
            + "\n}" for version in sorted(files)))
        out.write("\n}\n")


if __name__ == "__main__":
    main()
