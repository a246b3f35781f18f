"""Decodes the weights of a GGUF file into float32, so that llama.cpp computes with the numbers of tenon's float32.

    python bench/peers/gguf_in_float32.py IN.gguf OUT.gguf

Needs gguf and numpy.
"""
import sys

import gguf
from gguf.quants import dequantize

WRITTEN_BY_WRITER = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type"}


def main():
    reader = gguf.GGUFReader(sys.argv[1])
    writer = gguf.GGUFWriter(sys.argv[2], reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name in WRITTEN_BY_WRITER:
            continue
        of_list = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=of_list)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
