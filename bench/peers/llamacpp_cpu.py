"""llama.cpp F32 through llama-cpp-python's low-level calls: llamacpp_cpu.py DIR. Medians of llama_decode steps; greedy by
numpy's argmax over its logits, which is not timed."""
import ctypes
import sys
import time

import llama_cpp
from work import DECODE_TOKENS, PREFILL_TOKENS, PROMPT, median, serve

quiet = llama_cpp.llama_log_callback(lambda level, text, user: None)
llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
llama_cpp.llama_backend_init()
model = llama_cpp.llama_model_load_from_file((sys.argv[1] + "/f32.gguf").encode(), llama_cpp.llama_model_default_params())


def context(sequences, tokens):
    p = llama_cpp.llama_context_default_params()
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_seq_max = max(tokens, 512) * max(sequences, 1), 2048, 512, sequences
    p.n_threads = p.n_threads_batch = 2
    p.type_k = p.type_v = 0  # GGML_TYPE_F32, as everybody else's here
    p.kv_unified = True
    made = llama_cpp.llama_init_from_model(model, p)
    if not made:
        raise SystemExit("llama.cpp made no context")
    return made


def decode(ctx, rows):
    """rows: (token, position, sequence, wants logits)."""
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


def run(case, batch):
    if case == "prefill":
        ctx = context(1, PREFILL_TOKENS)
        rows = [((i * 7919) % 50000, i, 0, i == PREFILL_TOKENS - 1) for i in range(PREFILL_TOKENS)]
        decode(ctx, rows)  # the first call also reserves its buffers
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(ctx), True)
        rate = PREFILL_TOKENS / decode(ctx, rows)
    else:
        new = DECODE_TOKENS[batch]
        ctx = context(batch, 64)
        for s in range(batch):
            decode(ctx, [(t, i, s, i == len(PROMPT) - 1) for i, t in enumerate(PROMPT)])
        steps = [decode(ctx, [((s * 31 + n * 7) % 50000, len(PROMPT) + n, s, True) for s in range(batch)]) for n in range(new - 1)]
        rate = batch / median(steps)
    llama_cpp.llama_free(ctx)
    return rate


serve("llama.cpp", run)
