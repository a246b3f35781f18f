"""Measures llama.cpp through llama-cpp-python's low-level calls: llamacpp_cpu.py DIR F32|BF16|Q8_0|Q4_0.

Decode rates are medians over llama_decode steps. The input tokens are fixed; none is sampled from the logits."""
import ctypes
import sys
import time

import llama_cpp
from work import PROMPT, THREADS, long_prompt, median, serve

quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()
form = sys.argv[2]
model = llama_cpp.llama_model_load_from_file(f"{sys.argv[1]}/{form.lower()}.gguf".encode(), llama_cpp.llama_model_default_params())
if not model:
    raise SystemExit(f"llama.cpp read no {form}; make the folder with make_gpt2.py")


def context(sequences, tokens):
    p = llama_cpp.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = max(tokens * sequences, 512), 2048, 512, sequences
    p.n_threads = p.n_threads_batch = THREADS
    p.type_k = p.type_v = 0  # GGML_TYPE_F32, like all other peers
    p.kv_unified = True  # one cache for all: twice as fast as a cache per sequence with 8 or more sequences
    made = llama_cpp.llama_init_from_model(model, p)
    if not made:
        raise SystemExit("llama.cpp made no context")
    return made


def decode(ctx, rows):
    """rows: (token, position, sequence, whether logits are needed)."""
    b = llama_cpp.llama_batch_init(len(rows), 0, 1)
    b.n_tokens = len(rows)
    for i, (token, position, sequence, logits) in enumerate(rows):
        b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, logits
        b.seq_id[i][0] = sequence
    begin = time.perf_counter()
    if llama_cpp.llama_decode(ctx, b):
        raise SystemExit("llama_decode failed")
    llama_cpp.llama_synchronize(ctx)
    seconds = time.perf_counter() - begin
    llama_cpp.llama_batch_free(b)
    return seconds


def run(case, batch, tokens):
    if case == "prefill":
        ctx = context(1, tokens)
        rows = [(token, i, 0, i == tokens - 1) for i, token in enumerate(long_prompt(tokens))]
        decode(ctx, rows)  # the first call also allocates its buffers
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(ctx), True)
        rate = tokens / decode(ctx, rows)
    else:
        ctx = context(batch, 64)
        for s in range(batch):
            decode(ctx, [(t, i, s, i == len(PROMPT) - 1) for i, t in enumerate(PROMPT)])
        steps = [decode(ctx, [((s * 31 + n * 7) % 49000, len(PROMPT) + n, s, True) for s in range(batch)]) for n in range(tokens - 1)]
        rate = batch / median(steps)
    llama_cpp.llama_free(ctx)
    return rate


serve("llama.cpp", form, run)
