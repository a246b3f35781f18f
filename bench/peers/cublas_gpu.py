"""The matrix products of GPT-2 124M, by cuBLAS in a CUDA graph: cublas_gpu.py DIR|random DTYPE.

A bound for any implementation that uses cuBLAS: it computes nothing but products."""
import sys
import time

import torch
from work import median, serve

if not torch.cuda.is_available():
    sys.exit("torch sees no CUDA device")
dtype = getattr(torch, sys.argv[2])
torch.backends.cuda.matmul.allow_tf32 = False
SHAPES = [(768, 2304), (768, 768), (768, 3072), (3072, 768)]
torch.manual_seed(1234)
layers = [[torch.randn(n, k, device="cuda", dtype=dtype) * 0.02 for k, n in SHAPES] for _ in range(12)]
head = torch.randn(50257, 768, device="cuda", dtype=dtype) * 0.02
graphs = {}


def graph_of(rows, logit_rows):
    """All products of a step, as a graph."""
    x = {k: torch.randn(rows, k, device="cuda", dtype=dtype) for k in (768, 3072)}

    def products():
        for layer in layers:
            for (k, _), weight in zip(SHAPES, layer):
                torch.nn.functional.linear(x[k], weight)
        torch.nn.functional.linear(x[768][:logit_rows], head)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        products()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        products()
    return graph, x  # x: the graph reads it


@torch.no_grad()
def run(case, batch, tokens, context=0):
    rows, logit_rows, count = (batch * tokens, batch, 5) if case == "prefill" else (batch, batch, tokens)
    if (rows, logit_rows) not in graphs:
        graphs[rows, logit_rows] = graph_of(rows, logit_rows)
    times = []
    for _ in range(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graphs[rows, logit_rows][0].replay()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return rows / median(times)


serve("cublas", sys.argv[2], run)
