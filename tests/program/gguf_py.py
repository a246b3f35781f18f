"""GGUF files of `tenon quantize --to gguf`, read by gguf-py of llama.cpp.

    gguf_py.py PROGRAM FOLDER      makes a virtual environment in FOLDER, from PyPI, and checks the program there

A small Llama and the default model are written in each type. gguf-py must read every key and tensor. A tensor must have the bytes of
gguf-py's quantize, in the order of llama.cpp's converter. The grids of IQ1, IQ2 and IQ3 must be gguf-py's.
llama.cpp itself, from the wheel xllamacpp, must continue texts with tenon's greedy tokens in float32. With blocks it rounds
activations, too.
Exit status 77, with a line `skipped: REASON`, if PyPI cannot be reached.
"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TALES = HERE.parents[1] / "examples" / "models" / "tales"
TYPES = {"q8_0": "Q8_0", "q4_0": "Q4_0", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
PROMPTS = [{"input_ids": [977, 1340, 421, 1999, 655, 302, 1788]}, {"prompt": "Once upon a time, there was"},
           {"prompt": "The quick brown fox's 12345 jumps over"}]
WIDTH, HEADS, KEY_HEADS, INNER, LAYERS = 64, 4, 2, 96, 2


def prepare(program, folder):
    sys.path.insert(0, str(HERE.parent / "clients"))
    import run
    run.requirements = lambda name: HERE / (name + "_requirements.txt")
    try:
        run.make(folder, "gguf_py")
    except run.Skipped as reason:
        print("skipped: %s" % reason)
        return run.SKIPPED
    return subprocess.run([str(run.python_of(folder, "gguf_py")), __file__, "--here", program]).returncode


def checkpoint(folder):
    """{name: array} of model.safetensors, in float32."""
    import numpy as np
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, info in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in info["data_offsets"])
            kind = {"F32": np.float32, "F16": np.float16}[info["dtype"]]
            out[name] = np.frombuffer(data[begin:end], kind).reshape(info["shape"]).astype(np.float32)
    return out


def write_llama(folder):
    """A Llama of two layers with the vocabulary of the default model."""
    import numpy as np
    rng = np.random.default_rng(3)
    vocabulary = len(json.loads((TALES / "vocab.json").read_text()))
    config = {"model_type": "llama", "vocab_size": vocabulary, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "intermediate_size": INNER,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
              "eos_token_id": vocabulary - 1}
    shapes = {"model.embed_tokens.weight": (vocabulary, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (vocabulary, WIDTH)}
    for layer in range(LAYERS):
        prefix, key_width = f"model.layers.{layer}.", WIDTH // HEADS * KEY_HEADS
        shapes.update({prefix + "input_layernorm.weight": (WIDTH,), prefix + "post_attention_layernorm.weight": (WIDTH,),
                       prefix + "self_attn.q_proj.weight": (WIDTH, WIDTH), prefix + "self_attn.k_proj.weight": (key_width, WIDTH),
                       prefix + "self_attn.v_proj.weight": (key_width, WIDTH), prefix + "self_attn.o_proj.weight": (WIDTH, WIDTH),
                       prefix + "mlp.gate_proj.weight": (INNER, WIDTH), prefix + "mlp.up_proj.weight": (INNER, WIDTH),
                       prefix + "mlp.down_proj.weight": (WIDTH, INNER)})
    header, data = {}, b""
    for name, shape in shapes.items():
        values = rng.normal(1 if "norm" in name else 0, 0.3, shape).astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (folder / name).write_bytes((TALES / name).read_bytes())
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    return folder


def expected(architecture, folder):
    """The tensors as convert_hf_to_gguf.py changes them, under gguf-py's names."""
    import gguf
    arch = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture]
    config = json.loads((folder / "config.json").read_text())
    names = gguf.get_tensor_name_map(arch, config.get("num_hidden_layers") or config["n_layer"])
    out = {}
    for name, values in checkpoint(folder).items():
        if architecture == "gpt2" and values.ndim == 2 and ".h." in "." + name and name.endswith("weight"):
            values = values.T  # Conv1D
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):  # LlamaModel.permute
            heads = HEADS if "q_proj" in name else KEY_HEADS
            values = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found, name
        out[found] = values
    return out


def compare(path, architecture, tensors, kind):
    import gguf
    import numpy as np
    reader = gguf.GGUFReader(path)
    assert reader.fields["general.architecture"].contents() == architecture
    for key in ("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.merges",
                architecture + ".block_count", architecture + ".context_length"):
        assert key in reader.fields, key
    assert [each.name for each in reader.tensors] and {each.name for each in reader.tensors} == set(tensors), path
    for tensor in reader.tensors:
        values = np.ascontiguousarray(tensors[tensor.name])
        vector = values.ndim == 1 or tensor.name.endswith("_norm.weight") or tensor.name == "position_embd.weight"
        wanted = gguf.GGMLQuantizationType.F32 if vector else gguf.GGMLQuantizationType[kind]
        assert tensor.tensor_type == wanted, (tensor.name, tensor.tensor_type)
        assert np.array_equal(tensor.data.reshape(-1).view(np.uint8), gguf.quantize(values, wanted).reshape(-1).view(np.uint8)), tensor.name
    return reader


def texts_of_tenon(program, model, prompts):
    lines = "".join(json.dumps({**prompt, "max_new_tokens": 12, "ignore_eos": True}) + "\n" for prompt in prompts)
    done = subprocess.run([program, "run", "--model", model, "--threads", "1"], input=lines, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return [json.loads(line)["text"] for line in done.stdout.splitlines()]


def texts_of_llama_cpp(path, prompts):
    """Greedy texts by llama.cpp; None where its wheel does not run."""
    try:
        import xllamacpp
    except ImportError:
        return None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = 128
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = 1
    parameters.warmup = False
    server = xllamacpp.Server(parameters)
    out = []
    for prompt in prompts:
        answer = server.handle_completions({"prompt": prompt.get("prompt", prompt.get("input_ids")), "max_tokens": 12, "temperature": 0,
                                            "top_k": 1, "ignore_eos": True, "cache_prompt": False})
        answer = json.loads(answer) if isinstance(answer, str) else answer
        out.append(answer["choices"][0]["text"])
    return out


def check(program):
    subprocess.run([sys.executable, HERE.parents[1] / "scripts" / "gguf-grids", "--check"], check=True)
    checked, peers = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for architecture, model in (("llama", write_llama(folder / "llama")), ("gpt2", TALES)):
            tensors = expected(architecture, model)
            for word, kind in TYPES.items():
                path = folder / f"{architecture}.{word}.gguf"
                subprocess.run([program, "quantize", "--model", model, "--to", "gguf", "--weights", word, "--threads", "1", path], check=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                reader = compare(path, architecture, tensors, kind)
                if architecture == "llama":
                    assert "messages" in reader.fields["tokenizer.chat_template"].contents()
                checked += len(reader.tensors)
                if word == "float32":
                    mine = texts_of_tenon(program, str(path), PROMPTS)
                    assert mine == texts_of_tenon(program, str(model), PROMPTS), path
                    theirs = texts_of_llama_cpp(path, PROMPTS)
                    assert theirs is None or theirs == mine, (theirs, mine)
                    peers += len(theirs or [])
    print(f"{checked} tensors have the bytes of gguf-py; llama.cpp continued {peers} texts alike")
    return 0


if __name__ == "__main__":
    sys.exit(check(sys.argv[2]) if sys.argv[1] == "--here" else prepare(sys.argv[1], sys.argv[2]))
