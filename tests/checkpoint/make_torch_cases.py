#!/usr/bin/env python3
"""Files of torch.save for tests/checkpoint/torch_file.cpp, and their tensors in safetensors. Needs torch and safetensors.
    make_torch_cases.py    writes tests/checkpoint/torch_cases (torch 2.8.0)"""
import collections
import os
import pathlib
import zipfile

import numpy
import torch
from safetensors.torch import save_file

FOLDER = pathlib.Path(__file__).parent / "torch_cases"


class Payload:
    """Calls a function of the system when Python reads it. It would create a file."""

    def __reduce__(self):
        return os.system, ("touch tenon-ran-a-pickle",)


def tensors():
    torch.manual_seed(7)
    base = torch.randn(6, 5)
    return {
        "whole": base,
        "rows": base[2:5],
        "transposed": base.t(),
        "columns": base[:, 1:3],
        "permuted": torch.randn(2, 3, 4).permute(2, 0, 1),
        "one_row_of_many": base[3:4].t(),
        "parameter": torch.nn.Parameter(base[:2]),
        "half": base.half(),
        "bfloat16": base.bfloat16(),
        "double": base.double(),
        "int64": torch.arange(7) - 3,
        "int32": torch.arange(3, dtype=torch.int32),
        "int16": torch.arange(3, dtype=torch.int16),
        "int8": torch.arange(3, dtype=torch.int8),
        "uint8": torch.arange(3, dtype=torch.uint8),
        "bool": torch.tensor([True, False, True]),
        "scalar": torch.tensor(3.5),
        "empty": torch.zeros(0, 4),
        "far_apart": torch.randn(2, 16)[:, 3:4],
    }


def main():
    FOLDER.mkdir(exist_ok=True)
    made = tensors()
    save_file({name: tensor.detach().clone().contiguous() for name, tensor in made.items()}, FOLDER / "expected.safetensors")
    torch.save(made, FOLDER / "archive.bin")
    torch.save(made, FOLDER / "archive_protocol_4.bin", pickle_protocol=4)
    torch.save(made, FOLDER / "before_1_6.bin", _use_new_zipfile_serialization=False)
    torch.save(made, FOLDER / "before_1_6_protocol_4.bin", _use_new_zipfile_serialization=False, pickle_protocol=4)
    newer = {name: made["whole"].to(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2", "uint16", "uint32")}
    parameter = torch.nn.Parameter(made["whole"])
    parameter.note = "kept by torch with the parameter"
    newer["parameter"] = parameter
    torch.save(newer, FOLDER / "newer_types.bin")
    save_file({name: tensor.detach().clone() for name, tensor in newer.items()}, FOLDER / "newer_types.safetensors")
    module = torch.nn.Linear(2, 2)
    torch.save(module.state_dict(), FOLDER / "module.bin")  # an OrderedDict with attributes
    (FOLDER / "second_table.bin").write_bytes((FOLDER / "module.bin").read_bytes())
    with zipfile.ZipFile(FOLDER / "second_table.bin", "a") as archive:
        archive.writestr("module/more/data.pkl", b"N.")
    torch.save({}, FOLDER / "empty.bin")
    refused = {
        "expanded": {"a": made["whole"].expand(3, 6, 5)},
        "integer": {"a": made["whole"], "step": 3},
        "list": [made["whole"]],
        "key": {3: made["whole"]},
        "nested": {"state_dict": {"a": made["whole"]}},
        "numpy": {"a": numpy.zeros(3)},
        "negative": {"a": torch.randn(4, dtype=torch.cfloat).conj().imag},
        "module": torch.nn.Linear(2, 2),
        "payload": {"a": Payload()},
        "ordered_payload": collections.OrderedDict([("a", made["whole"]), ("b", Payload())]),
    }
    for name, value in refused.items():
        torch.save(value, FOLDER / f"refused_{name}.bin")


if __name__ == "__main__":
    main()
