"""Plain torch on a GPU: torch_graph_gpu.py random|random-llama-1b|random-tiny DTYPE-eager|DTYPE-compile.

A decoder with random weights whose whole step, sampling included, is one CUDA graph: the rate of standard kernels without host work.
-compile: torch.compile compiles the step before it is recorded. This is its best case: every row attends to the same number of tokens,
without mask or paging; steps are replayed without a pause; and a prompt's keys are not kept.
TENON_PEERS_ON_CPU=1 runs the same code on a CPU without graphs, as a rehearsal without a device.
"""
import os
import sys
import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from work import PROMPT, median, serve

REHEARSAL = os.environ.get("TENON_PEERS_ON_CPU") == "1"
if not REHEARSAL and not torch.cuda.is_available():
    sys.exit("torch sees no CUDA device")
DEVICE = "cpu" if REHEARSAL else "cuda"
PREFILL_STEPS = 10
HOST_STEPS = 16
torch.set_grad_enabled(False)
torch.manual_seed(1234)
torch.backends.cuda.matmul.allow_tf32 = False


@dataclass(frozen=True)
class Shape:
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    positions: int
    gated: bool  # like Llama: RMS norms, rotary positions, a gated MLP, no biases; otherwise like GPT-2

    @property
    def hidden(self):
        return self.heads * self.head_dim


SHAPES = {"random": Shape(12, 12, 12, 64, 3072, 50257, 1024, False),
          "random-llama-1b": Shape(16, 32, 8, 64, 8192, 128256, 8192, True),
          "random-tiny": Shape(2, 4, 2, 16, 128, 500, 1024, True)}


class Decoder:
    """Weights, and hidden rows from rows of tokens."""

    def __init__(self, shape, dtype):
        self.shape = shape
        width, keys = shape.hidden, shape.kv_heads * shape.head_dim

        def matrix(outputs, inputs):
            return torch.randn(outputs, inputs, device=DEVICE, dtype=dtype) * 0.02

        def vector(size, value):
            return torch.full((size,), value, device=DEVICE, dtype=dtype)

        def linear(outputs, inputs):
            return matrix(outputs, inputs), None if shape.gated else vector(outputs, 0.0)

        def norm():
            return vector(width, 1.0), None if shape.gated else vector(width, 0.0)

        self.embedding = matrix(shape.vocab, width)  # also the head
        self.blocks = [{"norm1": norm(), "qkv": linear(width + 2 * keys, width), "out": linear(width, width), "norm2": norm(),
                        "up": linear((2 if shape.gated else 1) * shape.inner, width), "down": linear(width, shape.inner)}
                       for _ in range(shape.layers)]
        self.last_norm = norm()
        if shape.gated:
            rates = 500000.0 ** (-torch.arange(0, shape.head_dim, 2, device=DEVICE) / shape.head_dim)
            angles = torch.arange(shape.positions, device=DEVICE)[:, None] * rates
            self.cosines, self.sines = angles.cos(), angles.sin()
        else:
            self.positions = matrix(shape.positions, width)

    def normed(self, x, norm):
        if self.shape.gated:
            return F.rms_norm(x, x.shape[-1:], norm[0], 1e-5)
        return F.layer_norm(x, x.shape[-1:], *norm)

    def rotated(self, x, positions):
        """x: [..., heads, head_dim]"""
        cosine, sine = self.cosines[positions][..., None, :], self.sines[positions][..., None, :]
        low, high = x.float().chunk(2, -1)
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1).to(x.dtype)

    def mlp(self, x, block):
        x = F.linear(x, *block["up"])
        if self.shape.gated:
            gate, value = x.chunk(2, -1)
            return F.linear(F.silu(gate) * value, *block["down"])
        return F.linear(F.gelu(x, approximate="tanh"), *block["down"])

    def hidden(self, ids, positions, attend):
        """attend(layer, q, k, v), each [..., heads, head_dim], returns [..., width]. ids, positions: [...]"""
        s = self.shape
        x = self.embedding[ids]
        if not s.gated:
            x = x + self.positions[positions]
        for layer, block in enumerate(self.blocks):
            qkv = F.linear(self.normed(x, block["norm1"]), *block["qkv"])
            q, k, v = (part.unflatten(-1, (-1, s.head_dim)) for part in qkv.split([s.hidden, s.kv_heads * s.head_dim, s.kv_heads * s.head_dim], -1))
            if s.gated:
                q, k = self.rotated(q, positions), self.rotated(k, positions)
            x = x + F.linear(attend(layer, q, k, v), *block["out"])
            x = x + self.mlp(self.normed(x, block["norm2"]), block)
        return self.normed(x, self.last_norm)

    def picks(self, hidden):
        return F.linear(hidden, self.embedding).argmax(-1)

    def decoding(self, rows, length):
        """A step of rows that attend to `length` tokens each, and its tensors: (step, ids, positions)."""
        s = self.shape
        store = [torch.randn(2, rows, length, s.kv_heads, s.head_dim, device=DEVICE).to(self.embedding.dtype) for _ in self.blocks]
        last = torch.full((1,), length - 1, device=DEVICE)

        def attend(layer, q, k, v):
            keys, values = store[layer]
            keys.index_copy_(1, last, k[:, None])
            values.index_copy_(1, last, v[:, None])
            # Heads that share keys become rows of one query, so keys are not repeated.
            q = q.view(rows, s.kv_heads, s.heads // s.kv_heads, s.head_dim)
            return F.scaled_dot_product_attention(q, keys.transpose(1, 2), values.transpose(1, 2)).reshape(rows, s.hidden)

        def step(ids, positions):
            return self.picks(self.hidden(ids, positions, attend))

        return step, torch.arange(rows, device=DEVICE), torch.full((rows,), length - 1, device=DEVICE)

    def prefill(self, prompts, tokens):
        s = self.shape

        def attend(layer, q, k, v):
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=s.heads != s.kv_heads)
            return mixed.transpose(1, 2).reshape(prompts, tokens, s.hidden)

        def step(ids, positions):
            return self.picks(self.hidden(ids, positions, attend)[:, -1])

        ids = torch.arange(prompts * tokens, device=DEVICE).view(prompts, tokens) * 7919 % min(50000, s.vocab)
        return step, ids, torch.arange(tokens, device=DEVICE).expand(prompts, tokens)


