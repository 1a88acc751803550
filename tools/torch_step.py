#!/usr/bin/env python3
"""PyTorch's side of `./dev bench step`, `kernels` and `gpu` (bench/torch_peer.h).

Reads one piece of work a line from stdin and answers with one line of stdout:

  version                                 -> "2.x.y"
  products                                -> GFLOP/s of 1024 x 1024 float32 products, the best of three
  step MODEL TYPE                         -> processor seconds of one training step
  attention B T HEADS KV_HEADS SIZE TYPE  -> processor seconds of causal attention, forward and backward

MODEL is one of MODELS, TYPE float32 or bf16 (autocast). With several threads seconds are of the wall
clock. On SKERRY_TORCH_DEVICE=cuda:N the step is compiled (torch.compile). The model is ours: RMSNorm, RoPE (rotate-half), grouped-query attention, SwiGLU, untied head.
"""
import math
import os
import sys
import time

import torch
import torch.nn.functional as F

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
DEVICE = torch.device(os.environ.get("SKERRY_TORCH_DEVICE", "cpu"))
ON_GPU = DEVICE.type == "cuda"
# (vocabulary, hidden, layers, heads, kv heads, ffn, context), sequences of a step
MODELS = {
    "10m": ((4096, 256, 8, 8, 4, 704, 512), 4),
    "50m": ((8192, 512, 12, 8, 4, 1408, 512), 4),
    "124m": ((25600, 768, 12, 12, 12, 2048, 1024), 16),
    "1b": ((25600, 2048, 20, 16, 8, 5504, 2048), 8),
}
FUSED = hasattr(F, "scaled_dot_product_attention")


def clock():
    if ON_GPU:
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time() if THREADS == 1 else time.perf_counter()


def causal(q, k, v):
    """q [B, H, T, e]; k, v [B, G, T, e] -> [B, H, T, e]"""
    group = q.shape[1] // k.shape[1]
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    if FUSED:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[2]
    mask = torch.full((t, t), -math.inf, dtype=q.dtype).triu(1)
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v


class Norm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Layer(torch.nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, hidden // heads
        linear = lambda i, o: torch.nn.Linear(i, o, bias=False)
        self.norm1, self.norm2 = Norm(hidden), Norm(hidden)
        self.q, self.o = linear(hidden, hidden), linear(hidden, hidden)
        self.k, self.v = (linear(hidden, kv_heads * self.size) for _ in range(2))
        self.gate, self.up, self.down = linear(hidden, ffn), linear(hidden, ffn), linear(ffn, hidden)

    def turned(self, x, cos, sin):
        half = self.size // 2
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        a = self.norm1(x)
        split = lambda y, n: y.view(b, t, n, self.size).transpose(1, 2)
        q = self.turned(split(self.q(a), self.heads), cos, sin)
        k = self.turned(split(self.k(a), self.kv_heads), cos, sin)
        v = split(self.v(a), self.kv_heads)
        x = x + self.o(causal(q.to(v.dtype), k.to(v.dtype), v).transpose(1, 2).reshape(b, t, d))
        a = self.norm2(x)
        return x + self.down(F.silu(self.gate(a)) * self.up(a))


class Model(torch.nn.Module):
    def __init__(self, vocabulary, hidden, layers, heads, kv_heads, ffn, context):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, hidden)
        self.layers = torch.nn.ModuleList([Layer(hidden, heads, kv_heads, ffn) for _ in range(layers)])
        self.norm, self.head = Norm(hidden), torch.nn.Linear(hidden, vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                torch.nn.init.normal_(p, 0, 0.02)
        size = hidden // heads
        angles = torch.outer(torch.arange(context).float(), 10000.0 ** (-torch.arange(0, size, 2).float() / size))
        angles = torch.cat([angles, angles], -1).to(DEVICE)
        self.cos, self.sin = angles.cos()[None, None], angles.sin()[None, None]

    def forward(self, tokens, targets):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class Trainer:
    def __init__(self, name, kind):
        torch.manual_seed(0)
        sizes, batch = MODELS[name]
        self.model = Model(*sizes).to(DEVICE)
        self.kind = kind
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **({"fused": True} if ON_GPU else {})
        )
        if ON_GPU:
            self.model = torch.compile(self.model)
        self.tokens = torch.randint(0, sizes[0], (batch, sizes[-1] + 1), device=DEVICE)
        self.step()

    def step(self):
        start = clock()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=self.kind == "bf16"):
            loss = self.model(self.tokens[:, :-1].contiguous(), self.tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return clock() - start


class Attention:
    def __init__(self, b, t, heads, kv_heads, size, kind):
        make = lambda n: torch.randn(b, n, t, size).to(DEVICE, torch.bfloat16 if kind == "bf16" else torch.float32)
        self.q, self.k, self.v = (make(n).requires_grad_() for n in (heads, kv_heads, kv_heads))
        self.d_out = make(heads)
        self.step()

    def step(self):
        start = clock()
        causal(self.q, self.k, self.v).backward(self.d_out)
        seconds = clock() - start
        self.q.grad = self.k.grad = self.v.grad = None
        return seconds


def products():
    a, b = (torch.randn(1024, 1024, device=DEVICE) for _ in range(2))
    best = math.inf
    for _ in range(3):
        start = clock()
        a @ b
        best = min(best, clock() - start)
    return 2 * 1024**3 / best / 1e9


def main():
    torch.set_num_threads(THREADS)
    kept = {}
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            if word == "version":
                answer = torch.__version__
            elif word == "products":
                answer = f"{products():.3f}"
            else:
                if line not in kept:
                    kept[line] = Trainer(*rest) if word == "step" else Attention(*map(int, rest[:-1]), rest[-1])
                answer = f"{kept[line].step():.6f}"
        except (RuntimeError, KeyError, ValueError) as error:
            answer = "failed: " + str(error).splitlines()[0]
        print(answer, flush=True)


if __name__ == "__main__":
    main()