class Recorded:
    """A step as a graph. With `feed`, its picked tokens are the input of the next step."""

    def __init__(self, step, ids, positions, feed):
        def once():
            picked = step(ids, positions)
            if feed:
                ids.copy_(picked)
            return picked

        if REHEARSAL:
            self.picked = once()
            self.replay = once
            return
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                once()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.picked = once()
        self.replay = graph.replay

    def seconds(self, steps):
        """Seconds per step if the host does not wait between steps."""
        if REHEARSAL:
            begin = time.perf_counter()
            for _ in range(steps):
                self.replay()
            return (time.perf_counter() - begin) / steps
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(steps):
            self.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3 / steps

    def seconds_with_host(self, steps):
        """Seconds per step if its tokens reach the host before the next step begins."""
        times = []
        for _ in range(steps):
            begin = time.perf_counter()
            self.replay()
            self.picked.tolist()
            times.append(time.perf_counter() - begin)
        return median(times)


dtype, kind = sys.argv[2].split("-")
model = Decoder(SHAPES[sys.argv[1]], getattr(torch, dtype))
steps = {}  # by case, because a graph reads the tensors that it was recorded with


def recorded(case, batch, tokens, context):
    key = (case, batch, tokens, context)
    if key not in steps:
        if case == "prefill":
            step, ids, positions = model.prefill(batch, tokens)
        else:  # `length` is the mean while `tokens` are written
            step, ids, positions = model.decoding(batch, (context or len(PROMPT)) + tokens // 2)
        if kind == "compile":
            step = torch.compile(step, fullgraph=True, dynamic=False)
        steps[key] = Recorded(step, ids, positions, case != "prefill")
    return steps[key]


def run(case, batch, tokens, context=0):
    graph = recorded(case, batch, tokens, context)
    rows, count = (batch * tokens, PREFILL_STEPS) if case == "prefill" else (batch, tokens)
    graph.seconds(2)
    return {"tok_s": round(rows / graph.seconds(count), 2), "tok_s_host": round(rows / graph.seconds_with_host(min(HOST_STEPS, count)), 2)}


serve("torch_graph", sys.argv[2], run)
